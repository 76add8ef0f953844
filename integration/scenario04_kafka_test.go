//go:build kafka

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
)

// TestScenario04StateDirectoryLost: the state directory is deleted between a kill and the restart, with and
// without a prepared transaction in flight: still exactly once, and said loudly.
func TestScenario04StateDirectoryLost(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	records := r.dieAt(daemon.AfterPersist+":3", 30_000)
	if err := os.RemoveAll(r.state()); err != nil {
		t.Fatal(err)
	}
	d := r.start("")
	r.ready(d)
	r.drained(d)
	r.warned(d.Log())
	r.note(d)
	r.terminate(d)
	r.exactlyOnce(records)
}

// TestScenario04OldCopyRestored: a copy of the state directory from some epochs ago, also one whose prepared
// transaction was committed long since, replaces the newest.
func TestScenario04OldCopyRestored(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	wait := r.background(r.plan(3, 20_000, 6_000))
	r.failpoint(r.start(daemon.AfterPersist+":2"), time.Minute)
	backup := filepath.Join(r.dir, "backup")
	if err := os.CopyFS(backup, os.DirFS(r.state())); err != nil {
		t.Fatal(err)
	}
	r.failpoint(r.start(daemon.AfterCommit+":4"), time.Minute)
	if err := os.RemoveAll(r.state()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, r.state()); err != nil {
		t.Fatal(err)
	}
	d := r.start("")
	r.ready(d)
	records := wait().Committed
	r.drained(d)
	r.warned(d.Log())
	r.note(d)
	r.terminate(d)
	r.exactlyOnce(records)
}

// TestScenario04ForeignStateDirectory: the directory of another bridge is refused with exit 3, and unharmed.
func TestScenario04ForeignStateDirectory(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	produce(t, r.plan(3, 2_000, 0))
	r.untilEnd()
	foreign := r.cfg.Clone()
	foreign.Name = r.name + "-other"
	log := r.exit(r.startWith(foreign, ""), 3, readyLimit)
	r.says(log, r.name, foreign.Name, r.state())
	r.untilEnd()
	r.exactlyOnce(6_000)
}

// warned wants a warning or an error that speaks of the state directory.
func (r *rig) warned(log string) {
	r.t.Helper()
	for line := range strings.Lines(log) {
		loud := strings.Contains(line, "[WARN]") || strings.Contains(line, "[ERROR]")
		if loud && strings.Contains(strings.ToLower(line), "state") {
			return
		}
	}
	r.t.Errorf("no warning about the state directory:\n%s", log[max(0, len(log)-4000):])
}
