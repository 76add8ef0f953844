package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
	"kafkabridge/server"
	"kafkabridge/snapshot"
	"kafkabridge/txn"
)

// The parts of txn and snapshot that bridge needs.
var (
	_ bridge.Writer     = (*txn.Producer)(nil)
	_ bridge.Arbiter    = (*txn.Coordinator)(nil)
	_ bridge.Ledger     = (*txn.Ledger)(nil)
	_ bridge.SinkTopics = (*txn.Topics)(nil)
	_ bridge.Store      = (*snapshot.Store)(nil)
)

// assembly is one bridge with everything that has to be closed after it.
type assembly struct {
	*bridge.Bridge
	close []func() error // in reverse order
}

// assemble opens the state directory and makes the clients of one bridge. Nothing is sent before Run. On an error
// everything is closed again.
func assemble(c configs.Bridge, metrics *server.Metrics, log hclog.Logger, fail func(string)) (a *assembly, err error) {
	a = &assembly{}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	parts := bridge.Parts{Maps: bridge.Maps(), Log: log, Incarnation: incarnation(), Failpoint: fail}
	// The state directory comes first: what is wrong with it is found before anything is asked of a broker.
	if c.Store != nil {
		o := *c.Store
		o.Logger = log.Named("pebble")
		store, err := snapshot.Open(o)
		if err != nil {
			return a, fmt.Errorf("bridge %q: %w", c.Options.Name, err)
		}
		a.close = append(a.close, store.Close)
		parts.Store = store
	}
	for i, conn := range c.SourceConnections {
		cl, err := a.client(conn, log)
		if err != nil {
			return a, fmt.Errorf("bridge %q source %q: %w", c.Options.Name, c.Options.Sources[i].Name, err)
		}
		parts.Sources = append(parts.Sources, cl)
	}
	cl, err := a.client(c.SinkConnection, log)
	if err != nil {
		return a, fmt.Errorf("bridge %q sink: %w", c.Options.Name, err)
	}
	if err := a.sink(c, cl, &parts, log); err != nil {
		return a, err
	}
	name := c.Options.Name
	if metrics != nil {
		parts.Observe = func(o bridge.Observation) { metrics.Observe(name, o) }
		parts.Writer = &countedWriter{parts.Writer, metrics.Written(name)}
	}
	o := c.Options
	o.Sources = slices.Clone(o.Sources)
	for i := range o.Sources {
		o.Sources[i].Explain = func(err error) error { return explain(err, c.SourceConnections[i]) }
	}
	o.TransactionTimeout = c.Sink.TransactionTimeout
	testMaps(&o, parts.Maps)
	a.Bridge, err = bridge.New(o, parts)
	return a, err
}

func (a *assembly) client(o connect.Options, log hclog.Logger) (*kgo.Client, error) {
	cl, err := connect.Client(o, log)
	if err != nil {
		return nil, semantics.Misconfigured("connection", "%w", err) // nothing was sent: a file that tls names cannot be used
	}
	a.close = append(a.close, func() error { cl.Close(); return nil })
	return cl, nil
}

func (a *assembly) sink(c configs.Bridge, cl *kgo.Client, parts *bridge.Parts, log hclog.Logger) error {
	o := c.Sink
	o.Incarnation = parts.Incarnation
	sink, err := txn.New(o, cl, log)
	if err != nil {
		return fmt.Errorf("bridge %q: %w", c.Options.Name, err)
	}
	a.close = append(a.close, sink.Close)
	parts.Writer, parts.Arbiter, parts.Topics = sink.Producer, sink.Coordinator, sink.Topics
	if o.Ledger {
		parts.Ledger = sink.Ledger
	}
	parts.Check = func(ctx context.Context) error { return checkSink(ctx, sink, cl, c.SinkConnection) }
	return nil
}

// checkSink first asks for a sign of life: sink.Check repeats for as long as no broker answers, and meanwhile nobody would
// see why the bridge is not ready.
func checkSink(ctx context.Context, sink *txn.Sink, cl *kgo.Client, o connect.Options) error {
	err := connect.Check(ctx, cl, o)
	switch {
	case err == nil:
		return explain(sink.Check(ctx), o)
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
		return semantics.Misconfigured("connect to the sink", "%w", err) // no repetition mends it, and some brokers lock accounts
	default:
		return &semantics.Error{Class: semantics.Retry, Op: "connect to the sink", Err: err}
	}
}

// explain adds the likely cause to a failure of the connection. What the sink's limits refuse is none and says itself what to do.
func explain(err error, o connect.Options) error {
	if semantics.ClassOf(err) == semantics.Fatal && !errors.Is(err, kerr.SaslAuthenticationFailed) && !errors.Is(err, kerr.UnsupportedSaslMechanism) {
		return err
	}
	return connect.Explain(err, o)
}

// Close closes everything, the last opened first.
func (a *assembly) Close() error {
	var errs []error
	for i := len(a.close) - 1; i >= 0; i-- {
		errs = append(errs, a.close[i]())
	}
	a.close = nil
	return errors.Join(errs...)
}

// incarnation is a random id for one run of a bridge.
func incarnation() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}
