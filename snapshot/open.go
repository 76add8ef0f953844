package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"kafkabridge/semantics"
)

// Open takes the state directory and recovers what is in it. It fails within seconds and changes nothing when the directory
// is not usable, belongs to another bridge or another process, or was written by a newer version.
func Open(o Options) (*Store, error) { return open(o, false) }

// OpenReadOnly opens the directory of a stopped bridge to look at it. Pebble takes the directory's lock for reading too, so
// while the daemon runs this fails; the daemon's HTTP address has the answers then.
func OpenReadOnly(o Options) (*Store, error) { return open(o, true) }

func open(o Options, readOnly bool) (*Store, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, semantics.Misconfigured("open state directory", "%w", err)
	}
	s := &Store{o: o, readOnly: readOnly}
	if err := s.prepareDirectory(); err != nil {
		return nil, err
	}
	lock, err := o.FS.Lock(o.FS.PathJoin(o.Path, "LOCK"))
	if err != nil {
		return nil, s.lockFailure(err)
	}
	s.lock = lock
	if s.in, err = s.recover(); err != nil {
		_ = s.lock.Close() // the lock goes with the process in any case; the first error is the one to tell
		return nil, atStart(err)
	}
	return s, nil
}

// recover opens Pebble and checks whose directory this is.
func (s *Store) recover() (*instance, error) {
	if err := s.probe(); err != nil {
		return nil, s.openFailure(err)
	}
	in, err := openInstance(s.o.Path, s.o.FS, s.readOnly, s.o.Logger)
	if err != nil {
		s.abandon(in)
		return nil, s.openFailure(err)
	}
	if err := s.checkOwner(in); err != nil {
		s.abandon(in)
		return nil, err
	}
	return in, nil
}

// checkOwner reads the meta value, and writes it into a store that holds nothing at all: after a crash between Pebble's first
// files and this, the directory is still as good as new.
func (s *Store) checkOwner(in *instance) error {
	const op = "open state directory"
	var value []byte
	var empty bool
	err := in.do(func(db *pebble.DB) (err error) {
		value, empty, err = readMeta(db)
		return err
	})
	switch {
	case err != nil:
		return s.openFailure(err)
	case value == nil && !empty:
		return semantics.Refuse(op, "%s is a Pebble store, but not of a bridge: choose another path", s.o.Path)
	case value == nil && s.readOnly:
		return nil
	case value == nil:
		err := in.do(func(db *pebble.DB) error {
			return db.Set([]byte(metaKey), encodeMeta(s.o.Bridge, storeFormat), pebble.Sync)
		})
		if err != nil {
			return s.openFailure(err)
		}
		return nil
	}
	bridge, format, err := decodeMeta(value)
	switch {
	case errors.Is(err, errNewer):
		return semantics.Refuse(op, "%s has format %d, this program knows up to %d: start the version that wrote it, or a newer one", s.o.Path, format, storeFormat)
	case err != nil:
		return semantics.Refuse(op, "%s: the bridge's name cannot be read: %w; %s", s.o.Path, err, wayOut)
	case bridge != s.o.Bridge:
		return semantics.Refuse(op, "%s belongs to bridge %q, this is bridge %q: give each bridge a path of its own", s.o.Path, bridge, s.o.Bridge)
	}
	return nil
}

// readMeta returns the meta value, nil when there is none, and whether the store holds nothing.
func readMeta(db *pebble.DB) (value []byte, empty bool, err error) {
	v, closer, err := db.Get([]byte(metaKey))
	if err == nil {
		value = append([]byte{}, v...)
		return value, false, closer.Close()
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return nil, false, fmt.Errorf("read %q: %w", metaKey, err)
	}
	it, err := db.NewIter(nil)
	if err != nil {
		return nil, false, fmt.Errorf("iterate: %w", err)
	}
	empty = !it.First()
	return nil, empty, errors.Join(it.Error(), it.Close())
}

// ready returns an instance that works; after a failure it opens the directory anew.
func (s *Store) ready(op string) (*instance, error) {
	if s.lock == nil {
		return nil, s.failure(semantics.Fatal, op, errors.New("the store is closed"))
	}
	if s.in != nil && !s.in.g.failed() {
		return s.in, nil
	}
	if s.in != nil {
		s.abandon(s.in)
		s.in = nil
	}
	for _, in := range s.dying {
		if !in.g.settled() {
			return nil, s.failure(semantics.Retry, op, errors.New("an earlier operation still waits for the disk"))
		}
	}
	if len(s.dying) >= maxFrozen {
		return nil, s.failure(semantics.Fatal, op, fmt.Errorf("the disk has failed %d times; start the process anew", len(s.dying)))
	}
	in, err := s.recover()
	if err != nil {
		return nil, err
	}
	s.o.Logger.Info("state directory opened anew after a failure of the disk", "path", s.o.Path)
	s.in = in
	return in, nil
}

// abandon closes in, or remembers it when it cannot be closed.
func (s *Store) abandon(in *instance) {
	if err := in.close(); err != nil {
		s.o.Logger.Warn("close of the store failed", "path", s.o.Path, "error", err)
	}
	if in.g.failed() && in.g.parking.Load() {
		s.dying = append(s.dying, in)
	}
}

// read returns all stored checkpoints in ascending order of epoch.
func (s *Store) read(op string) ([]stored, error) {
	in, err := s.ready(op)
	if err != nil {
		return nil, err
	}
	var out []stored
	err = in.do(func(db *pebble.DB) error {
		found, err := readCheckpoints(db)
		out = found
		return err
	})
	var foreign foreignKeyError
	switch {
	case errors.As(err, &foreign):
		return nil, semantics.Refuse(op, "%s holds the key %q, which is of no known format; %s", s.o.Path, string(foreign), wayOut)
	case err != nil && pebble.IsCorruptionError(err):
		return nil, semantics.Refuse(op, "%s is damaged: %w; %s", s.o.Path, err, wayOut)
	case err != nil:
		return nil, s.failure(semantics.Retry, op, err)
	}
	return out, nil
}

// foreignKeyError is a key that FORMAT.md does not know.
type foreignKeyError string

func (e foreignKeyError) Error() string { return fmt.Sprintf("unknown key %q", string(e)) }

func readCheckpoints(db *pebble.DB) (out []stored, err error) {
	it, err := db.NewIter(nil)
	if err != nil {
		return nil, fmt.Errorf("iterate: %w", err)
	}
	defer closeInto(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		key := string(it.Key())
		if key == metaKey {
			continue
		}
		epoch, ok := strings.CutPrefix(key, checkpointPrefix)
		if !ok || len(epoch) != 8 {
			return nil, foreignKeyError(key)
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, fmt.Errorf("read key %q: %w", key, err)
		}
		out = append(out, stored{semantics.Epoch(binary.BigEndian.Uint64([]byte(epoch))), append([]byte{}, value...)})
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("iterate: %w", err)
	}
	return out, nil
}

func closeInto(c io.Closer, err *error) {
	if cerr := c.Close(); *err == nil && cerr != nil {
		*err = fmt.Errorf("end of iteration: %w", cerr)
	}
}
