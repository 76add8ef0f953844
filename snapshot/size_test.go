package snapshot

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kafkabridge/semantics"
)

func used(t *testing.T, fs vfs.FS, dir string) (n int64) {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil { // it may have been deleted meanwhile
			n += info.Size()
		}
	}
	return n
}

// TestSizeAndGoroutinesStaySmall makes 10,000 checkpoints, which is many rounds of flush and compaction. The promise is 64 MiB after
// 100,000; one run of that many had at most 2.8 MiB.
func TestSizeAndGoroutinesStaySmall(t *testing.T) {
	rounds := semantics.Epoch(10_000)
	if raceDetector {
		rounds = 1_000
	}
	fs := vfs.NewMem()
	before := runtime.NumGoroutine()
	s := mustOpen(t, Options{Path: "state", Bridge: "b", FS: fs})
	var most int64
	goroutines := 0
	for e := semantics.Epoch(1); e <= rounds; e++ {
		must(t, s.Save(full(e, semantics.Proposed)))
		must(t, s.Decide(e, semantics.Decided))
		if e%500 == 0 {
			most = max(most, used(t, fs, "state"))
			goroutines = max(goroutines, runtime.NumGoroutine()-before)
		}
	}
	if got := epochs(t, s); !slices.Equal(got, []semantics.Epoch{rounds - 2, rounds - 1, rounds}) {
		t.Fatal(got)
	}
	must(t, s.Close())
	t.Logf("most %d KiB, %d goroutines", most>>10, goroutines)
	if most > 8<<20 {
		t.Errorf("%d bytes", most)
	}
	if goroutines > 20 {
		t.Errorf("%d goroutines", goroutines)
	}
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines left\n%s", n-before, buf[:runtime.Stack(buf, true)])
	}
}

// syncs counts what makes a write durable.
type syncs struct {
	errorfs.Injector
	n int
}

func (s *syncs) String() string { return "syncs" }
func (s *syncs) MaybeError(op errorfs.Op) error {
	if k := op.Kind; (k == errorfs.OpFileSync || k == errorfs.OpFileSyncData || k == errorfs.OpFileSyncTo) && strings.HasSuffix(op.Path, ".log") {
		s.n++
	}
	return nil
}

func TestOneSyncEach(t *testing.T) {
	count := &syncs{}
	s := mustOpen(t, Options{Path: "state", Bridge: "b", FS: errorfs.Wrap(vfs.NewMem(), count)})
	defer s.Close()
	step := func(what string, err error) {
		t.Helper()
		must(t, err)
		if count.n != 1 {
			t.Errorf("%s: %d syncs of the log, want 1", what, count.n)
		}
		count.n = 0
	}
	count.n = 0
	step("save", s.Save(full(1, semantics.Proposed)))
	step("decide", s.Decide(1, semantics.Decided))
	step("save decided", s.Save(full(2, semantics.Decided)))
	step("drop", s.Drop(1))
}

// TestDiskThatRefuses covers what a test as root cannot make with a real directory.
func TestDiskThatRefuses(t *testing.T) {
	for errno, name := range map[syscall.Errno]string{syscall.EACCES: "EACCES", syscall.EROFS: "EROFS", syscall.ENOSPC: "ENOSPC", syscall.EIO: "EIO"} {
		for _, lockToo := range []bool{true, false} {
			mem := vfs.NewMem()
			must(t, mem.MkdirAll("state", 0o700))
			in := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && (lockToo || op.Kind != errorfs.OpLock) {
					return errno
				}
				return nil
			})
			_, err := Open(Options{Path: "state", Bridge: "b", FS: errorfs.Wrap(mem, in)})
			refused(t, err, semantics.ExitGaveUp, "state directory state", name)
		}
	}
}

// TestFrozenInstancesAreBounded lets the disk fail again and again just after it worked.
func TestFrozenInstancesAreBounded(t *testing.T) {
	in := &injector{err: syscall.EIO}
	s := mustOpen(t, Options{Path: "state", Bridge: "b", FS: errorfs.Wrap(vfs.NewMem(), in)})
	for n := range maxFrozen {
		in.at.Store(in.count.Load() + 1)
		if err := s.Save(full(1, semantics.Proposed)); semantics.ClassOf(err) != semantics.Unknown {
			t.Fatalf("failure %d: %v", n, err)
		}
		in.at.Store(0)
		if n < maxFrozen-1 {
			must(t, s.Save(full(1, semantics.Proposed)))
		}
	}
	refused(t, s.Save(full(1, semantics.Proposed)), semantics.ExitGaveUp, "start the process anew")
	must(t, s.Close())
}

func BenchmarkSave(b *testing.B) {
	s, err := Open(Options{Path: filepath.Join(b.TempDir(), "state"), Bridge: "b"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var all []time.Duration
	for e := semantics.Epoch(1); b.Loop(); e++ {
		start := time.Now()
		if err := s.Save(full(e, semantics.Decided)); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "µs-p99")
}
