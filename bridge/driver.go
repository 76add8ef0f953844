package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kafkabridge/semantics"
)

const (
	lookInterval = 3 * time.Second       // how often an idle incarnation looks at the ledger's end
	pollInterval = 20 * time.Millisecond // how soon a barrier that could not start, max_records and --until-end are looked at again
	haltGrace    = 5 * time.Second       // beyond StopTimeout: what still hangs then (a disk that does not answer) is left behind
)

// driver obeys the machine: it performs actions and steps their answers. Its fields belong to the goroutine of run,
// except where a method says otherwise.
type driver struct {
	b *Bridge
	m *semantics.Machine

	parent context.Context
	gen    *generation
	pipe   *pipeline // nil while no tasks run

	unwatch    context.CancelFunc // ends the watch over the open epoch's writer
	publishing publisher
	broken     chan error      // the store could not be read after a halt
	last       semantics.Event // the one stepped last

	barrierTimer *time.Timer // next barrier
	timeoutTimer *time.Timer // checkpoint.timeout of the one under way
	timeoutEpoch semantics.Epoch
	lastBarrier  time.Time
	lastDecided  time.Time
	recordsAt    int64                                     // handed over when the last barrier began
	wanted       map[semantics.SourceTopic]map[int32]int64 // --until-end: where everything ends; nil otherwise
	drained      bool                                      // that was said in this run
	decidedInRun bool                                      // an epoch was decided since Start
	exit         *semantics.Exit
}

// generation is the time between two halts: what belongs to it is cut off together, and its answers are stepped only
// while it lasts.
type generation struct {
	ctx    context.Context
	cut    context.CancelCauseFunc
	events chan semantics.Event
	work   sync.WaitGroup // its actions and tasks
	peeks  atomic.Int32   // looks at the ledger's end under way: one that hangs must not gather others behind it
}

func newGeneration(parent context.Context) *generation {
	g := &generation{events: make(chan semantics.Event)}
	g.ctx, g.cut = context.WithCancelCause(parent)
	return g
}

func newDriver(b *Bridge) *driver {
	d := &driver{b: b, m: semantics.New(b.machineConfig()), unwatch: func() {}, broken: make(chan error, 1)}
	d.barrierTimer = stoppedTimer()
	d.timeoutTimer = stoppedTimer()
	return d
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// run is the life of the bridge.
func (d *driver) run(ctx context.Context) error {
	d.parent, d.gen = ctx, newGeneration(ctx)
	d.async(d.start)
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	stopped := stoppedTimer()
	defer stopped.Stop()
	abandoned := stoppedTimer()
	defer abandoned.Stop()
	stop := d.b.stop
	defer d.b.pulse.end()
	for {
		d.b.pulse.turn()
		if err := d.obey(); err != nil {
			return err
		}
		if d.exit != nil {
			return d.end()
		}
		var e semantics.Event
		select {
		case <-ctx.Done():
			return d.crash(ctx)
		case e = <-d.gen.events:
		case <-stop:
			stop = nil // asking again must not extend the deadline
			stopped.Reset(d.b.o.StopTimeout)
			abandoned.Reset(d.b.o.StopTimeout + haltGrace)
			e = semantics.StopRequested{}
		case <-stopped.C:
			e = semantics.StopDeadline{}
		case <-abandoned.C:
			d.b.log.Warn("the stop was given up on: something does not end", "state", d.m.State())
			d.exit = &semantics.Exit{Code: semantics.ExitDone}
			return d.end()
		case err := <-d.broken:
			d.exit = &semantics.Exit{Code: semantics.ExitGaveUp, Err: err}
			return d.end()
		case <-d.barrierTimer.C:
			e = semantics.BarrierDue{}
		case <-d.timeoutTimer.C:
			e = semantics.BarrierTimedOut{Epoch: d.timeoutEpoch}
		case <-look.C:
			if time.Since(d.lastDecided) < lookInterval {
				continue // whoever commits finds out by its commit
			}
			e = semantics.LookDue{}
		case <-poll.C:
			if e = d.poll(); e == nil {
				continue
			}
		}
		d.observe(e)
		d.last = e
		if err := d.m.Step(e); err != nil {
			return &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitRefused, Op: "drive", Err: err}
		}
		d.rearm(e)
	}
}

// async runs one action in its own goroutine and posts its answer to the generation in which it was started.
func (d *driver) async(action func(context.Context) (semantics.Event, error)) {
	g := d.gen
	g.work.Go(func() { g.perform(action) })
}

// perform runs in the action's goroutine. The answer of an action that was cut off is dropped: it proves nothing (I7).
func (g *generation) perform(action func(context.Context) (semantics.Event, error)) {
	e, err := action(g.ctx)
	if err != nil {
		e = semantics.Failed{Err: err}
	}
	if e != nil {
		g.post(e)
	}
}

func (g *generation) post(e semantics.Event) {
	select {
	case g.events <- e:
	case <-g.ctx.Done():
	}
}

// start checks the sink's limits and loads the checkpoints; what is wrong there is found before anybody is disturbed.
func (d *driver) start(ctx context.Context) (semantics.Event, error) {
	if d.b.o.Semantic == semantics.ExactlyOnce && d.b.p.Ledger == nil {
		d.b.log.Warn("ledger = false: the state directory is the only truth; never copy, restore or lose it, and run one process only: nothing would detect it and records would be doubled")
	}
	checkpoints, err := d.load(ctx)
	if err != nil {
		return nil, err
	}
	if d.b.p.Check != nil {
		if err := d.patiently(ctx, "checking the sink cluster", d.b.p.Check); err != nil {
			return nil, err
		}
	}
	return semantics.Started{Checkpoints: checkpoints}, nil
}

func (d *driver) load(ctx context.Context) (checkpoints []semantics.Checkpoint, err error) {
	err = d.patiently(ctx, "loading checkpoints", func(context.Context) error {
		checkpoints, err = d.b.store.Load()
		if err == nil {
			d.b.hub.loaded(checkpoints)
		}
		return err
	})
	return checkpoints, err
}

// patiently repeats what fails with class Retry, with growing pauses, and shows the reason meanwhile.
func (d *driver) patiently(ctx context.Context, doing string, f func(context.Context) error) error {
	defer d.b.hub.waiting(doing, "")
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f(ctx)
		if err == nil || semantics.ClassOf(err) != semantics.Retry || ctx.Err() != nil {
			return err
		}
		d.b.hub.waiting(doing, err.Error())
		d.b.log.Warn(doing+" failed, trying again", "error", err, "class", semantics.Retry, "pause", pause)
		if !sleep(ctx, pause) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
}

// sleep is false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// poll looks at what has no event of its own.
func (d *driver) poll() semantics.Event {
	if d.pipe == nil {
		return nil
	}
	if d.wanted != nil && !d.drained && d.reachedEnds() {
		d.drained = true
		return semantics.Drained{}
	}
	c := d.b.o.Checkpoint
	if c.MaxRecords > 0 && d.handedOver()-d.recordsAt >= c.MaxRecords && time.Since(d.lastDecided) >= c.MinPause {
		return semantics.BarrierDue{}
	}
	return nil
}

func (d *driver) handedOver() (n int64) {
	for _, s := range d.b.sources {
		n += s.handedOver()
	}
	return n
}

// rearm sets the barrier timer after an event that could have started one.
func (d *driver) rearm(e semantics.Event) {
	if _, ok := e.(semantics.BarrierDue); ok && d.m.Progress().Phase != semantics.PhaseAligning {
		d.barrierTimer.Reset(pollInterval) // the epoch before is not decided yet
	}
}

// armBarrier plans the next barrier: a fixed rate, so that a slow flush does not stretch the interval, and min_pause
// after the last decision.
func (d *driver) armBarrier() {
	next := d.lastBarrier.Add(d.b.o.Checkpoint.Interval)
	if p := d.lastDecided.Add(d.b.o.Checkpoint.MinPause); d.b.o.Checkpoint.MinPause > 0 && p.After(next) {
		next = p
	}
	d.barrierTimer.Reset(max(0, time.Until(next)))
}

// end cuts off what is left, waits for the offsets of the last epoch to be published, and returns what the process
// exits with.
func (d *driver) end() error {
	d.gen.cut(errors.New("the bridge ended"))
	d.settleDown()
	d.b.hub.exited(d.exit)
	if d.exit.Code == semantics.ExitDone {
		return nil
	}
	return d.exit.Err
}

// crash is the end without any last words: ctx was cancelled.
func (d *driver) crash(ctx context.Context) error {
	d.gen.cut(context.Cause(ctx))
	d.settleDown()
	return &semantics.Error{Class: semantics.Unknown, Exit: semantics.ExitGaveUp, Op: "run", Err: context.Cause(ctx)}
}

// settleDown waits until nothing runs any more, but not for ever: a disk that does not answer knows no context.
func (d *driver) settleDown() {
	quiet := make(chan struct{})
	go d.awaitQuiet(quiet)
	t := time.NewTimer(haltGrace)
	defer t.Stop()
	select {
	case <-quiet:
	case <-t.C:
		d.b.log.Warn("something does not end and is left behind", "waited", haltGrace)
	}
}

func (d *driver) awaitQuiet(quiet chan<- struct{}) {
	d.gen.work.Wait()
	d.publishing.rounds.Wait()
	close(quiet)
}
