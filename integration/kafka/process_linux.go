package kafka

import "syscall"

// DieWithParent makes the kernel kill the child when the thread that started it ends, so that no broker
// outlives a test that panicked, timed out or was killed. The starter must keep that thread: see Process.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
