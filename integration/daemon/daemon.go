package daemon

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kafkabridge/integration/kafka"
)

// Failpoints: the process kills itself with SIGKILL there, when it was built by Build.
const (
	AfterFlush        = "after-flush"
	AfterPersist      = "after-persist" // the checkpoint is durable, EndTxn is not sent
	AfterCommit       = "after-commit"  // EndTxn is answered, nothing is released
	AfterFence        = "after-fence"
	AfterClaim        = "after-claim"
	AfterLedgerRecord = "after-ledger-record"
)

// Failpoints lists them in the order in which a run reaches them.
func Failpoints() []string {
	return []string{AfterFence, AfterClaim, AfterLedgerRecord, AfterFlush, AfterPersist, AfterCommit}
}

// Daemon is one run of the bridge.
type Daemon struct {
	*kafka.Process

	listen  string
	logPath string
}

// Run says how to start a daemon.
type Run struct {
	Binary string
	Config Config
	// Dir takes the configuration file and the log; several runs may share it.
	Dir string
	// Args follow "run -c FILE".
	Args []string
	// Failpoint kills the process at a named point, "name" or "name:n" for the n-th time; "" never.
	Failpoint string
	// Env is added to the environment.
	Env []string
}

// Start starts a run and does not wait until it is ready.
func Start(r Run) (*Daemon, error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	log, err := os.CreateTemp(r.Dir, time.Now().Format("150405.000-")+"*.log")
	if err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	defer log.Close() // the child has its own descriptor
	file := strings.TrimSuffix(log.Name(), ".log") + ".hcl"
	if err := os.WriteFile(file, []byte(r.Config.HCL()), 0o600); err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	cmd := exec.Command(r.Binary, append([]string{"run", "-c", file}, r.Args...)...)
	cmd.Dir = r.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), r.Env...)
	if r.Failpoint != "" {
		cmd.Env = append(cmd.Env, "BRIDGE_FAILPOINT="+r.Failpoint)
	}
	p, err := kafka.StartProcess(cmd)
	if err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	return &Daemon{Process: p, listen: r.Config.Listen, logPath: log.Name()}, nil
}

// Command runs another command of the binary ("validate", "status" …) with a configuration to its end.
func Command(ctx context.Context, r Run, command ...string) (stdout, stderr string, code int, err error) {
	file := filepath.Join(r.Dir, "command.hcl")
	if err := os.WriteFile(file, []byte(r.Config.HCL()), 0o600); err != nil {
		return "", "", 0, fmt.Errorf("daemon: %w", err)
	}
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, r.Binary, append(command, "-c", file)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return "", "", 0, fmt.Errorf("daemon: %w", err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode(), nil
}

// Log returns what the process has written so far.
func (d *Daemon) Log() string {
	b, err := os.ReadFile(d.logPath)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// LogTail returns the end of the log, for a failure message.
func (d *Daemon) LogTail() string {
	const keep = 8 << 10
	log := d.Log()
	return log[max(0, len(log)-keep):]
}

// Freeze stops the process (SIGSTOP), Thaw lets it go on.
func (d *Daemon) Freeze() error { return d.Signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (d *Daemon) Thaw() error { return d.Signal(syscall.SIGCONT) }

// Exit waits for the end within limit and returns the exit code; a signal's end is an error that names it.
func (d *Daemon) Exit(ctx context.Context, limit time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	code, err := d.Wait(ctx)
	if err != nil {
		return 0, fmt.Errorf("daemon: no exit within %v: %w", limit, err)
	}
	if s := d.KilledBy(); s != 0 {
		return code, fmt.Errorf("daemon: ended by signal %v", s)
	}
	return code, nil
}

// Terminate sends SIGTERM and waits for the exit code.
func (d *Daemon) Terminate(ctx context.Context, limit time.Duration) (int, error) {
	if err := d.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	return d.Exit(ctx, limit)
}
