package snapshot

import (
	"errors"
	"flag"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kafkabridge/semantics"
)

// big makes values large enough that a few of them fill a memtable: log rotation, flush, compaction and deletion of
// obsolete files all happen within a short test.
func big(epoch semantics.Epoch, status semantics.Status) semantics.Checkpoint {
	c := full(epoch, status)
	v := make([]byte, 300<<10) // random, so that compression does not shrink it
	_, _ = rand.NewChaCha8([32]byte{byte(epoch)}).Read(v)
	c.State = map[string][]byte{"k": v}
	return c
}

// model is what the store has promised: what is surely there, and for the one operation that failed, what may be there instead.
type model struct {
	sure  map[semantics.Epoch]semantics.Checkpoint
	maybe map[semantics.Epoch]semantics.Checkpoint // nil: nothing is uncertain
}

func (m *model) states() []map[semantics.Epoch]semantics.Checkpoint {
	if m.maybe == nil {
		return []map[semantics.Epoch]semantics.Checkpoint{m.sure}
	}
	return []map[semantics.Epoch]semantics.Checkpoint{m.sure, m.maybe}
}

func (m *model) after(f func(map[semantics.Epoch]semantics.Checkpoint)) map[semantics.Epoch]semantics.Checkpoint {
	n := map[semantics.Epoch]semantics.Checkpoint{}
	for k, v := range m.sure {
		n[k] = v
	}
	f(n)
	return n
}

// apply records the outcome of one operation.
func (m *model) apply(err error, f func(map[semantics.Epoch]semantics.Checkpoint)) {
	if err == nil {
		m.sure, m.maybe = m.after(f), nil
		return
	}
	if semantics.ClassOf(err) == semantics.Unknown {
		m.maybe = m.after(f)
	}
}

func check(t *testing.T, what string, s *Store, m *model) {
	t.Helper()
	all, err := s.Load()
	if err != nil {
		t.Fatalf("%s: load: %v", what, err)
	}
	got := map[semantics.Epoch]semantics.Checkpoint{}
	for _, c := range all {
		got[c.Epoch] = c
	}
	for _, want := range m.states() {
		if reflect.DeepEqual(got, want) {
			m.sure, m.maybe = got, nil
			return
		}
	}
	keys := func(m map[semantics.Epoch]semantics.Checkpoint) (k []string) {
		for e, c := range m {
			k = append(k, string(rune('0'+e))+c.Status.String())
		}
		return k
	}
	t.Fatalf("%s: there is %v; promised %v, perhaps %v", what, keys(got), keys(m.sure), keys(m.maybe))
}

// epoch saves and decides one epoch; stop ends it at the first error.
func epoch(s *Store, m *model, e semantics.Epoch, each func()) error {
	c := big(e, semantics.Proposed)
	err := s.Save(c)
	m.apply(err, func(n map[semantics.Epoch]semantics.Checkpoint) { n[e] = c })
	each()
	if err != nil {
		return err
	}
	err = s.Decide(e, semantics.Decided)
	m.apply(err, func(n map[semantics.Epoch]semantics.Checkpoint) {
		c.Status = semantics.Decided
		n[e] = c
		delete(n, e-2) // Retain is 2
	})
	each()
	return err
}

func TestCrashAfterEveryOperation(t *testing.T) {
	for seed := range uint64(3) {
		fs := vfs.NewCrashableMem()
		s := mustOpen(t, Options{Path: "state", Bridge: "b", FS: fs, Retain: 2})
		m := &model{sure: map[semantics.Epoch]semantics.Checkpoint{}}
		rng := rand.New(rand.NewPCG(seed, 0))
		crash := func() {
			clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(seed) * 50, RNG: rng})
			c := mustOpen(t, Options{Path: "state", Bridge: "b", FS: clone, Retain: 2})
			check(t, "after a crash", c, m)
			must(t, c.Close())
		}
		for e := semantics.Epoch(1); e <= 12; e++ {
			must(t, epoch(s, m, e, crash))
		}
		must(t, s.Close())
		crash()
	}
}

var every = flag.Bool("every", false, "let the disk fail at every single operation (two minutes); default every eighth")

// injector fails the n-th operation that changes the disk (and every later one while sticky).
type injector struct {
	at     atomic.Int64
	sticky bool
	err    error
	count  atomic.Int64
	hits   atomic.Int64
	off    atomic.Bool
}

func (i *injector) String() string { return "injector" }

func (i *injector) MaybeError(op errorfs.Op) error {
	if i.off.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpLock {
		return nil
	}
	n := i.count.Add(1)
	if at := i.at.Load(); n == at || i.sticky && n > at {
		i.hits.Add(1)
		return i.err
	}
	return nil
}

// TestErrorAtEveryOperation lets the disk fail at operation 1, 2, 3 … (with -every; else at each eighth; under the race detector fewer) until a
// run in which it did not fail. With sticky it
// stays failed (a full disk) until it is "freed". Whatever happens: no checkpoint is reported as durable that is not, the same store
// works again when the disk does, and so does a crash clone of that moment.
func TestErrorAtEveryOperation(t *testing.T) {
	step := int64(8)
	if raceDetector {
		step = 60
	}
	if *every {
		step = 1
	}
	for _, sticky := range []bool{false, true} {
		for at := int64(1); ; at += step {
			if !faultAt(t, at, sticky) {
				t.Logf("sticky %v: %d operations", sticky, at)
				if at < 60 {
					t.Fatalf("only %d operations: the test does not reach flushes", at)
				}
				break
			}
		}
	}
}

func faultAt(t *testing.T, at int64, sticky bool) (injected bool) {
	mem := vfs.NewCrashableMem()
	in := &injector{sticky: sticky, err: syscall.ENOSPC}
	in.at.Store(at)
	o := Options{Path: "state", Bridge: "b", FS: errorfs.Wrap(mem, in), Retain: 2}
	m := &model{sure: map[semantics.Epoch]semantics.Checkpoint{}}
	s, err := Open(o)
	for range 2 {
		if err == nil {
			break
		}
		if semantics.ClassOf(err) != semantics.Fatal || !strings.Contains(err.Error(), "state") {
			t.Fatalf("at %d: open: %v: want a fatal error that names the path", at, err)
		}
		in.off.Store(true)
		s, err = Open(o)
		in.off.Store(false)
	}
	if err != nil {
		t.Fatalf("at %d: open after the disk is well again: %v", at, err)
	}
	failed := false
	for e := semantics.Epoch(1); e <= 8; e++ {
		for try := 0; ; try++ {
			err := epoch(s, m, e, func() {})
			if err == nil {
				break
			}
			failed = true
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "state directory state") || !strings.Contains(err.Error(), "ENOSPC") {
				t.Fatalf("at %d, epoch %d: %v: want path and ENOSPC", at, e, err)
			}
			if try > 3 {
				t.Fatalf("at %d, epoch %d: still failing: %v", at, e, err)
			}
			if sticky && try == 0 {
				if err := s.Save(big(e, semantics.Proposed)); err == nil {
					t.Fatalf("at %d: saved on a full disk", at)
				} else if c := semantics.ClassOf(err); c == semantics.Unknown {
					m.apply(err, func(n map[semantics.Epoch]semantics.Checkpoint) { n[e] = big(e, semantics.Proposed) })
				}
			}
			in.off.Store(true)
			clone := mustOpen(t, Options{Path: "state", Bridge: "b", FS: mem.CrashClone(vfs.CrashCloneCfg{}), Retain: 2})
			cm := *m
			check(t, "crash clone", clone, &cm)
			must(t, clone.Close())
			check(t, "same store", s, m)
			// What Load has shown is promised from then on: recovery acts on it. After a failed fsync it may have been in the page cache only.
			clone = mustOpen(t, Options{Path: "state", Bridge: "b", FS: mem.CrashClone(vfs.CrashCloneCfg{}), Retain: 2})
			check(t, "crash clone after load", clone, m)
			must(t, clone.Close())
			if len(m.sure) > 0 && m.sure[e].Status == semantics.Decided {
				break
			}
		}
	}
	in.off.Store(true)
	if err := s.Close(); err != nil && !failed {
		t.Logf("at %d: close: %v", at, err)
	}
	s = mustOpen(t, Options{Path: "state", Bridge: "b", FS: mem, Retain: 2})
	check(t, "at the end", s, m)
	must(t, s.Close())
	return in.hits.Load() > 0
}

// TestOpenDoesNotWaitForTables is what a nearly full disk did: small files could be written, tables could not, and Pebble's Open
// repeated the flush of its log for ever.
func TestOpenDoesNotWaitForTables(t *testing.T) {
	mem := vfs.NewMem()
	var full atomic.Bool
	o := Options{Path: "state", Bridge: "b", FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))}
	s := mustOpen(t, o)
	must(t, s.Save(big(1, semantics.Decided)))
	must(t, s.Close())
	full.Store(true)
	start := time.Now()
	_, err := Open(o)
	refused(t, err, semantics.ExitGaveUp, "state directory state", ".sst", "ENOSPC")
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %s", d)
	}
	full.Store(false)
	s = mustOpen(t, o)
	if got := epochs(t, s); !slices.Equal(got, []semantics.Epoch{1}) {
		t.Fatal(got)
	}
	must(t, s.Close())
}
