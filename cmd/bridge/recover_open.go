package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/maps"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
	"kafkabridge/txn"
)

// repairTimeout bounds what only looks. What is asked for meanwhile is answered at once by brokers that work.
const repairTimeout = 30 * time.Second

// looking is the context of a command that only looks: it ends after repairTimeout, or when a stop is asked for.
func (e environment) looking() (_ context.Context, release func()) {
	ctx, cancel := context.WithTimeout(context.Background(), repairTimeout)
	ctx, stop := e.stoppable(ctx)
	return ctx, func() { stop(); cancel() }
}

// repair is one bridge as the commands see it that look at it, or mend it, while no daemon of it runs.
type repair struct {
	b           configs.Bridge
	log         hclog.Logger
	incarnation string
	cl          *kgo.Client
	sink        *txn.Sink
	close       []func() error // in reverse order
}

// openRepair connects to the sink's cluster. Nothing is changed by it.
func openRepair(ctx context.Context, b configs.Bridge, log hclog.Logger) (_ *repair, err error) {
	r := &repair{b: b, log: log, incarnation: kafkabridge.Incarnation()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("bridge %q sink %q: %w", b.Options.Name, b.Options.Sink.Name, err), r.Close())
		}
	}()
	if r.cl, err = r.client(ctx, b.SinkConnection); err != nil {
		return nil, err
	}
	o := b.Sink
	o.Incarnation = r.incarnation
	o.RenewedCredentials = b.SinkConnection.SASL.Renewable()
	if r.sink, err = txn.New(o, r.cl, log); err != nil {
		return nil, err
	}
	r.close = append(r.close, r.sink.Close)
	return r, nil
}

// client connects to a cluster and asks for a sign of life, so that what is wrong with the connection is said in one line.
func (r *repair) client(ctx context.Context, o connect.Options, extra ...kgo.Opt) (*kgo.Client, error) {
	cl, err := connect.Client(o, hclog.NewNullLogger(), extra...) // what fails is in the error, once
	if err != nil {
		return nil, semantics.Misconfigured("connection", "%w", err)
	}
	r.close = append(r.close, func() error { cl.Close(); return nil })
	switch err := connect.Check(ctx, cl, o); {
	case err == nil:
		return cl, nil
	case kafkabridge.Refused(err, o):
		return nil, semantics.Misconfigured("connect", "%w", err)
	default:
		return nil, &semantics.Error{Class: semantics.Retry, Op: "connect", Err: err}
	}
}

// source connects to the cluster of the i-th source.
func (r *repair) source(ctx context.Context, i int, extra ...kgo.Opt) (*kgo.Client, error) {
	cl, err := r.client(ctx, r.b.SourceConnections[i], extra...)
	if err != nil {
		return nil, fmt.Errorf("bridge %q source %q: %w", r.b.Options.Name, r.b.Options.Sources[i].Name, err)
	}
	return cl, nil
}

// config is what a daemon of this bridge would give its machine.
func (r *repair) config() semantics.Config {
	p := bridge.Parts{Maps: maps.Kinds(), Incarnation: r.incarnation}
	if r.b.Sink.Ledger {
		p.Ledger = r.sink.Ledger
	}
	cfg := bridge.MachineConfig(r.b.Options, p)
	cfg.Groups = r.b.Store == nil
	return cfg
}

// explain adds the likely cause to a failure of the sink's connection.
func (r *repair) explain(err error) error { return kafkabridge.Explain(err, r.b.SinkConnection) }

// Close closes everything, the last opened first.
func (r *repair) Close() error {
	var errs []error
	for i := len(r.close) - 1; i >= 0; i-- {
		errs = append(errs, r.close[i]())
	}
	r.close = nil
	return errors.Join(errs...)
}

// daemonRuns says whether a daemon of the file runs on this machine. Of a bridge with a state directory its lock tells, which
// is asked for where the directory is opened; without one only the daemon's HTTP address does.
func daemonRuns(env environment, file *configs.File, b configs.Bridge) (bool, error) {
	d, err := askDaemon(env, file)
	var other *notOursError
	switch {
	case errors.Is(err, errNoDaemon), errors.As(err, &other):
		return false, nil
	case err != nil:
		return false, err
	}
	for _, s := range d.Bridges {
		if s.Bridge == b.Options.Name {
			return true, nil
		}
	}
	return false, nil
}

// holdDirectory opens the state directory for writing, which keeps a daemon from starting meanwhile. nil without an error: the
// bridge has none, or nothing was ever stored in it and create is false.
func holdDirectory(env environment, file *configs.File, b configs.Bridge, create bool) (*snapshot.Store, error) {
	if b.Store == nil || !create && unused(b.Store.Path) {
		running, err := daemonRuns(env, file, b)
		if err == nil && running {
			err = runningError(b, fmt.Errorf("it answers at %s", file.Server.Listen))
		}
		return nil, err
	}
	store, err := snapshot.Open(*b.Store)
	switch {
	case errors.Is(err, snapshot.ErrLocked):
		return nil, runningError(b, err)
	case err != nil:
		return nil, fmt.Errorf("bridge %q: %w", b.Options.Name, err)
	}
	return store, nil
}

// errRunning is wrapped by the refusal to change anything under a running daemon.
var errRunning = errors.New("a daemon is running")

func runningError(b configs.Bridge, err error) error {
	return semantics.Refuse(fmt.Sprintf("bridge %q", b.Options.Name), "%w, and this would fence it: stop it first (SIGTERM ends what it has open): %w", errRunning, err)
}
