package sim

import (
	"errors"
	"math/rand/v2"
	"strings"

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

var errDiskFull = errors.New("no space left on device")

// diskError is what an ill disk answers: everything that changes it fails, as on a full one.
func diskError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead || strings.HasSuffix(op.Path, "LOCK") {
		return nil
	}
	return errDiskFull
}

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
