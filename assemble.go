package kafkabridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
	"kafkabridge/connect"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
	"kafkabridge/txn"
)

// The parts of txn and snapshot that bridge needs.
var (
	_ bridge.Writer     = (*txn.Producer)(nil)
	_ bridge.Arbiter    = (*txn.Coordinator)(nil)
	_ bridge.Reporter   = (*txn.Coordinator)(nil)
	_ bridge.Ledger     = (*txn.Ledger)(nil)
	_ bridge.SinkTopics = (*txn.Topics)(nil)
	_ bridge.Store      = (*snapshot.Store)(nil)
	_ bridge.Sized      = (*snapshot.Store)(nil)
)

// assemble opens the state directory and makes the clients; b.closers closes what it has opened, also after an error.
func (b *Bridge) assemble() (*bridge.Bridge, error) {
	parts := bridge.Parts{Maps: b.maps, Log: b.log, Incarnation: Incarnation(), Failpoint: b.fail, Observe: b.observe}
	// The state directory comes first: what is wrong with it is found before anything is asked of a broker.
	if b.o.Store != nil {
		o := *b.o.Store
		o.Logger = b.log.Named("pebble")
		store, err := snapshot.Open(o)
		if err != nil {
			return nil, fmt.Errorf("bridge %q: %w", b.Name(), err)
		}
		b.closers = append(b.closers, store.Close)
		parts.Store = store
	}
	o := b.o.Options
	o.Sources = slices.Clone(o.Sources)
	for i, conn := range b.o.SourceConnections {
		s := &o.Sources[i]
		cl, err := b.client(conn, "source", s.Name)
		if err != nil {
			return nil, fmt.Errorf("bridge %q source %q: %w", b.Name(), s.Name, err)
		}
		parts.Sources = append(parts.Sources, cl)
		s.Explain = func(err error) error { return Explain(err, conn) }
		if o.Semantic == semantics.ExactlyOnce && !s.ReadCommitted {
			b.log.Warn("isolation_level = \"read_uncommitted\": what upstream aborts is moved too, exactly once", "bridge", b.Name(), "source", s.Name)
		}
	}
	if err := b.sink(&parts); err != nil {
		return nil, err
	}
	o.TransactionTimeout = b.o.Sink.TransactionTimeout
	return bridge.New(o, parts)
}

func (b *Bridge) client(o connect.Options, role, cluster string) (*kgo.Client, error) {
	var extra []kgo.Opt
	if b.hooks != nil {
		extra = append(extra, kgo.WithHooks(b.hooks(role, cluster)...))
	}
	cl, err := connect.Client(o, b.log, extra...)
	if err != nil {
		return nil, semantics.Misconfigured("connection", "%w", err) // nothing was sent: a file that tls names cannot be used
	}
	b.closers = append(b.closers, func() error { cl.Close(); return nil })
	return cl, nil
}

func (b *Bridge) sink(parts *bridge.Parts) error {
	cl, err := b.client(b.o.SinkConnection, "sink", b.o.Options.Sink.Name)
	if err != nil {
		return fmt.Errorf("bridge %q sink: %w", b.Name(), err)
	}
	o := b.o.Sink
	o.Incarnation = parts.Incarnation
	o.RenewedCredentials = b.o.SinkConnection.SASL.Renewable()
	sink, err := txn.New(o, cl, b.log)
	if err != nil {
		return fmt.Errorf("bridge %q: %w", b.Name(), err)
	}
	b.closers = append(b.closers, sink.Close)
	parts.Writer, parts.Arbiter, parts.Topics = sink.Producer, sink.Coordinator, sink.Topics
	if b.counting != nil {
		parts.Writer = b.counting(parts.Writer)
	}
	if o.Ledger {
		parts.Ledger = sink.Ledger
	}
	parts.Check = func(ctx context.Context) error { return checkSink(ctx, sink, cl, b.o.SinkConnection) }
	return nil
}

// checkSink first asks for a sign of life: sink.Check repeats for as long as no broker answers, and meanwhile nobody would
// see why the bridge is not ready.
func checkSink(ctx context.Context, sink *txn.Sink, cl *kgo.Client, o connect.Options) error {
	err := connect.Check(ctx, cl, o)
	switch {
	case err == nil:
		return Explain(sink.Check(ctx), o)
	case Refused(err, o):
		return semantics.Misconfigured("connect to the sink", "%w", err) // no repetition mends it, and some brokers lock accounts
	default:
		return &semantics.Error{Class: semantics.Retry, Op: "connect to the sink", Err: err}
	}
}

// Refused says whether the broker refuses the credentials for good: no repetition mends that.
func Refused(err error, o connect.Options) bool {
	return errors.Is(err, kerr.UnsupportedSaslMechanism) || errors.Is(err, kerr.SaslAuthenticationFailed) && !o.SASL.Renewable()
}

// Explain adds the likely cause to a failure of the connection. What the sink's limits refuse is none and says itself what to do.
func Explain(err error, o connect.Options) error {
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed) && o.SASL.Renewable():
		// Broker and file are not changed at the same moment: whoever comes in between waits for the other half.
		return &semantics.Error{Class: semantics.Retry, Op: "connect", Err: connect.Explain(err, o)}
	case semantics.ClassOf(err) == semantics.Fatal && !errors.Is(err, kerr.SaslAuthenticationFailed) && !errors.Is(err, kerr.UnsupportedSaslMechanism):
		return err
	}
	return connect.Explain(err, o)
}

// Incarnation is a random id for one run of a bridge.
func Incarnation() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}
