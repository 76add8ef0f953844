// Package kafkabridge is the bridge as a library: it runs one bridge of a configuration inside the caller's process, with
// the caller's own map functions. The daemon of cmd/bridge is built on it.
//
//	file, err := configs.Load("bridge.hcl", "enrich")
//	…
//	err = kafkabridge.New(file.Bridges[0], kafkabridge.WithMap("enrich", enrich)).Run(ctx)
//
// The package only wires: bridge moves the records, txn makes the output visible, snapshot keeps the progress.
package kafkabridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/maps"
	"kafkabridge/semantics"
)

// Bridge is one bridge that runs in this process. Its methods are safe for concurrent use.
type Bridge struct {
	o        configs.Bridge
	maps     bridge.Registry
	log      hclog.Logger
	fail     func(step string)
	observe  func(bridge.Observation)
	counting func(bridge.Writer) bridge.Writer
	hooks    func(role, cluster string) []kgo.Hook
	crash    context.Context

	mu      sync.Mutex
	inner   *bridge.Bridge
	closers []func() error // the last opened is closed first
	stopped bool           // before it was opened
	ran     bool           // or was closed
}

// Option changes what New makes.
type Option func(*Bridge)

// MapFunc is a map function without state. One MapFunc serves all source partitions, from several goroutines at once; what
// [bridge.Map] says of records and determinism holds for it.
type MapFunc func(r *bridge.Record, emit func(*bridge.Record) error) error

// Map implements bridge.Map.
func (f MapFunc) Map(r *bridge.Record, emit func(*bridge.Record) error) error { return f(r, emit) }

// WithMap makes f a kind of map: the blocks map "kind" of the configuration run it, whatever their attributes. A built-in
// kind of that name is replaced.
func WithMap(kind string, f MapFunc) Option {
	return WithFactory(kind, func(any) (bridge.Map, error) { return f, nil })
}

// WithFactory makes a kind of map that has settings, or an instance for each source partition: one with state implements
// [bridge.Stateful]. The factory gets the attributes of the block, as [configs.Load] describes them.
func WithFactory(kind string, f bridge.Factory) Option {
	return func(b *Bridge) { b.maps[kind] = f }
}

// WithLogger says where the bridge logs; without it nowhere.
func WithLogger(log hclog.Logger) Option { return func(b *Bridge) { b.log = log } }

// WithObserver hands every observation to f, which must not block.
func WithObserver(f func(bridge.Observation)) Option { return func(b *Bridge) { b.observe = f } }

// WithWriter puts f's Writer around the sink's. It must keep the Writer's promises.
func WithWriter(f func(bridge.Writer) bridge.Writer) Option {
	return func(b *Bridge) { b.counting = f }
}

// WithClientHooks gives every Kafka client of the bridge the hooks that f returns for it: role is "source" or "sink", cluster the
// name of its block. Each client is made once, by Open, and closed at the end.
func WithClientHooks(f func(role, cluster string) []kgo.Hook) Option {
	return func(b *Bridge) { b.hooks = f }
}

// WithFailpoint calls f after each named step of the protocol, for tests that kill the process there; nil: nothing is called.
func WithFailpoint(f func(step string)) Option { return func(b *Bridge) { b.fail = f } }

// WithCrash cuts the bridge off when ctx is done, as kill -9 does: what is open stays open. It is for drills and tests.
func WithCrash(ctx context.Context) Option { return func(b *Bridge) { b.crash = ctx } }

// New makes a bridge of one block of a configuration. Nothing is opened or connected to before Open or Run.
func New(o configs.Bridge, options ...Option) *Bridge {
	b := &Bridge{o: o, maps: maps.Kinds(), log: hclog.NewNullLogger(), crash: context.Background()}
	for _, option := range options {
		option(b)
	}
	return b
}

// Name is the bridge's.
func (b *Bridge) Name() string { return b.o.Options.Name }

// Open opens the state directory and makes the clients; nothing is sent to a broker. Whoever calls it, to learn early what
// is wrong, must call Run or Close afterwards. It does nothing when the bridge is open. After an error nothing is open.
func (b *Bridge) Open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ran {
		return b.again()
	}
	if b.inner != nil {
		return nil
	}
	inner, err := b.assemble()
	if err != nil {
		closers := b.closers
		b.closers = nil
		return errors.Join(err, closeAll(closers))
	}
	b.inner = inner
	if b.stopped {
		inner.Stop()
	}
	return nil
}

// Run moves records until the bridge is stopped, has moved everything (UntilEnd), or has to end, and closes it. When ctx is
// done the bridge stops cleanly, as on SIGTERM: final checkpoint, commit, at most Options.StopTimeout. The error is a
// *semantics.Error with the exit code that the daemon would end with; nil for 0. A Bridge runs once.
func (b *Bridge) Run(ctx context.Context) error {
	if err := b.Open(); err != nil {
		return err
	}
	if err := b.begin(); err != nil {
		return err
	}
	unhook := context.AfterFunc(ctx, b.Stop)
	err := b.inner.Run(b.crash)
	unhook()
	if closing := b.Close(); closing != nil {
		b.log.Warn("not everything was closed cleanly", "bridge", b.Name(), "error", closing)
	}
	return err
}

// begin takes the only run that there is: a second one would use a store that the first has closed, or is using.
func (b *Bridge) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ran {
		return b.again()
	}
	b.ran = true
	return nil
}

func (b *Bridge) again() error {
	return semantics.Misconfigured("run", "bridge %q has run or is closed, and a Bridge runs once: make another with New", b.Name())
}

// Stop asks for the final checkpoint and the end of Run. It does not wait, and may be called at any time and more than once.
func (b *Bridge) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	if b.inner != nil {
		b.inner.Stop()
	}
}

// Status is what the bridge does; before it is open only its name.
func (b *Bridge) Status() bridge.Status {
	b.mu.Lock()
	inner := b.inner
	b.mu.Unlock()
	if inner == nil {
		return bridge.Status{Bridge: b.Name()}
	}
	return inner.Status()
}

// Alive is nil while the bridge works or waits for what can come by itself, and an error when only the end of the process helps.
// See [bridge.Bridge.Alive]. A bridge that is not open is alive.
func (b *Bridge) Alive() error {
	b.mu.Lock()
	inner := b.inner
	b.mu.Unlock()
	if inner == nil {
		return nil
	}
	return inner.Alive()
}

// closeTimeout bounds the last thing that a bridge does. A disk that does not answer must not keep the process that was told
// to stop; everything that has to be durable is so before.
const closeTimeout = 5 * time.Second

// Close closes what Open opened, within some seconds. It must not be called while Run is under way.
func (b *Bridge) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	closers := b.closers
	b.closers, b.ran = nil, true
	return within(closeTimeout, func() error { return closeAll(closers) })
}

func closeAll(closers []func() error) error {
	var errs []error
	for i := len(closers) - 1; i >= 0; i-- {
		errs = append(errs, closers[i]())
	}
	return errors.Join(errs...)
}

// within returns f's error, or that f is not done in time; f then goes on until the process ends.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return fmt.Errorf("not done within %s", limit)
	}
}
