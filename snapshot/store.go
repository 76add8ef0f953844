package snapshot

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"kafkabridge/semantics"
)

// maxFrozen is how many Pebble instances may be left behind frozen before the process has to be started anew. A full disk does
// not use them up: opening fails on it, and what fails to open leaves nothing behind.
const maxFrozen = 8

// Store keeps checkpoints. Its methods may be called from any goroutine; they wait for each other. Every method that
// changes something is durable when it returns nil, may or may not have happened when it returns an error of class Unknown, and has not
// happened for class Retry. After a failed disk the next call opens the directory anew.
type Store struct {
	o    Options
	mu   sync.Mutex
	lock io.Closer // the directory's; nil when closed
	in   *instance // nil after a failure, until the next call

	readOnly bool
	dying    []*instance // frozen ones

	size atomic.Int64
}

// Load returns all checkpoints in ascending order of epoch. One that cannot be read is a refusal: taking it as missing
// could make a prepared transaction be aborted that was to be committed.
func (s *Store) Load() ([]semantics.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, err := s.read("load checkpoints")
	if err != nil {
		return nil, err
	}
	out := make([]semantics.Checkpoint, 0, len(values))
	for _, v := range values {
		c, err := decode(v.value)
		if err == nil && c.Epoch != v.epoch {
			err = fmt.Errorf("the value is of epoch %d", c.Epoch)
		}
		if err != nil {
			return nil, s.unreadable(v.epoch, err)
		}
		out = append(out, c)
		s.size.Store(int64(len(v.value)))
	}
	return out, nil
}

// Save stores c, replacing one of the same epoch. With status Decided it also drops what retention no longer wants.
// The only decided checkpoint is not replaced by one that is not decided (I4).
func (s *Store) Save(c semantics.Checkpoint) error {
	value, err := encode(c)
	if err != nil {
		return &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitGaveUp, Op: "save checkpoint", Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	op := fmt.Sprintf("save checkpoint of epoch %d", c.Epoch)
	have, err := s.read(op)
	if err != nil {
		return err
	}
	if c.Status != semantics.Decided && onlyDecided(have, c.Epoch) {
		return semantics.Refuse(op, "%s: it is the only decided one and must not be replaced by a %s one (I4)", s.o.Path, c.Status)
	}
	if err := s.write(op, change{set: &stored{c.Epoch, value}, drop: s.unwanted(have, c.Epoch, c.Status)}); err != nil {
		return err
	}
	s.size.Store(int64(len(value)))
	return nil
}

// Size is the number of bytes of the checkpoint that was saved last, as written to Pebble, or of the newest that Load has seen; 0
// before that. It waits for nobody.
func (s *Store) Size() int64 { return s.size.Load() }

// Decide sets the status of the checkpoint of that epoch. With Decided it also drops what retention no longer wants: the
// checkpoint just decided and everything newer stay, and of the older ones as many as make Options.Retain in all.
func (s *Store) Decide(epoch semantics.Epoch, status semantics.Status) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := fmt.Sprintf("mark checkpoint of epoch %d as %s", epoch, status)
	have, err := s.read(op)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(have, func(v stored) bool { return v.epoch == epoch })
	if i < 0 {
		return semantics.Refuse(op, "%s holds no checkpoint of that epoch", s.o.Path)
	}
	old, err := decode(have[i].value)
	if err != nil {
		return s.unreadable(epoch, err)
	}
	if status != semantics.Decided && status != semantics.Aborted || old.Status != semantics.Proposed && old.Status != status {
		return semantics.Refuse(op, "%s: it is %s; an outcome is found once and never changes", s.o.Path, old.Status)
	}
	return s.write(op, change{
		set:  &stored{epoch, withStatus(have[i].value, status)},
		drop: s.unwanted(have, epoch, status),
	})
}

// Drop deletes the checkpoints of the given epochs; one that is not there is no error. It is for checkpoints that recovery has
// found void, so it asks no further questions.
func (s *Store) Drop(epochs ...semantics.Epoch) error {
	if len(epochs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(fmt.Sprintf("drop checkpoints of epochs %v", epochs), change{drop: epochs})
}

// Close gives the directory back. It waits for a bounded time; whatever was promised is durable without it.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	var err error
	if s.in != nil {
		err = s.in.close()
		s.in = nil
	}
	err = errors.Join(err, s.lock.Close())
	s.lock = nil
	if err != nil {
		return s.failure(semantics.Retry, "close", err)
	}
	return nil
}

// stored is a checkpoint as it is in Pebble.
type stored struct {
	epoch semantics.Epoch
	value []byte
}

// change is one batch.
type change struct {
	set  *stored
	drop []semantics.Epoch
}

// unwanted lists what retention drops when epoch becomes decided.
func (s *Store) unwanted(have []stored, epoch semantics.Epoch, status semantics.Status) []semantics.Epoch {
	if status != semantics.Decided {
		return nil
	}
	var older []semantics.Epoch
	kept := 1 // epoch itself
	for _, v := range have {
		switch {
		case v.epoch < epoch:
			older = append(older, v.epoch)
		case v.epoch > epoch:
			kept++
		}
	}
	return older[:max(0, min(len(older), len(older)-(s.o.Retain-kept)))]
}

// onlyDecided says whether epoch's checkpoint is decided and no other is. It looks at the status byte only: a value
// that cannot be decoded may be replaced, that is a way out.
func onlyDecided(have []stored, epoch semantics.Epoch) bool {
	only := false
	for _, v := range have {
		if len(v.value) <= statusAt || semantics.Status(v.value[statusAt]) != semantics.Decided {
			continue
		}
		if v.epoch != epoch {
			return false
		}
		only = true
	}
	return only
}

// write applies one batch. This is the commit point: with pebble.Sync, Commit returns after the record is fsynced in the log.
func (s *Store) write(op string, c change) error {
	in, err := s.ready(op)
	if err != nil {
		return err
	}
	if s.readOnly {
		return s.failure(semantics.Retry, op, pebble.ErrReadOnly)
	}
	err = in.do(func(db *pebble.DB) error {
		b := db.NewBatch()
		defer func() { _ = b.Close() }() // frees memory only
		for _, e := range c.drop {
			if err := b.Delete(checkpointKey(e), nil); err != nil {
				return err
			}
		}
		if c.set != nil {
			if err := b.Set(checkpointKey(c.set.epoch), c.set.value, nil); err != nil {
				return err
			}
		}
		return b.Commit(pebble.Sync)
	})
	if err != nil {
		return s.failure(semantics.Unknown, op, err)
	}
	return nil
}
