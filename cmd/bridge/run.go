package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/mattn/go-isatty"

	"kafkabridge"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/semantics"
	"kafkabridge/server"
	"kafkabridge/tracing"
)

type runCommand struct {
	fileFlag
	UntilEnd bool      `help:"Stop after everything that was committed in the sources at start."`
	Adopt    adoptFlag `placeholder:"EPOCH" help:"Where the ledger lost its records, go on from the state directory; with EPOCH from that checkpoint."`
}

// Run is the daemon.
func (c *runCommand) Run(env environment) error {
	hangup := make(chan os.Signal, 1) // a second one while the first is obeyed finds the same file
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	limitMemory(file)
	d, err := newDaemon(file, env, func(o *bridge.Options) {
		o.UntilEnd = c.UntilEnd
		o.Adopt = bridge.Adopt(c.Adopt)
	})
	if err != nil {
		return err
	}
	d.path, d.hangup = c.Config, hangup
	return d.run(env, c.UntilEnd)
}

// daemon is all bridges of one file.
type daemon struct {
	file    *configs.File
	log     hclog.Logger
	bridges []*kafkabridge.Bridge
	server  *server.Server
	path    string           // of the file
	hangup  <-chan os.Signal // asks for the file's log level
	notify  *notifier
	traces  *tracing.Tracer
}

func newLogger(o configs.LogOptions, env environment) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "bridge", Level: hclog.LevelFromString(o.Level), JSONFormat: o.Format == "json", Output: env.stderr})
}

func newDaemon(file *configs.File, env environment, adjust func(*bridge.Options)) (_ *daemon, err error) {
	d := &daemon{file: file, log: newLogger(file.Log, env)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	fail, err := failpoint(d.log)
	if err != nil {
		return nil, err
	}
	secured, err := surface(file.Server, d.log.Named("http"))
	if err != nil {
		return nil, err
	}
	secured.Alive = d.alive
	for _, w := range file.Server.Warnings() {
		d.log.Warn(w)
	}
	if d.traces, err = tracing.FromEnvironment(version, d.log.Named("traces"), os.Getenv); err != nil {
		return nil, err
	}
	metrics := server.NewMetrics()
	var shown []server.Bridge
	for _, b := range file.Bridges {
		adjust(&b.Options)
		a := wire(b, metrics, d.traces, d.log, fail)
		if err := a.Open(); err != nil {
			return nil, err
		}
		d.bridges = append(d.bridges, a)
		shown = append(shown, a)
	}
	d.server = server.New(version, shown, metrics, d.log.Named("http"))
	d.server.Use(secured)
	return d, nil
}

func (d *daemon) close() error {
	d.traces.Close()
	var errs []error
	for _, a := range d.bridges {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// run runs all bridges until one of them ends with an error, all are done, or a stop is asked for. Then the others are stopped cleanly: one process
// has one exit code, and half a daemon that looks healthy would hide the failure.
func (d *daemon) run(env environment, progress bool) error {
	if listen := d.file.Server.Listen; listen != "" {
		addr, err := d.server.Start(listen)
		if err != nil {
			return semantics.Misconfigured("start", "%w; choose another address, or \"\" for none", errors.Join(err, d.close()))
		}
		d.log.Info("listening", "address", addr.String())
	}
	results := make(chan error, len(d.bridges))
	var running sync.WaitGroup
	for _, a := range d.bridges {
		running.Go(func() { results <- a.Run(context.Background()) })
	}
	finished := make(chan struct{})
	var shown sync.WaitGroup
	if progress && isatty.IsTerminal(os.Stderr.Fd()) {
		shown.Go(func() { d.showProgress(env, finished) })
	}
	d.notify = newNotifier(d)
	notified := d.notify.start(finished)
	shown.Go(func() { d.obeyHangups(finished) })
	first := d.wait(env, results)
	running.Wait()
	d.traces.Close()
	close(finished)
	shown.Wait()
	notified()
	if d.file.Server.Listen != "" {
		if err := d.server.Close(); err != nil {
			d.log.Warn("the HTTP server did not close cleanly", "error", err)
		}
	}
	return first
}

func (d *daemon) wait(env environment, results <-chan error) (first error) {
	stop := env.stop
	for left := len(d.bridges); left > 0; {
		select {
		case <-stop:
			stop = nil
			d.stop()
		case err := <-results:
			left--
			if err != nil && first == nil {
				first = err
				if left > 0 {
					d.log.Error("a bridge has ended; stopping the others", "error", err)
				}
				d.stop()
			}
		}
	}
	return first
}

// alive is an error when only the end of the process helps one of the bridges.
func (d *daemon) alive() error {
	var errs []error
	for _, a := range d.bridges {
		errs = append(errs, a.Alive())
	}
	return errors.Join(errs...)
}

func (d *daemon) stop() {
	d.notify.stopping()
	for _, a := range d.bridges {
		a.Stop()
	}
}

// showProgress draws one line on a terminal while --until-end works.
func (d *daemon) showProgress(env environment, finished <-chan struct{}) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		var in, lag int64
		for _, a := range d.bridges {
			for _, s := range a.Status().Sources {
				in += s.RecordsIn
				for _, p := range s.Partitions {
					lag += max(0, p.Lag)
				}
			}
		}
		_, _ = fmt.Fprintf(env.stderr, "\r\x1b[K%d records moved, %d to go", in, lag)
		select {
		case <-tick.C:
		case <-finished:
			_, _ = fmt.Fprintln(env.stderr)
			return
		}
	}
}
