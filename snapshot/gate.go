package snapshot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate is the file system that one Pebble instance sees. It exists because Pebble v2.1.7 does not survive a failing disk:
//
//   - a log record that cannot be written or fsynced: DB.Apply calls Logger.Fatalf (os.Exit by default) and, when that returns, returns nil:
//     a checkpoint would be reported as durable that is not;
//   - a log that cannot be closed or created when the memtable is full: rotateWAL panics with DB.mu unlocked, below a deferred unlock of
//     DB.mu. That is the runtime's "unlock of unlocked mutex", which no recover catches;
//   - a flush or compaction that fails is repeated at once and for ever, without a pause;
//   - a manifest that cannot be written: Logger.Fatalf in a goroutine of Pebble's.
//
// So Pebble never sees a failed write: the first one fails the instance, and every operation from then
// on, that one included, waits for ever (it is parked). Nothing is retried, nothing else reaches the disk, and another
// instance can open the directory as after kill -9. What a parked instance costs (its memtables and a few idle goroutines) is bounded
// by maxFrozen. Returning the error instead, with a Logger that panics, was rejected for the reasons above.
//
// Only while Pebble closes are errors passed on: it starts nothing anew then.
type gate struct {
	vfs.FS
	parking atomic.Bool
	failure chan struct{} // closed by fail

	mu  sync.RWMutex // read-locked by every operation under way; write-locked to freeze
	err error        // why it failed; set before failure is closed
	one sync.Once
}

func newGate(inner vfs.FS) *gate { return &gate{FS: inner, failure: make(chan struct{})} }

// Unwrap makes vfs.Root find the disk below.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// fail marks the instance as failed; the first cause is kept. It does not block.
func (g *gate) fail(err error) {
	g.one.Do(func() {
		g.err = err
		close(g.failure)
	})
}

func (g *gate) failed() bool {
	select {
	case <-g.failure:
		return true
	default:
		return false
	}
}

// settleWithin is how long the operations of a failed instance are waited for.
const settleWithin = 2 * time.Second

// settled says whether no operation is under way any more: only then may another instance open the directory. It waits
// a little, because a failure is heard of while operations of Pebble's other goroutines are still in system calls.
func (g *gate) settled() bool {
	for deadline := time.Now().Add(settleWithin); ; time.Sleep(time.Millisecond) {
		if g.mu.TryLock() {
			g.mu.Unlock()
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// enter begins an operation, or parks the caller for good when the instance has failed.
func (g *gate) enter() {
	g.mu.RLock()
	if g.parking.Load() && g.failed() {
		g.mu.RUnlock()
		g.park()
	}
}

// park keeps the calling goroutine for good.
func (g *gate) park() { select {} }

// leave ends an operation that changes the disk. One that failed is parked together with everything after it.
func (g *gate) leave(op, name string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) || errors.Is(err, errors.ErrUnsupported) {
		g.mu.RUnlock()
		return err
	}
	if !g.parking.Load() {
		g.mu.RUnlock()
		return err
	}
	g.mu.RUnlock() // before fail: whoever hears of the failure waits for operations under way, and this one is over
	g.fail(named(op, name, err))
	g.park()
	return err
}

func (g *gate) file(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &gateFile{File: f, g: g, name: name}, nil
}

// Lock gives Pebble nothing to hold: the store itself holds the directory's lock, also between two instances.
func (g *gate) Lock(string) (io.Closer, error) { return noLock{}, nil }

type noLock struct{}

func (noLock) Close() error { return nil }

func (g *gate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	g.enter()
	f, err := g.FS.Create(name, c)
	return g.file(name, f, g.leave("create", name, err))
}

func (g *gate) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	g.enter()
	f, err := g.FS.OpenReadWrite(name, c, o...)
	return g.file(name, f, g.leave("open", name, err))
}

func (g *gate) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	g.enter()
	f, err := g.FS.ReuseForWrite(from, to, c)
	return g.file(to, f, g.leave("reuse", to, err))
}

func (g *gate) OpenDir(name string) (vfs.File, error) {
	g.enter()
	f, err := g.FS.OpenDir(name)
	g.mu.RUnlock()
	return g.file(name, f, err)
}

// Open is for reading. It parks in a failed instance so that Pebble does not repeat a failed compaction without end.
func (g *gate) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	g.enter()
	f, err := g.FS.Open(name, o...)
	g.mu.RUnlock()
	return f, err
}

// GetDiskUsage is only a hint for Pebble's pacing; its failure is no reason to fail an instance.
func (g *gate) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := g.FS.GetDiskUsage(path)
	if err != nil {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	return u, nil
}

func (g *gate) Link(from, to string) error {
	g.enter()
	return g.leave("link", to, g.FS.Link(from, to))
}

func (g *gate) Rename(from, to string) error {
	g.enter()
	return g.leave("rename", to, g.FS.Rename(from, to))
}

func (g *gate) Remove(name string) error {
	g.enter()
	return g.leave("remove", name, g.FS.Remove(name))
}

func (g *gate) RemoveAll(name string) error {
	g.enter()
	return g.leave("remove", name, g.FS.RemoveAll(name))
}

func (g *gate) MkdirAll(name string, perm os.FileMode) error {
	g.enter()
	return g.leave("mkdir", name, g.FS.MkdirAll(name, perm))
}

// gateFile is a file opened for writing, or a directory opened for syncing.
type gateFile struct {
	vfs.File
	g    *gate
	name string
}

func (f *gateFile) Write(p []byte) (int, error) {
	f.g.enter()
	n, err := f.File.Write(p)
	return n, f.g.leave("write", f.name, err)
}

func (f *gateFile) WriteAt(p []byte, at int64) (int, error) {
	f.g.enter()
	n, err := f.File.WriteAt(p, at)
	return n, f.g.leave("write", f.name, err)
}

func (f *gateFile) Sync() error {
	f.g.enter()
	return f.g.leave("fsync", f.name, f.File.Sync())
}

func (f *gateFile) SyncData() error {
	f.g.enter()
	return f.g.leave("fdatasync", f.name, f.File.SyncData())
}

func (f *gateFile) SyncTo(n int64) (bool, error) {
	f.g.enter()
	full, err := f.File.SyncTo(n)
	return full, f.g.leave("sync", f.name, err)
}

func (f *gateFile) Close() error {
	f.g.enter()
	return f.g.leave("close", f.name, f.File.Close())
}
