package main

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/alecthomas/kong"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

// TestExitCode has its expected values from the contract's table.
func TestExitCode(t *testing.T) {
	lost := &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitLost, Op: "x", Err: io.EOF}
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"done", nil, 0},
		{"gave up without a class", io.EOF, 1},
		{"gave up", &semantics.Error{Class: semantics.Unknown, Op: "x", Err: io.EOF}, 1},
		{"wrong usage", &usageError{io.EOF}, 2},
		{"wrong configuration", semantics.Misconfigured("x", "y"), 2},
		{"refused", semantics.Refuse("x", "y"), 3},
		{"lost", lost, 4},
		{"wrapped", fmt.Errorf("bridge: %w", lost), 4},
		{"joined with a failure to close", errors.Join(lost, io.ErrClosedPipe), 4},
		{"told already", &silentError{semantics.ExitUsage}, 2},
		{"stopped", errStopped, 1},
	} {
		if got := int(exitCode(c.err)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAdoptFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bridge.Adopt
	}{
		{[]string{"run"}, bridge.Adopt{}},
		{[]string{"run", "--adopt"}, bridge.Adopt{Enabled: true}},
		{[]string{"run", "--adopt", "-c", "x.hcl"}, bridge.Adopt{Enabled: true}},
		{[]string{"run", "--adopt=7", "--until-end"}, bridge.Adopt{Enabled: true, Epoch: 7}},
	} {
		var got commands
		parser, err := kong.New(&got)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(c.args); err != nil || bridge.Adopt(got.Run.Adopt) != c.want {
			t.Errorf("%q: %+v %v, want %+v", c.args, got.Run.Adopt, err, c.want)
		}
	}
	for _, wrong := range []string{"--adopt=0", "--adopt=-1", "--adopt=x", "--adopt=", "--adopt=1.5"} {
		var got commands
		parser, err := kong.New(&got)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse([]string{"run", wrong}); err == nil {
			t.Errorf("%q is taken as %+v", wrong, got.Run.Adopt)
		}
	}
}
