package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"kafkabridge/semantics"
)

// wayOut is said wherever the directory cannot be believed.
const wayOut = "with a ledger, move the directory away and start again: the bridge goes on from the ledger (map state is lost); " +
	"with ledger = false, bring back the directory that was last in use, never an older copy"

// ErrNoState is in the error of OpenReadOnly when no bridge has run with this path yet; ErrLocked is in the error of
// both openings when another process holds the directory.
var (
	ErrNoState = errors.New("no bridge has run with this path")
	ErrLocked  = errors.New("held by another process")
)

// failure is an error of the disk with path and class.
func (s *Store) failure(class semantics.Class, op string, err error) error {
	e := &semantics.Error{Class: class, Op: op, Err: fmt.Errorf("state directory %s: %w", s.o.Path, explain(err))}
	if class == semantics.Fatal {
		e.Exit = semantics.ExitGaveUp
	}
	return e
}

// named adds what was done to which file, unless err says so itself, as the operating system's do: a path that is
// there twice hides the reason behind it.
func named(op, name string, err error) error {
	if strings.Contains(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s %s: %w", op, name, err)
}

// explain adds the errno's name, which is what people search for, and what to do.
func explain(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	for _, k := range [...]struct {
		errno        syscall.Errno
		name, remedy string
	}{
		{syscall.ENOSPC, "ENOSPC", "the disk is full: make room"},
		{syscall.EDQUOT, "EDQUOT", "the disk quota is used up: make room"},
		{syscall.EROFS, "EROFS", "the file system is read-only"},
		{syscall.EACCES, "EACCES", "the process has no right to write there"},
		{syscall.EPERM, "EPERM", "the process has no right to write there"},
		{syscall.ENOTDIR, "ENOTDIR", "a part of the path is a file"},
		{syscall.EIO, "EIO", "the disk reports an error"},
	} {
		if errno == k.errno {
			return fmt.Errorf("%w (%s: %s)", err, k.name, k.remedy)
		}
	}
	return fmt.Errorf("%w (errno %d)", err, int(errno))
}

// unreadable refuses a checkpoint whose value cannot be used.
func (s *Store) unreadable(epoch semantics.Epoch, err error) error {
	if errors.Is(err, errNewer) {
		return semantics.Refuse("load checkpoints", "%s: checkpoint of epoch %d: %w: start the version that wrote it, or a newer one", s.o.Path, epoch, err)
	}
	return semantics.Refuse("load checkpoints", "%s: checkpoint of epoch %d cannot be read: %w; %s", s.o.Path, epoch, err, wayOut)
}

// openFailure sorts what Pebble says when it opens. At start every class ends the process; when the directory is opened
// anew, a disk that is still full must be Retry.
func (s *Store) openFailure(err error) error {
	const op = "open state directory"
	switch {
	case strings.Contains(err.Error(), "unknown format major version"):
		return semantics.Refuse(op, "%s was written by a newer version: %w: start the version that wrote it, or a newer one", s.o.Path, err)
	case pebble.IsCorruptionError(err):
		return semantics.Refuse(op, "%s is damaged: %w; %s", s.o.Path, err, wayOut)
	case s.readOnly && errors.Is(err, pebble.ErrDBDoesNotExist):
		return semantics.Misconfigured(op, "%s holds no state: %w", s.o.Path, ErrNoState)
	}
	return s.failure(semantics.Retry, op, err)
}

// atStart makes every failure final: nothing has been read or written yet, and whoever starts the bridge is looking.
func atStart(err error) error {
	var e *semantics.Error
	if !errors.As(err, &e) || e.Class == semantics.Fatal {
		return err
	}
	return &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitGaveUp, Op: e.Op, Err: e.Err}
}

// prepareDirectory checks what Pebble would report late or in other words, and makes the directory.
func (s *Store) prepareDirectory() error {
	const op = "open state directory"
	fsys, path := s.o.FS, s.o.Path
	info, err := fsys.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return semantics.Misconfigured(op, "%s is a file (%w): choose a directory", path, syscall.ENOTDIR)
	case err == nil:
		return s.checkForeignFiles()
	case !errors.Is(err, fs.ErrNotExist):
		return semantics.Misconfigured(op, "%s: %w", path, explain(err))
	case s.readOnly:
		return semantics.Misconfigured(op, "%s does not exist: %w", path, ErrNoState)
	}
	parent := fsys.PathDir(strings.TrimRight(path, "/"))
	if _, err := fsys.Stat(parent); err != nil {
		return semantics.Misconfigured(op, "%s cannot be created: its parent: %w; create it (mkdir -p %s), or mount its volume", path, explain(err), parent)
	}
	if err := fsys.MkdirAll(path, 0o700); err != nil {
		return s.failure(semantics.Fatal, op, fmt.Errorf("create: %w", err))
	}
	dir, err := fsys.OpenDir(parent)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return s.failure(semantics.Fatal, op, fmt.Errorf("sync the parent %s: %w", parent, err))
	}
	return nil
}

// checkForeignFiles refuses a directory that holds other people's files and no Pebble store: a typing error in path must not strew
// files into a home directory.
func (s *Store) checkForeignFiles() error {
	const op = "open state directory"
	names, err := s.o.FS.List(s.o.Path)
	if err != nil {
		return semantics.Misconfigured(op, "%s: %w", s.o.Path, explain(err))
	}
	if slices.ContainsFunc(names, isPebbleFile) {
		return nil
	}
	for _, n := range names {
		if n != "lost+found" && !strings.HasPrefix(n, ".") {
			return semantics.Misconfigured(op, "%s holds %q and no state of a bridge: choose an empty or a new directory", s.o.Path, n)
		}
	}
	return nil
}

// isPebbleFile knows the first files that Pebble makes; a crash may have left only some of them.
func isPebbleFile(name string) bool {
	return name == "LOCK" || name == "CURRENT" || strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "marker.")
}
