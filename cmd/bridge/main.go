// Command bridge moves records from Kafka to Kafka through map functions, exactly once.
//
// main is signals and exit codes; everything else is run. The other files wire the packages together, one command each.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"kafkabridge/semantics"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	stop := make(chan struct{})
	go watchSignals(signals, stop)
	err := run(os.Args[1:], environment{stdout: os.Stdout, stderr: os.Stderr, stop: stop})
	report(os.Stderr, err)
	os.Exit(int(exitCode(err)))
}

// watchSignals asks for a clean stop at the first signal and ends the process at the second: whoever asks twice does
// not want to wait, and recovery makes good whatever is cut off.
func watchSignals(signals <-chan os.Signal, stop chan<- struct{}) {
	<-signals
	close(stop)
	<-signals
	_, _ = fmt.Fprintln(os.Stderr, "bridge: ended at once by a second signal; the next start recovers")
	os.Exit(int(semantics.ExitGaveUp))
}

// environment is what a command may touch of the process.
type environment struct {
	stdout, stderr io.Writer
	stop           <-chan struct{} // closed when a clean stop is asked for
}

// errStopped is the cause of a context that ended because a stop was asked for.
var errStopped = errors.New("stopped before it was done")

// stoppable ends when a stop is asked for, for commands that have nothing to finish. release gives it up.
func (e environment) stoppable(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { e.watch(ctx, cancel) })
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

func (e environment) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-e.stop:
		cancel(errStopped)
	case <-ctx.Done():
	}
}

func report(w io.Writer, err error) {
	var silent *silentError
	if err == nil || errors.As(err, &silent) {
		return
	}
	_, _ = fmt.Fprintln(w, "bridge:", err)
}

// silentError carries an exit code for what was reported already.
type silentError struct{ code semantics.ExitCode }

func (e *silentError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitCode is the code of the contract. An error without one is wrong usage if it comes from the command line, and
// otherwise a failure that was given up on.
func exitCode(err error) semantics.ExitCode {
	var silent *silentError
	var usage *usageError
	var classified *semantics.Error
	switch {
	case err == nil:
		return semantics.ExitDone
	case errors.As(err, &silent):
		return silent.code
	case errors.As(err, &usage):
		return semantics.ExitUsage
	case errors.As(err, &classified) && classified.Exit != 0:
		return classified.Exit
	default:
		return semantics.ExitGaveUp
	}
}
