package main

import (
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

// commands is the command line of the contract.
type commands struct {
	Run         runCommand         `cmd:"" help:"Run the daemon. SIGTERM or SIGINT makes a final checkpoint, commits and exits with 0; a second one ends it at once."`
	Validate    validateCommand    `cmd:"" help:"Check the configuration and, unless --offline, everything it names on the clusters."`
	Demo        demoCommand        `cmd:"" help:"Show the main job on an embedded broker: no Kafka needed."`
	Selftest    selftestCommand    `cmd:"" help:"Kill this binary at every step of its protocol, on your cluster and with throw-away topics, and count what was lost or doubled."`
	Try         tryCommand         `cmd:"" help:"Take some records through the maps and show them before and after. Nothing is written."`
	Test        testCommand        `cmd:"" help:"Run the tests of the maps: tests blocks of the configuration, and *_test.hcl files beside it."`
	Status      statusCommand      `cmd:"" help:"Show a running daemon over HTTP, or a stopped one from its state directory."`
	Checkpoints checkpointsCommand `cmd:"" help:"Show what the state directory holds."`
	Recover     recoverCommand     `cmd:"" help:"Show, with --plan, what a start would find and do: the stored checkpoint, the broker's view, the ledger, the verdict. Changes nothing."`
	Txn         txnCommand         `cmd:"" help:"List and end the open transactions of this file's bridges."`
	Reset       resetCommand       `cmd:"" help:"Set new positions of a bridge that does not run, through its ledger or state directory."`
	Verify      verifyCommand      `cmd:"" help:"Compare what the sources hold with what a read_committed reader sees in the sink: lost, doubled, reordered, changed. Exit code 1 when something differs."`
	Completion  completionCommand  `cmd:"" help:"Print a shell's completion script: source <(bridge completion bash)."`
	Version     versionCommand     `cmd:"" help:"Show version, commit and Go version."`
}

// fileFlag is the configuration file's flag, the same everywhere.
type fileFlag struct {
	Config string `short:"c" name:"config" placeholder:"FILE" default:"bridge.hcl" help:"Configuration file (default: bridge.hcl)."`
}

// formatFlag chooses the output for people or for tools.
type formatFlag struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// adoptFlag is --adopt or --adopt=EPOCH.
type adoptFlag bridge.Adopt

// IsBool lets the flag stand without a value.
func (a *adoptFlag) IsBool() bool { return true }

// Decode reads the optional epoch.
func (a *adoptFlag) Decode(ctx *kong.DecodeContext) error {
	a.Enabled = true
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	v := fmt.Sprint(ctx.Scan.Pop().Value)
	switch v {
	case "true":
		return nil
	case "false":
		a.Enabled = false
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("--adopt=%s: EPOCH is a number from 1 on", v)
	}
	a.Epoch = semantics.Epoch(n)
	return nil
}

// usageError is wrong usage of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() + "; see bridge --help" }
func (e *usageError) Unwrap() error { return e.err }

// run parses the command line and runs the command.
func run(args []string, env environment) error {
	var c commands
	exited := false
	parser, err := kong.New(&c, kong.Name("bridge"),
		kong.Description("Moves records from Kafka to Kafka through map functions, exactly once."),
		kong.Writers(env.stdout, env.stderr), kong.Exit(func(int) { exited = true }), kong.UsageOnError())
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	if len(args) > 0 && args[0] == completeWord {
		return complete(parser.Model.Node, args[1:], env)
	}
	ctx, err := parser.Parse(args)
	switch {
	case exited:
		return nil // --help
	case err != nil:
		return &usageError{err}
	}
	return ctx.Run(env)
}
