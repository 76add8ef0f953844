package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"kafkabridge/semantics"
)

// child is one run of this binary as a bridge.
type child struct {
	cmd       *exec.Cmd
	started   time.Time
	recovered chan recovery // one, when records flow
	ended     chan struct{} // closed when the process is gone and its output is read
	err       error         // of the process; valid when ended
	last      []string      // its last lines, for messages; valid when ended
}

// recovery is what a bridge said about its start.
type recovery struct {
	outcome string
	after   time.Duration // since the process was started
}

// lastLines is how many lines of the bridge's log a message quotes.
const lastLines = 5

// command is this binary with a clean environment of ours: a failpoint meant for somebody else would kill the wrong process.
func (s *selftest) command(ctx context.Context, failpoint string, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, failpointVariable+"=") })
	cmd.Env = append(cmd.Env, s.secrets()...)
	if failpoint != "" {
		cmd.Env = append(cmd.Env, failpointVariable+"="+failpoint)
	}
	return cmd, nil
}

// validate lets the binary check brokers, versions and rights, and hands on its problems. Its warnings would be about throw-away topics and
// a transaction timeout that is short on purpose.
func (s *selftest) validate(ctx context.Context) error {
	cmd, err := s.command(ctx, "", "validate", "-c", s.configPath())
	if err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, "warning: ") && !strings.HasPrefix(line, "note: ") {
				_, _ = io.WriteString(s.env.stderr, line)
			}
		}
		return &silentError{semantics.ExitUsage}
	case err != nil:
		return fmt.Errorf("run bridge validate: %w", err)
	}
	return nil
}

// start runs the bridge; failpoint kills it there. Whoever starts it ends it.
func (s *selftest) start(failpoint string, args ...string) (*child, error) {
	cmd, err := s.command(context.Background(), failpoint, append([]string{"run", "-c", s.configPath()}, args...)...)
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start the bridge: %w", err)
	}
	c := &child{cmd: cmd, started: time.Now(), recovered: make(chan recovery, 1), ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the bridge: %w", err)
	}
	go c.watch(stderr, s.log)
	return c, nil
}

// watch reads the bridge's log until its end.
func (c *child) watch(stderr io.Reader, log io.Writer) {
	defer close(c.ended)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	told := false
	for lines.Scan() {
		line := lines.Text()
		_, _ = fmt.Fprintln(log, line)
		if c.last = append(c.last, line); len(c.last) > lastLines {
			c.last = c.last[1:]
		}
		var said struct {
			Message string `json:"@message"`
			Outcome string `json:"outcome"`
		}
		if !told && json.Unmarshal([]byte(line), &said) == nil && said.Message == "recovered" {
			told = true
			c.recovered <- recovery{said.Outcome, time.Since(c.started)}
		}
	}
	_, _ = io.Copy(log, stderr) // behind a line beyond all bounds: the process must not block on its pipe
	c.err = c.cmd.Wait()
}

// kill ends it at once and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// killed says whether a signal ended it.
func (c *child) killed() bool { return c.cmd.ProcessState.ExitCode() == -1 }

// failure says how it ended where it should not have.
func (c *child) failure(when string) error {
	return fmt.Errorf("selftest: the bridge ended by itself %s: %s; its last lines:\n%s", when, c.cmd.ProcessState, strings.Join(c.last, "\n"))
}

// awaitKilled waits until the failpoint has killed it.
func (s *selftest) awaitKilled(ctx context.Context, c *child, step string) error {
	if err := s.await(ctx, c, nil, "come to "+step); err != nil {
		return err
	}
	if !c.killed() {
		return c.failure("before " + step)
	}
	return nil
}

// awaitRecovered waits until records flow.
func (s *selftest) awaitRecovered(ctx context.Context, c *child) (recovery, error) {
	var r recovery
	if err := s.await(ctx, c, &r, "recover"); err != nil {
		return r, err
	}
	if r.outcome == "" {
		return r, c.failure("before it had recovered")
	}
	return r, nil
}

// await waits until the bridge has ended or, with r, has recovered; where the load or the time ends first, it is killed.
func (s *selftest) await(ctx context.Context, c *child, r *recovery, doing string) error {
	patience := 2*s.TransactionTimeout + time.Minute // twice the longest that the protocol waits, and a margin for slow machines
	limit := time.NewTimer(patience)
	defer limit.Stop()
	var recovered <-chan recovery
	if r != nil {
		recovered = c.recovered
	}
	select {
	case got := <-recovered:
		*r = got
		return nil
	case <-c.ended:
		return nil
	case err := <-s.load.failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		c.kill()
		return fmt.Errorf("selftest: the bridge did not %s within %s; its last lines:\n%s", doing, patience, strings.Join(c.last, "\n"))
	}
}
