package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

// resetAttempts bounds the recoveries of a reset: somebody waits at a terminal.
const resetAttempts = 10

// resetDriver performs what the machine asks for in a run that moves no record. It recovers as a daemon does, up to the claim; its only
// epoch has no output, and the barrier of that epoch brings the operator's positions. So a crash at any moment leaves
// what a daemon's crash leaves, and the next start judges it by the same rules: old positions or new ones, never a mix.
type resetDriver struct {
	r     *repair
	cfg   semantics.Config
	store bridge.Store
	moves []move
	fail  func(step string)

	m     *semantics.Machine
	asked bool            // the barrier was asked for: what is found afterwards may be the reset itself
	epoch semantics.Epoch // decided; 0: not yet
	done  bool
	exit  error
}

// errReset is returned when the machine ends without having decided the reset.
var errReset = errors.New("it ended without a decision; bridge recover --plan shows what is there")

func (d *resetDriver) run(ctx context.Context) (semantics.Epoch, error) {
	if d.fail == nil {
		d.fail = func(string) {}
	}
	stored, err := d.store.Load()
	if err != nil {
		return 0, err
	}
	d.m = semantics.New(d.cfg)
	events := []semantics.Event{semantics.Started{Checkpoints: stored}}
	for len(events) > 0 && !d.done {
		e := events[0]
		events = events[1:]
		if f, ok := e.(semantics.Failed); ok {
			d.r.log.Warn("reset: a step failed", "error", f.Err, "class", semantics.ClassOf(f.Err))
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("%w; bridge recover --plan shows whether the new positions count", context.Cause(ctx))
		}
		if err := d.m.Step(e); err != nil {
			return 0, err
		}
		for _, a := range d.m.Ready() {
			e, err := d.act(ctx, a)
			if err != nil {
				e = semantics.Failed{Err: err}
			}
			if e != nil {
				events = append(events, e)
			}
		}
	}
	switch {
	case d.exit != nil:
		return 0, d.exit
	case d.epoch == 0:
		return 0, errReset
	default:
		return d.epoch, nil
	}
}

// act performs one action. Nothing else is under way meanwhile: a reset has no tasks.
func (d *resetDriver) act(ctx context.Context, a semantics.Action) (semantics.Event, error) {
	switch a := a.(type) {
	case semantics.Look:
		return d.look(ctx)
	case semantics.Settle:
		return d.settle(ctx, a)
	case semantics.StoreStatus:
		if d.epoch == 0 && d.asked {
			d.fail("after-commit")
		}
		return semantics.StatusStored{Epoch: a.Epoch}, d.store.Decide(a.Epoch, a.Status)
	case semantics.Fence:
		return d.fence(ctx, a)
	case semantics.ReadLedger:
		end, err := d.r.sink.Ledger.Read(ctx, true, d.waiting)
		return semantics.LedgerRead{End: end}, err
	case semantics.Resolve:
		// The sources are not asked: a reset is the way out where they no longer have what comes next.
		if a.Known == nil {
			a.Known = semantics.Positions{}
		}
		return semantics.Resolved{Positions: a.Known}, nil
	case semantics.Append:
		return d.append(ctx, a)
	case semantics.End:
		return d.end(ctx, a)
	case semantics.Drop:
		return semantics.Dropped{}, d.store.Drop(a.Epochs...)
	case semantics.Open:
		return d.open(ctx, a)
	case semantics.Start:
		return d.start(a)
	case semantics.Barrier:
		return semantics.Aligned{Epoch: a.Epoch, Positions: positionsOf(d.moves)}, nil
	case semantics.Flush:
		return semantics.Flushed{Epoch: a.Epoch}, nil // nothing was written
	case semantics.Persist:
		return d.persist(ctx, a.Checkpoint)
	case semantics.Publish:
		d.epoch = a.Epoch
	case semantics.Halt:
		stored, err := d.store.Load()
		if err != nil {
			d.done, d.exit = true, err // whether the checkpoint is durable only the store knows
			return nil, nil            //nolint:nilerr // it is in exit
		}
		return semantics.Halted{Checkpoints: stored}, nil
	case semantics.Wait:
		return d.wait(ctx, a)
	case semantics.Announce:
		d.r.log.Info("recovered", "outcome", a.Recovery.Outcome, "epoch", a.Recovery.Epoch, "reason", a.Recovery.Reason)
	case semantics.Exit:
		d.done, d.exit = true, a.Err
	case semantics.Flow, semantics.ExtendBarrier, semantics.Peek:
	}
	return nil, nil
}

func (d *resetDriver) waiting(reason string) {
	if reason != "" {
		d.r.log.Warn("waiting", "reason", reason)
	}
}

// look tolerates what a daemon tolerates: without EXACTLY_ONCE nobody needs a right on the ledger topic.
func (d *resetDriver) look(ctx context.Context) (semantics.Event, error) {
	end, err := d.r.sink.Ledger.Read(ctx, false, d.waiting)
	if err != nil && d.cfg.Semantic != semantics.ExactlyOnce && semantics.ClassOf(err) == semantics.Fatal {
		d.r.log.Warn("the ledger topic cannot be read; taken as absent, since the semantic does not need it", "error", err)
		return semantics.Looked{End: semantics.LedgerEnd{Offset: -1}}, nil
	}
	return semantics.Looked{End: end}, err
}

func (d *resetDriver) settle(ctx context.Context, a semantics.Settle) (semantics.Event, error) {
	return bridge.Settle(ctx, d.r.sink.Coordinator, a)
}

// fence: with ledger = false a repeated recovery of this process carries producer id and epoch, after an abort of what may be open
// (transaction.version 1 answers that with PRODUCER_FENCED otherwise).
func (d *resetDriver) fence(ctx context.Context, a semantics.Fence) (semantics.Event, error) {
	c := d.r.sink.Coordinator
	var tx semantics.Transaction
	var err error
	if a.Known.IsZero() {
		tx, err = c.Fence(ctx, a.ID)
	} else {
		tx, err = bridge.Reclaim(ctx, c, a.Known)
	}
	if err == nil {
		d.fail("after-fence")
	}
	return semantics.Fenced{Slot: a.Slot, Tx: tx}, err
}

func (d *resetDriver) append(ctx context.Context, a semantics.Append) (semantics.Event, error) {
	if a.Record.Kind == semantics.LedgerClaim {
		if err := d.r.sink.Producer.Begin(ctx, a.Tx); err != nil {
			return nil, err
		}
	}
	offset, err := d.r.sink.Ledger.Append(ctx, a.Tx, a.Record)
	if err == nil && a.Record.Kind == semantics.LedgerReset {
		d.fail("after-ledger-record")
	}
	return semantics.Appended{Tx: a.Tx, Offset: offset}, err
}

func (d *resetDriver) end(ctx context.Context, a semantics.End) (semantics.Event, error) {
	claim := d.m.State() == semantics.StateClaimEnding
	if !a.Commit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
	}
	outcome, next, err := d.r.sink.Coordinator.End(ctx, a.Tx, a.Commit)
	if claim {
		d.fail("after-claim")
	}
	return semantics.Ended{Tx: a.Tx, Outcome: outcome, Next: next}, err
}

func (d *resetDriver) open(ctx context.Context, a semantics.Open) (semantics.Event, error) {
	tx := a.Tx
	if tx.IsZero() {
		return semantics.Opened{}, nil // nothing will be written
	}
	if a.Refresh {
		var err error
		if tx, err = d.r.sink.Coordinator.Refresh(ctx, tx); err != nil {
			return nil, err
		}
	}
	return semantics.Opened{Tx: tx}, d.r.sink.Producer.Begin(ctx, tx)
}

// start is where the records of a daemon would begin to flow. The positions must be those that were confirmed.
func (d *resetDriver) start(a semantics.Start) (semantics.Event, error) {
	if d.asked && at(a.Positions, d.moves, func(m move) (int64, bool) { return m.to, true }) {
		d.done, d.epoch = true, a.Epoch-1 // it counted, although nobody heard so
		return nil, nil
	}
	if !at(a.Positions, d.moves, func(m move) (int64, bool) { return m.from, m.known }) {
		d.done, d.exit = true, &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitGaveUp, Op: "start",
			Err: errors.New("the positions are not those that were confirmed: another instance moved them, or a prepared transaction ended otherwise; nothing was changed, look again")}
		return nil, nil
	}
	d.asked = true
	return semantics.Drained{}, nil
}

// at says whether the partitions of moves stand where want says, or have no position where it says so.
func at(p semantics.Positions, moves []move, want func(move) (offset int64, known bool)) bool {
	for _, m := range moves {
		st := semantics.SourceTopic{Source: m.source, Topic: m.topic}
		have, ok := p.Get(st, m.partition)
		ok = ok && !recreated(p[st].ID, m.id)
		offset, known := want(m)
		if ok != known || ok && have.Offset != offset {
			return false
		}
	}
	return true
}

func (d *resetDriver) persist(ctx context.Context, c semantics.Checkpoint) (semantics.Event, error) {
	if !c.Transaction.IsZero() {
		c.TimeoutMs = d.r.b.Sink.TransactionTimeout.Milliseconds()
		c.StartedMs = d.r.sink.Coordinator.StartedAt(ctx, c.Transaction)
	}
	c.SavedMs = time.Now().UnixMilli()
	if err := d.store.Save(c); err != nil {
		return nil, err
	}
	if d.asked {
		d.fail("after-persist")
	}
	return semantics.Persisted{Epoch: c.Epoch}, nil
}

// wait is random: in lock step two incarnations would fence each other for ever.
func (d *resetDriver) wait(ctx context.Context, a semantics.Wait) (semantics.Event, error) {
	pause := 100*time.Millisecond + rand.N(400*time.Millisecond)
	if a.Cause == semantics.WaitClaimed {
		pause = time.Second + rand.N(2*time.Second)
	}
	t := time.NewTimer(pause << min(a.Attempt-1, 4))
	defer t.Stop()
	select {
	case <-t.C:
		return semantics.Waited{}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
