//go:build unix

package snapshot

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// holder names the process that holds the lock, when the system tells. It is asked only when that is another process:
// opening and closing the file would release a lock of our own.
func (s *Store) holder() string {
	if s.o.FS != vfs.Default {
		return ""
	}
	f, err := os.OpenFile(filepath.Join(s.o.Path, "LOCK"), os.O_RDWR, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // read only for the message
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l); err != nil || l.Type == syscall.F_UNLCK || l.Pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", l.Pid)
}
