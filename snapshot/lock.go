package snapshot

import (
	"errors"
	"strings"
	"syscall"

	"kafkabridge/semantics"
)

// lockFailure tells a directory in use from one that is not writable. Pebble's lock (fcntl) reports the first as EAGAIN
// or EACCES; for this process itself it has a text of its own.
func (s *Store) lockFailure(err error) error {
	const op = "open state directory"
	hint := "stop it, or give this bridge a path of its own"
	if s.readOnly {
		hint = "it answers over HTTP at the address of its server block"
	}
	switch {
	case strings.Contains(err.Error(), "lock held by current process"):
		return semantics.Refuse(op, "%s is held by another bridge of this process: give each a path of its own", s.o.Path)
	case errors.Is(err, syscall.EAGAIN):
		return semantics.Refuse(op, "%s is %w%s: %s", s.o.Path, ErrLocked, s.holder(), hint)
	}
	return s.failure(semantics.Fatal, op, err)
}
