package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// traceLines bounds the trace: a run that goes wild must not eat the machine's memory. The last lines are kept.
const traceLines = 400_000

// trace is what happened in one run, with virtual times. Safe for concurrent use; its lock is never held while anything waits, so that it
// does not hold up the bubble's clock.
type trace struct {
	began time.Time

	mu    sync.Mutex
	lines []string
	lost  int
}

func newTrace() *trace { return &trace{began: time.Now()} }

func (tr *trace) add(who, format string, args ...any) {
	line := fmt.Sprintf("%10.3f %-8s %s", time.Since(tr.began).Seconds(), who, fmt.Sprintf(format, args...))
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.lines) == traceLines {
		tr.lines = tr.lines[traceLines/4:]
		tr.lost += traceLines / 4
	}
	tr.lines = append(tr.lines, line)
}

// logWriter puts a bridge's own log into the trace.
type logWriter struct {
	tr  *trace
	who string
}

func (w logWriter) Write(b []byte) (int, error) {
	w.tr.add(w.who, "LOG %s", bytes.TrimSpace(b))
	return len(b), nil
}

// save writes the trace of a failed run and says where.
func (tr *trace) save(t *testing.T, seed uint64) {
	dir := *traceDir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "bridge-sim-"); err != nil { // not t.TempDir: that is gone when somebody wants to read it
			t.Logf("no directory for the trace: %v", err)
			return
		}
	}
	name := filepath.Join(dir, fmt.Sprintf("seed-%d-%d.trace", seed, os.Getpid()))
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var text bytes.Buffer
	if tr.lost > 0 {
		fmt.Fprintf(&text, "the first %d lines were dropped\n", tr.lost)
	}
	for _, l := range tr.lines {
		text.WriteString(l)
		text.WriteByte('\n')
	}
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		t.Logf("the trace could not be written: %v", err)
		return
	}
	t.Logf("trace: %s", name)
}
