package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a child process that dies with this one. Methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process was waited for
}

// StartProcess starts cmd and waits for its end in the background.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = DieWithParent()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run keeps its operating system thread for the life of the child: Linux sends the parent-death signal when
// the starting thread ends, and Go may end any thread that is not held.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // the result is in ProcessState
	}
	close(p.done)
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal; to a process that has ended it does nothing.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to process %d: %w", s, p.PID(), err)
	}
	return nil
}

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Wait waits for the end and returns the exit code; -1 means that a signal ended it.
func (p *Process) Wait(ctx context.Context) (code int, err error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("process %d still runs: %w", p.PID(), context.Cause(ctx))
	}
}

// KilledBy returns the signal that ended the process, or 0. Valid after Done.
func (p *Process) KilledBy() syscall.Signal {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return 0
	}
	return ws.Signal()
}
