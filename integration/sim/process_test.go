package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
	"kafkabridge/connect"
	"kafkabridge/maps"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
	"kafkabridge/txn"
)

// process is one incarnation of the bridge: its parts wired as the command does it, its disk and its network.
type process struct {
	w    *world
	name string
	disk *vfs.MemFS // what it writes to; nobody looks at it after the death but its crash clone
	wire *wire
	ill  illness

	cut  context.CancelCauseFunc
	ctx  context.Context
	done chan struct{} // Run has returned and everything is closed
	err  error         // valid after done
	b    *bridge.Bridge

	once  sync.Once
	dead  chan struct{} // killed
	clone *vfs.MemFS    // valid after dead: what a disk holds after the crash

	at    string // failpoint to die at
	after int    // the how manieth time

	mu sync.Mutex // guards b and after

	// The scenario's:
	rivalled  bool // another one was started while it lived
	illDisk   bool // its disk has failed
	oldDisk   bool // its disk may be behind the ledger
	consulted bool // it refused as it has to, and an operator has decided

	cfg config // as its configuration file says
}

// launch says how an incarnation is started.
type launch struct {
	failpoint string
	times     int // which occurrence of the failpoint kills
	untilEnd  bool
}

var errKilled = errors.New("killed by the simulation")

// start runs a new incarnation on disk, with whatever an operator has decided.
func (w *world) start(disk *vfs.MemFS, l launch) *process {
	w.started++
	w.weakest = min(w.weakest, w.cfg.semantic)
	p := &process{w: w, name: fmt.Sprintf("b%d", w.started), disk: disk, done: make(chan struct{}), dead: make(chan struct{}), at: l.failpoint, after: l.times, oldDisk: w.oldDisk, cfg: w.cfg}
	p.wire = &wire{who: p.name, coord: w.coord, faults: w.faults, tr: w.tr, watch: w.watch, clear: map[*site]time.Time{}, clients: clients()}
	p.wire.beforeCommit = p.durably(w.diskRandom())
	p.ctx, p.cut = context.WithCancelCause(context.Background())
	p.ill.p = p
	o := w.orders.apply(w.cfg.bridge())
	o.UntilEnd = l.untilEnd
	w.tr.add(p.name, "START %s failpoint %q times %d, on_timeout %s, adopt %+v", p.cfg.semantic, l.failpoint, l.times, o.OnTimeout, o.Adopt)
	w.processes = append(w.processes, p)
	go p.run(o)
	return p
}

// run is the process's main function.
func (p *process) run(o bridge.Options) {
	defer close(p.done)
	p.err = p.main(o)
	p.w.tr.add(p.name, "EXIT %d: %v", exitCode(p.err), p.err)
}

func (p *process) main(o bridge.Options) (err error) {
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: logWriter{p.w.tr, p.name}, DisableTime: true})
	parts := bridge.Parts{Maps: maps.Kinds(), Log: log, Incarnation: p.name, Failpoint: p.failpoint}
	parts.Maps["counter"] = newCounterMap
	store, err := snapshot.Open(snapshot.Options{Path: "state", Bridge: o.Name, FS: errorfs.Wrap(lightDisk{p.disk}, &p.ill), Logger: hclog.NewNullLogger()})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer p.close("store", store.Close)
	parts.Store = store
	for range o.Sources {
		cl, err := p.client(p.w.from, log)
		if err != nil {
			return err
		}
		defer cl.Close()
		parts.Sources = append(parts.Sources, cl)
	}
	cl, err := p.client(p.w.to, log)
	if err != nil {
		return err
	}
	defer cl.Close()
	so := p.cfg.sink()
	so.Incarnation = p.name
	sink, err := txn.New(so, cl, log)
	if err != nil {
		return err
	}
	defer p.close("sink", sink.Close)
	parts.Writer, parts.Arbiter, parts.Topics, parts.Check = sink.Producer, sink.Coordinator, sink.Topics, sink.Check
	if so.Ledger {
		parts.Ledger = sink.Ledger
	}
	b, err := bridge.New(o, parts)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.b = b
	p.mu.Unlock()
	return b.Run(p.ctx)
}

func (p *process) client(at *site, log hclog.Logger) (*kgo.Client, error) {
	return connect.Client(connect.Options{Brokers: at.brokers}, log, kgo.Dialer(p.wire.dialer(at)))
}

func (p *process) close(what string, f func() error) {
	if err := f(); err != nil {
		p.w.tr.add(p.name, "close %s: %v", what, err)
	}
}

// failpoint dies exactly there: nothing that the action was to do afterwards happens.
func (p *process) failpoint(operation string) {
	p.w.tr.add(p.name, "AT %s", operation)
	if p.dies(operation) {
		p.kill()
		runtime.Goexit()
	}
}

// dies counts down: actions run at the same time.
func (p *process) dies(operation string) bool {
	if operation != p.at {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after--
	return p.after <= 0
}

// kill is kill -9 together with a power cut: unsynced writes are lost, as the seed wants it.
func (p *process) kill() {
	p.once.Do(func() {
		p.w.tr.add(p.name, "KILLED")
		p.wire.kill()
		p.clone = p.w.crashed(p.disk)
		p.cut(errKilled)
		close(p.dead)
	})
}

// stop asks for a clean stop.
func (p *process) stop() {
	p.mu.Lock()
	b := p.b
	p.mu.Unlock()
	if b == nil {
		return // it ends by itself
	}
	p.w.tr.add(p.name, "STOP")
	b.Stop()
}

// status is for messages.
func (p *process) status() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.b == nil {
		return "not running yet"
	}
	s := p.b.Status()
	return fmt.Sprintf("state %s, epoch %d, restarts %d, last failure %q, waiting %v", s.State, s.Epoch, s.Restarts, s.LastFailure, s.Waiting)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// within waits for the end.
func (p *process) within(d time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(d):
		return false
	}
}

// killed says whether the simulation, and not the bridge itself, ended it.
func (p *process) killed() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// left is what the process leaves on its disk: all of it after an orderly exit, the crash clone after a crash.
func (p *process) left() *vfs.MemFS {
	if p.killed() {
		return p.clone
	}
	return p.w.crashed(p.disk)
}

// exitCode is what the command would exit with.
func exitCode(err error) semantics.ExitCode {
	var e *semantics.Error
	switch {
	case err == nil:
		return semantics.ExitDone
	case errors.As(err, &e) && e.Exit != 0:
		return e.Exit
	default:
		return semantics.ExitGaveUp
	}
}
