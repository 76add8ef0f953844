package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	patience = 2 * time.Minute       // how long a script waits for anything before it fails
	pollStep = 10 * time.Millisecond // between two looks
)

// eventually polls until ok; the deadline fails the script and names what was waited for.
func eventually(ts *testscript.TestScript, what string, ok func() bool) {
	for end := time.Now().Add(patience); !ok(); time.Sleep(pollStep) {
		if time.Now().After(end) {
			ts.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func exitCodeOf(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	ts.Fatalf("%v", err)
	return -1
}

func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "code N COMMAND ...")
	began := time.Now()
	if got := exitCodeOf(ts, ts.Exec(args[1], args[2:]...)); strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s: exit code %d, want %s\nstdout: %s\nstderr: %s", strings.Join(args[1:], " "), got, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
	if d := time.Since(began); d > patience {
		ts.Fatalf("took %s", d)
	}
}

// process is one that a script started.
type process struct {
	cmd  *exec.Cmd
	done chan error
}

// processes are a script's own, by name.
type processes map[string]*process

// processesKey is where testscript keeps them.
type processesKey struct{}

func processOf(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processesKey{}).(processes)[name]
	if p == nil {
		ts.Fatalf("no process %s", name)
	}
	return p
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "start NAME COMMAND ...")
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	p := &process{cmd: exec.Command(path, args[2:]...), done: make(chan error, 1)}
	p.cmd.Args[0] = args[1]
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = append(os.Environ(), "PASSWORD="+ts.Getenv("PASSWORD"), "TMPDIR="+ts.Getenv("TMPDIR"))
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC"} {
		if v := ts.Getenv(name); v != "" {
			p.cmd.Env = append(p.cmd.Env, name+"="+v)
		}
	}
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(args[0] + ".err"))
	ts.Check(err)
	p.cmd.Stdout, p.cmd.Stderr = out, errs
	ts.Check(p.cmd.Start())
	go p.wait(out, errs)
	ts.Value(processesKey{}).(processes)[args[0]] = p
	ts.Defer(func() { _ = p.cmd.Process.Kill() })
}

func (p *process) wait(files ...io.Closer) {
	err := p.cmd.Wait()
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	p.done <- err
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "signal NAME SIGNAL")
	s, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}[args[1]]
	usage(ts, neg, ok, "signal NAME TERM|INT|KILL|HUP")
	ts.Check(processOf(ts, args[0]).cmd.Process.Signal(s))
}

// cmdEnded: the code of a process that a signal ended is -1.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "ended NAME N DURATION")
	within, err := time.ParseDuration(args[2])
	ts.Check(err)
	select {
	case err := <-processOf(ts, args[0]).done:
		ts.Logf("[stderr of %s]\n%s", args[0], ts.ReadFile(args[0]+".err"))
		if got := exitCodeOf(ts, err); strconv.Itoa(got) != args[1] {
			ts.Fatalf("%s: exit code %d, want %s", args[0], got, args[1])
		}
	case <-time.After(within):
		ts.Fatalf("%s did not end within %s\n%s", args[0], within, ts.ReadFile(args[0]+".err"))
	}
}

func cmdLogged(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "logged NAME REGEXP")
	awaitText(ts, args[0]+".err", args[1])
}

func cmdPrinted(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "printed NAME REGEXP")
	awaitText(ts, args[0]+".out", args[1])
}

func awaitText(ts *testscript.TestScript, file, expression string) {
	re, err := regexp.Compile(expression)
	ts.Check(err)
	defer func() { ts.Logf("[%s]\n%s", file, ts.ReadFile(file)) }()
	eventually(ts, file+" has "+expression, func() bool { return re.MatchString(ts.ReadFile(file)) })
}

func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "http CODE URL REGEXP")
	re, err := regexp.Compile(args[2])
	ts.Check(err)
	var last string
	defer func() { ts.Logf("[body]\n%s", last) }()
	client := http.Client{Timeout: patience}
	eventually(ts, args[1]+" answers "+args[0]+" "+args[2], func() bool {
		resp, err := client.Get(args[1])
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		last = string(b)
		return err == nil && strconv.Itoa(resp.StatusCode) == args[0] && re.Match(b)
	})
	_, err = io.WriteString(ts.Stdout(), last)
	ts.Check(err)
}

func cmdLines(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "lines N REGEXP")
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	n := 0
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		if re.MatchString(strings.TrimRight(line, "\r\n")) {
			n++
		}
	}
	if strconv.Itoa(n) != args[0] {
		ts.Fatalf("%d lines of stderr match %s, want %s", n, args[1], args[0])
	}
}
