package sim

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crashed clones a disk as a power cut leaves it.
func (w *world) crashed(disk *vfs.MemFS) *vfs.MemFS {
	w.diskMu.Lock()
	defer w.diskMu.Unlock()
	percent := []int{0, 0, 50, 100}[w.diskRand.IntN(4)]
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(w.diskRand.Uint64(), 1))})
}

// copied is a copy of a disk that nobody writes to any more, or one under a running process.
func copied(disk *vfs.MemFS) *vfs.MemFS { return disk.CrashClone(vfs.CrashCloneCfg{}) }

var (
	errDiskFull     = errors.New("no space left on device")
	errNoCheckpoint = errors.New("none names it")
)

// illness is what is wrong with the disk of a process: every operation passes it.
type illness struct {
	p    *process
	full atomic.Bool
	slow atomic.Int64 // nanoseconds that an fsync of the log takes
}

// MaybeError implements errorfs.Injector. On a full disk everything that changes it fails.
func (i *illness) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		i.p.w.tr.add(i.p.name, "SYNC %s", op.Path)
		if d := time.Duration(i.slow.Load()); d > 0 && strings.HasSuffix(op.Path, ".log") { // others are synced below Pebble's locks, and whoever waits for a lock stops the bubble's clock
			select {
			case <-time.After(d):
			case <-i.p.dead:
			}
		}
	}
	if !i.full.Load() || op.Kind.ReadOrWrite() == errorfs.OpIsRead || strings.HasSuffix(op.Path, "LOCK") {
		return nil
	}
	return errDiskFull
}

// String implements errorfs.Injector.
func (i *illness) String() string { return "illness" }

// lightDisk does not keep the 4 MiB that the store writes when it opens to see whether there is room: they were a quarter of the
// simulation's work.
type lightDisk struct{ vfs.FS }

func (d lightDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err == nil && strings.HasSuffix(name, "probe.tmp") {
		return lightFile{f}, nil
	}
	return f, err
}

type lightFile struct{ vfs.File }

func (lightFile) Write(b []byte) (int, error) { return len(b), nil }

// diskRandom is a source of its own for whoever needs one.
func (w *world) diskRandom() *rand.Rand {
	w.diskMu.Lock()
	defer w.diskMu.Unlock()
	return rand.New(rand.NewPCG(w.diskRand.Uint64(), 2))
}
