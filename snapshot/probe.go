package snapshot

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// probeBytes is the head-room without which the directory is not opened: what Pebble may write before it serves (a flush of
// the log it replays, a manifest, a new log), with a margin.
const probeBytes = 4 << 20

// probeName is overwritten by the next probe when a crash leaves it behind; Pebble ignores it.
const probeName = "probe.tmp"

// probe writes, syncs and removes a file. A full, read-only or forbidden disk is found here, in one step and with its errno,
// and not inside Pebble, where every failure leaves a frozen instance behind.
func (s *Store) probe() error {
	if s.readOnly {
		return nil
	}
	name := s.o.FS.PathJoin(s.o.Path, probeName)
	f, err := s.o.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return named("create", name, err)
	}
	err = fill(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if rerr := s.o.FS.Remove(name); err == nil {
		err = rerr
	}
	if err != nil {
		return fmt.Errorf("%d MiB of room are needed: %w", probeBytes>>20, named("write", name, err))
	}
	return nil
}

func fill(f vfs.File) error {
	block := make([]byte, 1<<20)
	for n := 0; n < probeBytes; n += len(block) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return f.Sync()
}
