package bridge

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/semantics"
)

// Parts are what a bridge is wired with. They stay the caller's: Run closes none of them.
type Parts struct {
	Sources []*kgo.Client // transport only, one per source, in the order of Options.Sources
	Writer  Writer
	Arbiter Arbiter
	Ledger  Ledger
	Store   Store // nil without a checkpoint block: the positions in the source's group are the progress then
	Topics  SinkTopics
	Maps    Registry
	Log     hclog.Logger
	// Incarnation is this run's random id, the same that the ledger's records carry.
	Incarnation string
	// Check looks at the sink cluster's limits before anything else is done; nil: nothing to check.
	Check func(context.Context) error
	// Observe is called by the driver for events that metrics count; nil: nobody listens. It must not block.
	Observe func(Observation)
	// Failpoint is called after the operation of that name, in tests that kill the process there; nil: no failpoints.
	Failpoint func(operation string)
}

// Bridge moves the records of its sources through the maps to the sink.
type Bridge struct {
	o       Options
	p       Parts
	log     hclog.Logger
	sources []*source
	store   Store
	window  *window
	sink    *windowWriter
	rejects *rejects
	journal *journal
	stop    chan struct{}
	hub     hub
	pulse   pulse
}

// New checks the options and wires a bridge. Nothing is connected to yet.
func New(o Options, p Parts) (*Bridge, error) {
	o.EnsureDefaults()
	err := errors.Join(append(checkMaps(o.Maps, p.Maps), o.Validate())...)
	if err == nil && len(p.Sources) != len(o.Sources) {
		err = fmt.Errorf("%d source clients for %d sources", len(p.Sources), len(o.Sources))
	}
	if err != nil {
		return nil, semantics.Misconfigured("configure bridge "+o.Name, "%w", err)
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if p.Failpoint == nil {
		p.Failpoint = func(string) {}
	}
	if p.Observe == nil {
		p.Observe = func(Observation) {}
	}
	b := &Bridge{o: o, p: p, log: p.Log.With("bridge", o.Name), store: p.Store, window: newWindow(o), rejects: newRejects(), stop: make(chan struct{}, 1)}
	b.journal = &journal{log: b.log}
	if o.Sink.OnReject == DeadLetter {
		b.p.Writer = &rejectWriter{Writer: p.Writer, rejects: b.rejects}
	}
	b.sink = newWindowWriter(b.p.Writer, b.window)
	for i, so := range o.Sources {
		// Each source gets an equal share, so that one with a slow sink topic cannot starve the others.
		b.sources = append(b.sources, newSource(so, p.Sources[i], b.log, o.MaxInFlight/int64(len(o.Sources))))
		share := int64(len(o.Sources))
		if so.OnSinkCluster {
			b.sources[i].own = o.TransactionalIDs
		}
		b.sources[i].window = func() int64 { return b.window.bytes() / share }
	}
	if b.store == nil {
		b.store = &groupStore{sources: b.sources, semantic: o.Semantic}
	}
	b.hub.init(b)
	if r, ok := p.Arbiter.(Reporter); ok {
		r.Report(b.hub.waiting)
	}
	return b, nil
}

// Stop asks for the final checkpoint and the end of Run. It does not wait, and may be called more than once.
func (b *Bridge) Stop() {
	select {
	case b.stop <- struct{}{}:
	default:
	}
}

// Run moves records until Stop is called, until everything was moved (UntilEnd), or until the bridge has to end. The
// error is a *semantics.Error with its exit code, nil for exit code 0. When ctx is done everything is cut off at once,
// as in a crash.
func (b *Bridge) Run(ctx context.Context) error {
	return newDriver(b).run(ctx)
}

// MachineConfig is what a bridge of these options and parts gives its machine, for commands that foresee or replace a run.
func MachineConfig(o Options, p Parts) semantics.Config { return (&Bridge{o: o, p: p}).machineConfig() }

// machineConfig is what the machine needs to know of the options.
func (b *Bridge) machineConfig() semantics.Config {
	c := semantics.Config{
		Bridge: b.o.Name, Incarnation: b.p.Incarnation, Semantic: b.o.Semantic,
		Ledger: b.o.Ledger && b.p.Ledger != nil, Stateful: b.stateful(), Groups: b.p.Store == nil,
		OnTimeoutFail: b.o.OnTimeout == Fail, Adopt: b.o.Adopt.Enabled, AdoptEpoch: b.o.Adopt.Epoch,
		TolerableFailures: b.o.Checkpoint.TolerableFailures, RestartAttempts: b.o.Restart.Attempts,
	}
	copy(c.IDs[:], b.o.TransactionalIDs)
	return c
}

// barred says why a map must not route records to a topic; nil when it may.
func (b *Bridge) barred(topic string) error {
	if topic == b.o.Sink.DeadLetterTopic {
		return errors.New("it is the dead letter topic")
	}
	if slices.Contains(b.o.Sink.Reserved, topic) {
		return errors.New("it is a ledger")
	}
	for _, s := range b.sources {
		if s.o.OnSinkCluster && s.reads(topic) {
			return fmt.Errorf("source %q reads it: its records would go round for ever", s.o.Name)
		}
	}
	return nil
}

// stateful says whether a map of the chain keeps state. New has made every map once to check it.
func (b *Bridge) stateful() bool {
	for i, o := range b.o.Maps {
		if m, err := b.p.Maps.make(i, o); err == nil {
			if _, ok := m.(Stateful); ok {
				return true
			}
		}
	}
	return false
}
