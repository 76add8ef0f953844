package snapshot

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/go-hclog"
)

// answerWithin is how long one operation may wait for the disk before it counts as failed: long enough for a busy network
// volume, and short enough that a hanging one does not stop the bridge in silence.
const answerWithin = time.Minute

// closeWithin bounds Close in the same way; nothing that was promised depends on it.
const closeWithin = 5 * time.Second

// instance is one opened Pebble and its gate. Methods are called by one goroutine at a time.
type instance struct {
	db *pebble.DB
	g  *gate
}

// openInstance lets Pebble recover the directory. The instance is never nil; after an error it may have to be kept as frozen.
func openInstance(path string, disk vfs.FS, readOnly bool, log hclog.Logger) (*instance, error) {
	in := &instance{g: newGate(disk)}
	// Also while it opens Pebble must not see a failed write: it waits for the flush of what it replayed, and that
	// flush is repeated without a pause and without end (seen on a full disk).
	in.g.parking.Store(true)
	opened := make(chan *pebble.DB, 1)
	done := make(chan error, 1)
	go in.openDB(path, readOnly, log, opened, done)
	timeout := time.NewTimer(answerWithin)
	defer timeout.Stop()
	var err error
	select {
	case in.db = <-opened:
		if in.g.failed() {
			err = in.g.err
		}
	case err = <-done:
	case <-in.g.failure:
		err = in.g.err
	case <-timeout.C:
		in.g.fail(fmt.Errorf("the disk did not answer for %s", answerWithin))
		err = in.g.err
	}
	return in, err
}

func (in *instance) openDB(path string, readOnly bool, log hclog.Logger, opened chan<- *pebble.DB, done chan<- error) {
	defer in.recoverInto(done)
	db, err := pebble.Open(path, pebbleOptions(in.g, readOnly, log))
	if err != nil {
		done <- err
		return
	}
	opened <- db
}

// pebbleOptions are small: a store holds a handful of values. FORMAT.md names what of this is durable.
func pebbleOptions(g *gate, readOnly bool, log hclog.Logger) *pebble.Options {
	l := pebbleLog{log: log, g: g}
	events := l.events()
	o := &pebble.Options{
		FS:                          g,
		ReadOnly:                    readOnly,
		ErrorIfNotExists:            readOnly,
		Logger:                      l,
		EventListener:               &events,
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		CacheSize:                   1 << 20,
		MemTableSize:                1 << 20,
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                64,
		MaxManifestFileSize:         1 << 20,
		LBaseMaxBytes:               4 << 20,
		L0CompactionThreshold:       2,
		L0CompactionFileThreshold:   16,
		CompactionConcurrencyRange:  oneCompaction,
		// A checkpoint counts only when it is fsynced; these are the defaults, stated because I1 rests on them.
		DisableWAL:         false,
		WALMinSyncInterval: nil,
		NoSyncOnClose:      false,
	}
	return o
}

func oneCompaction() (lower, upper int) { return 1, 1 }

// do runs f against Pebble in a goroutine of its own and waits for it. When the disk fails meanwhile, f is left behind parked
// and the failure is returned. f must not touch anything that the caller uses after an error.
func (in *instance) do(f func(*pebble.DB) error) error {
	done := make(chan error, 1)
	go in.call(f, done)
	timeout := time.NewTimer(answerWithin)
	defer timeout.Stop()
	select {
	case err := <-done:
		if in.g.failed() {
			// Also when err is nil: Pebble may have swallowed it.
			return in.g.err
		}
		return err
	case <-in.g.failure:
		return in.g.err
	case <-timeout.C:
		in.g.fail(fmt.Errorf("the disk did not answer for %s", answerWithin))
		return in.g.err
	}
}

func (in *instance) call(f func(*pebble.DB) error, done chan<- error) {
	defer in.recoverInto(done)
	done <- f(in.db)
}

// recoverInto is for a panic of Pebble's in a goroutine of ours: locks may be held, so the instance is of no use any more.
func (in *instance) recoverInto(done chan<- error) {
	if p := recover(); p != nil {
		err := fmt.Errorf("pebble panicked: %v", p)
		in.g.fail(err)
		done <- err
	}
}

// close closes an instance that works. One that failed is left as it is: Pebble's Close would wait for what is parked.
func (in *instance) close() error {
	if in.db == nil || in.g.parking.Load() && in.g.failed() {
		return nil
	}
	in.g.parking.Store(false) // Pebble's Close handles errors
	done := make(chan error, 1)
	go in.closeDB(done)
	timeout := time.NewTimer(closeWithin)
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-timeout.C:
		in.g.fail(errors.New("closed"))
		in.g.parking.Store(true)
		return fmt.Errorf("the disk did not answer for %s", closeWithin)
	}
}

func (in *instance) closeDB(done chan<- error) {
	defer in.recoverInto(done)
	done <- in.db.Close()
}
