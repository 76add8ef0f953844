package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"kafkabridge/semantics"
)

// obey performs everything that the machine asks for.
func (d *driver) obey() error {
	for _, a := range d.m.Ready() {
		if err := d.act(a); err != nil {
			return err
		}
	}
	d.b.hub.progress(d.m.Progress())
	return nil
}

// act performs one action, or starts it where it takes time.
func (d *driver) act(a semantics.Action) error {
	switch a := a.(type) {
	case semantics.Look:
		d.async(d.look)
	case semantics.Settle:
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.settle(ctx, a) })
	case semantics.StoreStatus:
		d.async(func(context.Context) (semantics.Event, error) { return d.storeStatus(a) })
	case semantics.Fence:
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.fence(ctx, a) })
	case semantics.ReadLedger:
		d.async(d.readLedger)
	case semantics.Resolve:
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.resolve(ctx, a) })
	case semantics.Append:
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.append(ctx, a) })
	case semantics.End:
		claim := d.m.State() == semantics.StateClaimEnding
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.endTransaction(ctx, a, claim) })
	case semantics.Drop:
		d.async(func(context.Context) (semantics.Event, error) {
			return semantics.Dropped{}, d.b.store.Drop(a.Epochs...)
		})
	case semantics.Open:
		d.unwatch()
		watching, unwatch := context.WithCancel(d.gen.ctx)
		d.unwatch = unwatch
		g := d.gen
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.open(ctx, g, a, watching) })
	case semantics.Start:
		d.startPipeline(a)
	case semantics.Flow:
		d.timeoutTimer.Stop()
		d.b.hub.idle(a.Epoch) // an epoch that flows again after its own barrier had nothing to do
		d.pipe.flow()
		d.armBarrier()
	case semantics.Barrier:
		d.barrier(a)
	case semantics.ExtendBarrier:
		d.b.log.Warn("checkpoint is late; the failure is tolerated", "epoch", a.Epoch, "timeout", d.b.o.Checkpoint.Timeout)
		d.b.hub.checkpointFailed(a.Epoch)
		d.timeoutTimer.Reset(d.b.o.Checkpoint.Timeout)
	case semantics.Flush:
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.flush(ctx, a) })
	case semantics.Persist:
		d.timeoutTimer.Stop()
		running := d.m.State() == semantics.StateRunning // else it holds the start positions, and no barrier made it
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.persist(ctx, a.Checkpoint, running) })
	case semantics.Publish:
		d.lastDecided = time.Now()
		d.publish(a)
		if d.pipe != nil {
			d.armBarrier() // what Flow armed did not know when this epoch would be decided
		}
	case semantics.Peek:
		if g := d.gen; g.peeks.CompareAndSwap(0, 1) {
			d.async(func(ctx context.Context) (semantics.Event, error) { return d.peek(ctx, g) })
		}
	case semantics.Halt:
		d.halt()
	case semantics.Wait:
		d.async(func(ctx context.Context) (semantics.Event, error) { return d.wait(ctx, a) })
	case semantics.Announce:
		d.announce(a.Recovery)
	case semantics.Exit:
		d.exit = &a
	default:
		return &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitRefused, Op: "drive", Err: fmt.Errorf("unknown action %T", a)}
	}
	return nil
}

func (d *driver) look(ctx context.Context) (semantics.Event, error) {
	end, err := d.readEnd(ctx, "looking at the ledger", false)
	// Without EXACTLY_ONCE nobody needs a right on the ledger topic: who may not read it has no past in it that this start must
	// know, unless a checkpoint says otherwise, and then the fence and the read fail with the same error.
	if err != nil && d.b.o.Semantic != semantics.ExactlyOnce && semantics.ClassOf(err) == semantics.Fatal {
		d.b.log.Warn("the ledger topic cannot be read; taken as absent, since the semantic does not need it", "error", err)
		return semantics.Looked{End: semantics.LedgerEnd{Offset: -1}}, nil
	}
	return semantics.Looked{End: end}, err
}

func (d *driver) readEnd(ctx context.Context, doing string, settled bool) (end semantics.LedgerEnd, err error) {
	err = d.patiently(ctx, doing, func(ctx context.Context) error {
		end, err = d.b.p.Ledger.Read(ctx, settled, func(reason string) { d.b.hub.waiting(doing, reason) })
		return err
	})
	return end, err
}

func (d *driver) readLedger(ctx context.Context) (semantics.Event, error) {
	end, err := d.readEnd(ctx, "reading the ledger", true)
	return semantics.LedgerRead{End: end}, err
}

func (d *driver) peek(ctx context.Context, g *generation) (semantics.Event, error) {
	defer g.peeks.Store(0)
	end, err := d.b.p.Ledger.Read(ctx, false, func(string) {})
	if err != nil {
		d.b.log.Debug("the ledger's end cannot be read now", "error", err)
		return nil, nil // nothing was decided by it; the next look comes in seconds
	}
	return semantics.Peeked{End: end}, nil
}

// settle drives a prepared transaction to a definitive outcome, before any InitProducerID on its id.
func (d *driver) settle(ctx context.Context, a semantics.Settle) (semantics.Event, error) {
	d.b.hub.waiting("settling", fmt.Sprintf("asking for the outcome of %s", a.Tx))
	defer d.b.hub.waiting("settling", "")
	e, err := Settle(ctx, d.b.p.Arbiter, a)
	if err != nil {
		return nil, err
	}
	if e.Outcome != 0 {
		d.b.log.Debug("settled", "txn", a.Tx.ID, "pid", a.Tx.ProducerID, "pepoch", a.Tx.ProducerEpoch, "outcome", e.Outcome)
	}
	return e, nil
}

func (d *driver) storeStatus(a semantics.StoreStatus) (semantics.Event, error) {
	d.b.p.Failpoint("after-commit")
	return semantics.StatusStored{Epoch: a.Epoch}, d.b.store.Decide(a.Epoch, a.Status)
}

func (d *driver) fence(ctx context.Context, a semantics.Fence) (e semantics.Event, err error) {
	var tx semantics.Transaction
	err = d.patiently(ctx, "fencing "+a.ID, func(ctx context.Context) error {
		if a.Known.IsZero() {
			tx, err = d.b.p.Arbiter.Fence(ctx, a.ID)
		} else {
			tx, err = Reclaim(ctx, d.b.p.Arbiter, a.Known)
		}
		return err
	})
	if err == nil {
		d.b.p.Failpoint("after-fence")
	}
	return semantics.Fenced{Slot: a.Slot, Tx: tx}, err
}

func (d *driver) resolve(ctx context.Context, a semantics.Resolve) (semantics.Event, error) {
	all := semantics.Positions{}
	for _, s := range d.b.sources {
		err := d.patiently(ctx, "resolving positions of source "+s.o.Name, func(ctx context.Context) error {
			pos, _, err := s.resolve(ctx, a.Known, true)
			if err == nil {
				all = pos.Over(all)
				if !pos.Knows(s.o.Name) {
					all.Know(s.o.Name)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if d.b.o.UntilEnd && d.wanted == nil {
		if err := d.patiently(ctx, "looking for the ends of the sources", d.findEnds); err != nil {
			return nil, err
		}
	}
	return semantics.Resolved{Positions: all}, nil
}

// append sends a ledger record. The claim is the first thing in its transaction, an epoch's record the last.
func (d *driver) append(ctx context.Context, a semantics.Append) (semantics.Event, error) {
	if a.Record.Kind != semantics.LedgerEpoch {
		if err := d.b.p.Writer.Begin(ctx, a.Tx); err != nil {
			return nil, err
		}
	}
	offset, err := d.b.p.Ledger.Append(ctx, a.Tx, a.Record)
	if err == nil && a.Record.Kind == semantics.LedgerEpoch {
		d.b.p.Failpoint("after-ledger-record")
	}
	return semantics.Appended{Tx: a.Tx, Offset: offset}, err
}

// endTransaction: committing waits for a definitive answer, aborting makes one attempt.
func (d *driver) endTransaction(ctx context.Context, a semantics.End, claim bool) (semantics.Event, error) {
	if !a.Commit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
	}
	outcome, next, err := d.b.p.Arbiter.End(ctx, a.Tx, a.Commit)
	if claim {
		d.b.p.Failpoint("after-claim")
	}
	return semantics.Ended{Tx: a.Tx, Outcome: outcome, Next: next}, err
}

// open runs in the action's goroutine, so it gets the generation that it belongs to: d.gen may be another by now.
func (d *driver) open(ctx context.Context, g *generation, a semantics.Open, watching context.Context) (semantics.Event, error) {
	tx := a.Tx
	if a.Refresh {
		var err error
		if tx, err = d.b.p.Arbiter.Refresh(ctx, tx); err != nil {
			return nil, err
		}
	}
	if err := d.b.p.Writer.Begin(ctx, tx); err != nil {
		return nil, err
	}
	failed := d.b.p.Writer.Failed()
	g.work.Go(func() {
		g.perform(func(context.Context) (semantics.Event, error) { return d.watch(watching, failed) })
	})
	return semantics.Opened{Tx: tx}, nil
}

// watch reports a failed batch at once; waiting for the barrier would send an epoch's worth of records in vain.
func (d *driver) watch(ctx context.Context, failed <-chan struct{}) (semantics.Event, error) {
	select {
	case <-failed:
		_, err := d.b.p.Writer.Flush(ctx)
		return nil, err
	case <-ctx.Done():
		return nil, nil
	}
}

func (d *driver) flush(ctx context.Context, a semantics.Flush) (semantics.Event, error) {
	d.b.hub.phase(a.Epoch, phaseFlush)
	sent, err := d.b.p.Writer.Flush(ctx)
	if err == nil {
		d.b.p.Failpoint("after-flush")
	}
	return semantics.Flushed{Epoch: a.Epoch, Sent: sent}, err
}

func (d *driver) persist(ctx context.Context, c semantics.Checkpoint, running bool) (semantics.Event, error) {
	if running {
		d.b.hub.phase(c.Epoch, phasePersist)
	}
	if !c.Transaction.IsZero() {
		c.TimeoutMs = d.b.o.TransactionTimeout.Milliseconds()
		c.StartedMs = d.b.p.Arbiter.StartedAt(ctx, c.Transaction)
	}
	c.SavedMs = time.Now().UnixMilli()
	if err := d.b.store.Save(c); err != nil {
		return nil, err
	}
	if running {
		d.b.p.Failpoint("after-persist")
		d.b.hub.phase(c.Epoch, phaseCommit)
	}
	return semantics.Persisted{Epoch: c.Epoch}, nil
}

// publisher tells the groups where the bridge stands, one round at a time.
type publisher struct {
	mu     sync.Mutex
	next   semantics.Positions // replaced by a later decision while a round is under way; nil: nothing waits
	busy   bool
	rounds sync.WaitGroup
}

// publish is for lag tools only, so it neither delays nor fails anything.
func (d *driver) publish(a semantics.Publish) {
	d.decidedInRun = true
	d.b.rejects.forget(a.Positions)
	d.b.window.flushed(d.b.hub.decided(a))
	d.tell(a.Positions)
}

// tell hands positions that are decided to the publisher.
func (d *driver) tell(decided semantics.Positions) {
	if d.b.p.Store == nil {
		return // the group's offsets are the checkpoint itself
	}
	p := &d.publishing
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = decided
	if !p.busy {
		p.busy = true
		p.rounds.Go(d.publishRounds)
	}
}

func (d *driver) publishRounds() {
	for pos := d.publishing.take(); pos != nil; pos = d.publishing.take() {
		d.publishPositions(pos)
	}
}

func (p *publisher) take() semantics.Positions {
	p.mu.Lock()
	defer p.mu.Unlock()
	pos := p.next
	p.next, p.busy = nil, pos != nil
	return pos
}

func (d *driver) publishPositions(p semantics.Positions) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, s := range d.b.sources {
		if err := s.publish(ctx, p); err != nil {
			d.b.log.Debug("positions could not be published to the group", "source", s.o.Name, "error", err)
		}
	}
}

// wait is random after a fence: in lock step two incarnations would fence each other for ever.
func (d *driver) wait(ctx context.Context, a semantics.Wait) (semantics.Event, error) {
	var pause time.Duration
	switch a.Cause {
	case semantics.WaitUnclaimed:
		pause = between(100*time.Millisecond, 500*time.Millisecond, a.Attempt)
	case semantics.WaitClaimed:
		pause = between(time.Second, 3*time.Second, a.Attempt)
	case semantics.WaitRestart:
		pause = d.b.o.Restart.Backoff
		for i := 1; i < a.Attempt && pause < d.b.o.Restart.BackoffMax; i++ {
			pause *= 2
		}
		pause = min(pause, d.b.o.Restart.BackoffMax)
		pause = pause/2 + rand.N(pause/2+1)
	}
	d.b.hub.waiting("restarting", fmt.Sprintf("attempt %d at %s", a.Attempt, time.Now().Add(pause).UTC().Format("2006-01-02T15:04:05.000Z")))
	defer d.b.hub.waiting("restarting", "")
	if !sleep(ctx, pause) {
		return nil, context.Cause(ctx)
	}
	return semantics.Waited{}, nil
}

// between is a random time between low and high, both doubled with each attempt. The range keeps its width at the limit of a
// minute: two incarnations that both waited exactly that long would fence each other for ever.
func between(low, high time.Duration, attempt int) time.Duration {
	const most = time.Minute
	for i := 1; i < attempt && high < most; i++ {
		low, high = 2*low, 2*high
	}
	high = min(high, most)
	low = min(low, high/2)
	return low + rand.N(high-low)
}

func (d *driver) barrier(a semantics.Barrier) {
	d.lastBarrier, d.recordsAt = time.Now(), d.handedOver()
	d.timeoutEpoch = a.Epoch
	d.timeoutTimer.Reset(d.b.o.Checkpoint.Timeout)
	d.b.hub.phase(a.Epoch, phaseAlign)
	p := d.pipe
	d.async(func(ctx context.Context) (semantics.Event, error) { return p.barrier(ctx, a.Epoch) })
}

func (d *driver) startPipeline(a semantics.Start) {
	d.pipe = newPipeline(d.b, a)
	d.pipe.start(d)
	if a.Epoch > 1 {
		d.tell(a.Positions) // recovery may have decided the epoch before, and nobody knows how long the next one takes
	}
	d.lastBarrier = time.Now()
	d.recordsAt = d.handedOver()
	d.drained = false
	d.armBarrier()
	d.decidedInRun = false
}

var errHalted = errors.New("the run was halted")

// halt cuts everything off and answers when nothing runs any more.
func (d *driver) halt() {
	if err := failure(d.last); err != nil {
		d.b.log.Warn("the run failed", "error", err, "class", semantics.ClassOf(err), "epoch", d.m.Progress().Epoch)
		d.b.hub.failed(err)
		d.shrinkWindow()
	}
	old := d.gen
	old.cut(errHalted)
	d.barrierTimer.Stop()
	d.timeoutTimer.Stop()
	d.unwatch()
	d.pipe = nil
	d.gen = newGeneration(d.parent)
	d.async(func(ctx context.Context) (semantics.Event, error) { return d.halted(ctx, old) })
}

// shrinkWindow lets less be in flight when a run ended without a decided epoch: perhaps the sink is too slow for what was.
func (d *driver) shrinkWindow() {
	if d.pipe != nil && !d.decidedInRun && d.b.window.failed() {
		d.b.log.Warn("no epoch was decided in this run: fewer bytes may be in flight", "bytes", d.b.window.bytes())
	}
}

// halted reads the store again: whether a Persist that was cut off is durable only the store knows. When it cannot be
// read the bridge ends as it stands: the machine must not go on from what it remembers, and would abort what may be proposed.
func (d *driver) halted(ctx context.Context, old *generation) (semantics.Event, error) {
	ended := d.b.pulse.halt()
	old.work.Wait()
	// Before anything is aborted: with EndTxn v4 a batch that is still being repeated would open the transaction again, and nobody would end
	// it, or our own InitProducerID would be answered as if somebody had taken over.
	d.b.p.Writer.Abandon()
	ended()
	checkpoints, err := d.load(ctx)
	if err != nil && ctx.Err() == nil {
		d.broken <- &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitGaveUp, Op: "load checkpoints", Err: err}
	}
	return semantics.Halted{Checkpoints: checkpoints}, err
}

func (d *driver) announce(r semantics.Recovery) {
	d.b.hub.recovered(r)
	log := d.b.log.Info
	if r.Outcome == semantics.RecoveryStale || r.Outcome == semantics.RecoveryAdopted || r.Outcome == semantics.RecoveryReplayed {
		log = d.b.log.Warn
	}
	log("recovered", "outcome", r.Outcome, "epoch", r.Epoch, "reason", r.Reason)
}
