package semantics

import (
	"fmt"
	"slices"
)

// emitter takes each successor of a world. label is asked for only when the successor is new.
type emitter func(w *world, fault bool, label func() string)

// successors lists everything that can happen next: brokers, network, operator, and both processes.
func (x *explorer) successors(w *world, emit emitter) {
	x.brokers(w, emit)
	for k := range w.net {
		n := w.clone()
		r := n.net[k]
		n.net = slices.Delete(slices.Clone(n.net), k, k+1)
		r.late = true
		ans := n.apply(r, x)
		emit(n, false, func() string { return fmt.Sprintf("network delivers late %s: %s", r, ans) })
	}
	if x.cfg.Backup && !w.hasBak && len(w.proc[0].dir) > 0 && w.proc[0].state != procExited {
		n := w.clone()
		n.hasBak, n.backup = true, n.proc[0].dir
		emit(n, false, func() string { return "operator takes a backup of A's directory" })
	}
	for i := range w.proc {
		x.process(w, i, emit)
	}
}

func (x *explorer) brokers(w *world, emit emitter) {
	for s := range w.co {
		slot := int8(s)
		switch w.co[s].state {
		case coPrepareCommit, coPrepareAbort:
			n := w.clone()
			commit := n.co[s].state == coPrepareCommit
			n.co[s].state = coCompleteAbort
			if commit {
				n.co[s].state = coCompleteCommit
			}
			n.markers(slot, commit, x)
			emit(n, false, func() string { return fmt.Sprintf("broker writes the markers of i%d, commit %t", slot, commit) })
		case coOngoing:
			// After a change of semantic nobody owns the id any more: its transaction times out, which is no fault.
			nobody := len(x.cfg.Variants) > 1 && x.cfg.Variants[w.proc[0].variant].Semantic != ExactlyOnce
			if nobody {
				n := w.clone()
				n.co[s].state = coPrepareAbort
				n.co[s].bump(x.cfg.TV == 2)
				emit(n, false, func() string {
					return fmt.Sprintf("broker: the transaction of i%d, which nobody owns, times out", slot)
				})
			}
			if w.faults > 0 && !x.cfg.NoExpire && !nobody {
				n := w.clone()
				n.faults--
				n.co[s].state = coPrepareAbort
				n.co[s].bump(x.cfg.TV == 2)
				emit(n, true, func() string { return fmt.Sprintf("broker: the transaction of i%d times out", slot) })
			}
		case coEmpty, coCompleteCommit, coCompleteAbort:
			if x.cfg.Expiry && w.faults > 0 {
				n := w.clone()
				n.faults--
				n.co[s] = coord{}
				emit(n, true, func() string { return fmt.Sprintf("broker: i%d expires", slot) })
			}
		}
	}
}

var who = [2]string{"A", "B"}

// local emits a step of process i that needs no answer from outside.
func (x *explorer) local(w *world, i int, fault bool, label string, f func(n *world, p *process), emit emitter) {
	n := w.clone()
	if fault {
		n.faults--
	}
	f(n, &n.proc[i])
	emit(n, fault, func() string { return who[i] + ": " + label })
}

func (x *explorer) process(w *world, i int, emit emitter) {
	p := &w.proc[i]
	fault := w.faults > 0
	switch p.state {
	case procNever:
		x.rival(w, i, emit)
	case procDown:
		for v := p.variant; int(v) < len(x.cfg.Variants) && v <= p.variant+1; v++ {
			x.local(w, i, false, fmt.Sprintf("starts (%s)", x.cfg.Variants[v].Semantic), func(n *world, _ *process) { x.start(n, i, v) }, emit)
		}
		for _, to := range x.cfg.To {
			if w.resets > 0 {
				x.local(w, i, false, fmt.Sprintf("the operator sets the position to %d", to), func(n *world, _ *process) {
					n.resets--
					x.reset(n, i, to)
				}, emit)
			}
		}
		if fault && x.cfg.LoseDir && len(p.dir) > 0 {
			x.local(w, i, true, "directory lost", func(_ *world, p *process) { p.dir = nil }, emit)
		}
		if fault && w.hasBak && i == 0 {
			x.local(w, i, true, "directory restored from the backup", func(n *world, p *process) { p.dir = n.backup }, emit)
		}
	case procUp:
		if fault {
			x.local(w, i, true, "CRASH", func(_ *world, p *process) { crash(p) }, emit)
		}
		x.events(w, i, emit)
		x.records(w, i, emit)
		for k := range p.acts {
			x.act(w, i, k, emit)
		}
	}
}

func (x *explorer) rival(w *world, i int, emit emitter) {
	if !w.proc[0].started {
		return
	}
	switch {
	case x.cfg.Rival == 1:
		x.local(w, i, false, "starts as a rival, empty directory", func(n *world, _ *process) { x.start(n, i, 0) }, emit)
	case x.cfg.Rival == 2 && len(w.proc[0].dir) > 0:
		x.local(w, i, false, "starts as a rival, copy of A's directory", func(n *world, p *process) {
			p.dir = n.proc[0].dir
			x.start(n, i, 0)
		}, emit)
	}
}

// events are what the driver brings by itself: time, an operator, a task that fails.
func (x *explorer) events(w *world, i int, emit emitter) {
	p := &w.proc[i]
	m := p.m
	if m.state == StateRunning && m.open.phase == PhaseFlowing && m.commit == nil && p.flowing &&
		(x.cfg.Idle || p.pending != nil || int64(p.pos) != offsetOf(m.open.start)) {
		x.local(w, i, false, "barrier is due", func(n *world, _ *process) { x.step(n, i, BarrierDue{}) }, emit)
	}
	if p.reset && m.state == StateRunning && m.open.phase == PhaseFlowing && m.commit == nil && !m.draining {
		x.local(w, i, false, "asks for the reset", func(n *world, _ *process) { x.step(n, i, Drained{}) }, emit)
	}
	if end := w.ledgerEnd(); !x.mutant.noLook && m.watchesLedger() && m.state == StateRunning && end.Found && end.Record.Incarnation != m.cfg.Incarnation {
		x.local(w, i, false, "looks at the ledger's end", func(n *world, p *process) {
			x.step(n, i, LookDue{})
			p.acts = slices.DeleteFunc(p.acts, func(a Action) bool { return a == Peek{} })
			x.step(n, i, Peeked{end})
		}, emit)
	}
	if w.stops > 0 && !p.stopped {
		x.local(w, i, false, "is asked to stop", func(n *world, p *process) {
			n.stops, p.stopped = n.stops-1, true
			x.step(n, i, StopRequested{})
		}, emit)
	}
	if p.stopped && w.faults > 0 {
		x.local(w, i, true, "the stop takes too long", func(n *world, _ *process) { x.step(n, i, StopDeadline{}) }, emit)
	}
	if w.faults > 0 && !x.cfg.NoFail && p.flowing {
		x.local(w, i, true, "a task fails", func(n *world, _ *process) { x.step(n, i, Failed{errUnknown}) }, emit)
	}
}

// records reads the next record and writes what it yields; one batch of a partition is on its way at a time.
func (x *explorer) records(w *world, i int, emit emitter) {
	p := &w.proc[i]
	if p.late != nil {
		r := *p.late
		x.local(w, i, false, "the batch that the flush did not wait for: "+r.String(), func(n *world, p *process) {
			if n.apply(r, x) != ansCT {
				p.late = nil
			}
		}, emit)
	}
	if p.pending != nil && !p.halting {
		x.produce(w, i, *p.pending, true, emit)
		return
	}
	if !p.flowing || p.pos >= x.cfg.N {
		return
	}
	if x.cfg.filtered(p.pos) {
		x.local(w, i, false, fmt.Sprintf("record %d yields nothing", p.pos), func(_ *world, p *process) { p.pos++ }, emit)
		return
	}
	x.produce(w, i, request{kind: msgProduce, slot: slotOf(p.tx), tx: p.tx, rec: p.pos, seq: p.sent, by: int8(i)}, false, emit)
}

func (x *explorer) produce(w *world, i int, r request, again bool, emit emitter) {
	n := w.clone()
	ans := n.apply(r, x)
	p := &n.proc[i]
	switch {
	case ans == ansOK && again:
		p.pending = nil
		x.eager(n, i) // the flush may have waited for it
	case ans == ansOK:
		p.pos, p.sent = p.pos+1, p.sent+1
	case ans != ansCT:
		x.step(n, i, Failed{errFenced("produce", ans)})
	}
	emit(n, false, func() string { return fmt.Sprintf("%s: %s: %s", who[i], r, ans) })
	if again || w.faults == 0 || x.cfg.NoNet {
		return
	}
	unanswered := func(p *process) {
		p.pos, p.sent, p.pending = p.pos+1, p.sent+1, &r
	}
	x.local(w, i, true, r.String()+", answer lost", func(n *world, p *process) {
		n.apply(r, x)
		unanswered(p)
	}, emit)
	x.delayed(w, i, r, unanswered, func(*process) {}, emit)
}

// delayed: the request stays in the network and arrives later, whatever becomes of its sender.
func (x *explorer) delayed(w *world, i int, r request, f, givenUp func(*process), emit emitter) {
	if len(w.net) >= 2 {
		return
	}
	onWire := func(n *world) { n.net = append(slices.Clone(n.net), r) }
	x.local(w, i, true, r.String()+" is delayed", func(n *world, p *process) { onWire(n); f(p) }, emit)
	x.local(w, i, true, r.String()+" is delayed, CRASH", func(n *world, p *process) { onWire(n); crash(p) }, emit)
	if !x.cfg.NoFail {
		x.local(w, i, true, r.String()+" is delayed and given up", func(n *world, p *process) {
			onWire(n)
			f(p)
			givenUp(p)
			x.step(n, i, Failed{errUnknown})
		}, emit)
	}
}

// done removes action k.
func (p *process) done(k int) { p.acts = slices.Delete(slices.Clone(p.acts), k, k+1) }

// act performs the k-th action that is under way.
func (x *explorer) act(w *world, i, k int, emit emitter) {
	p := &w.proc[i]
	a := p.acts[k]
	if e, ok := a.(End); ok && p.late != nil && e.Tx.Same(p.late.tx) {
		return // mutant I8 loses nothing, it only overlaps
	}
	if o, ok := a.(Open); ok && x.requestOf(p, i, a) == nil {
		x.local(w, i, false, faction(a), func(n *world, p *process) { p.done(k); x.opened(n, i, o.Tx) }, emit)
		return
	}
	if r := x.requestOf(p, i, a); r != nil {
		x.rpc(w, i, k, a, *r, emit)
		return
	}
	if e, ok := x.answerHere(w, i, a); ok {
		x.local(w, i, false, faction(a), func(n *world, p *process) {
			p.done(k)
			x.effect(n, p, i, a)
			x.step(n, i, e)
		}, emit)
	}
	x.storeFaults(w, i, k, a, emit)
}

func (x *explorer) opened(n *world, i int, tx Transaction) {
	p := &n.proc[i]
	if !p.halting {
		p.tx, p.sent = tx, 0
	}
	x.step(n, i, Opened{tx})
}

// rpc sends the request of action k, with every way in which it can go wrong.
func (x *explorer) rpc(w *world, i, k int, a Action, r request, emit emitter) {
	n := w.clone()
	p := &n.proc[i]
	if s, ok := a.(Fence); ok && s.Slot == 1 && x.mutant.fenceOne {
		p.done(k)
		x.step(n, i, Fenced{1, Transaction{ID: worldIDs[1], ProducerID: notFenced, EndTxnVersion: x.cfg.version()}})
		emit(n, false, func() string { return who[i] + ": does not fence i1" })
		return
	}
	ans := n.apply(r, x)
	e := x.answerTo(n, p, a, r, ans)
	if e != nil || p.halting {
		p.done(k)
	}
	switch o, opened := e.(Opened); {
	case opened:
		x.opened(n, i, o.Tx)
	case e != nil:
		x.step(n, i, e)
	}
	emit(n, false, func() string { return fmt.Sprintf("%s: %s: %s", who[i], r, ans) })
	if s, ok := a.(Settle); ok && s.Bounded && x.cfg.GiveUp {
		x.local(w, i, false, "gives up settling", func(n *world, p *process) { p.done(k); x.step(n, i, Settled{}) }, emit)
	}
	if w.faults == 0 || x.cfg.NoNet || p.halting {
		return
	}
	x.local(w, i, true, r.String()+", answer lost", func(n *world, _ *process) { n.apply(r, x) }, emit)
	x.delayed(w, i, r, func(*process) {}, func(p *process) { p.done(k) }, emit)
	if x.cfg.NoFail {
		return
	}
	fail := func(n *world, p *process) {
		p.done(k)
		if end, ok := a.(End); ok && end.Commit && x.mutant.unknownIsOK {
			o, next := x.outcome(end.Tx, ansOK)
			x.step(n, i, Ended{end.Tx, o, next})
			return
		}
		x.step(n, i, Failed{errUnknown})
	}
	x.local(w, i, true, r.String()+" takes effect, given up", func(n *world, p *process) { n.apply(r, x); fail(n, p) }, emit)
	x.local(w, i, true, r.String()+" is lost, given up", fail, emit)
}

// answerHere is the answer of an action that asks no broker for a change; false while it has to wait.
func (x *explorer) answerHere(w *world, i int, a Action) (Event, bool) {
	p := &w.proc[i]
	switch a := a.(type) {
	case Look:
		return Looked{w.ledgerEnd()}, true
	case ReadLedger:
		end := w.ledgerEnd()
		if x.mutant.readBefore {
			end = p.end
		}
		if x.mutant.byNumber {
			end = byNumber(end, p.dir)
		}
		return LedgerRead{end}, p.waitFor == 0
	case Resolve:
		return Resolved{at(offsetOf(a.Known))}, true
	case Barrier:
		pos := p.pos
		if x.mutant.shortBarrier && int64(pos) > offsetOf(p.m.open.start)+1 {
			pos--
		}
		e := Aligned{Epoch: a.Epoch, Positions: at(int64(pos))}
		if p.reset {
			e.Positions = at(int64(p.to))
			if x.mutant.stateKept {
				e.State = stateAt(p.pos)
			}
			return e, true
		}
		if x.cfg.Variants[p.variant].Stateful {
			e.State = stateAt(pos)
		}
		return e, true
	case Flush:
		return Flushed{a.Epoch, p.sent > 0}, p.pending == nil || x.mutant.noFlush
	case Persist:
		return Persisted{a.Checkpoint.Epoch}, true
	case StoreStatus:
		return StatusStored{a.Epoch}, true
	case Drop:
		return Dropped{}, true
	case Wait:
		return Waited{}, true
	case Halt:
		return Halted{p.dir}, true
	}
	panic(fmt.Sprintf("nobody performs %T", a))
}

// byNumber makes the ledger name the newest checkpoint's transaction when only the number agrees.
func byNumber(end LedgerEnd, dir []Checkpoint) LedgerEnd {
	if len(dir) > 0 && end.Found && dir[len(dir)-1].Epoch == end.Record.Epoch {
		end.Record.Transaction = dir[len(dir)-1].Transaction
	}
	return end
}

// effect is what such an action does outside the machine.
func (x *explorer) effect(n *world, p *process, i int, a Action) {
	switch a := a.(type) {
	case Look:
		p.end = n.ledgerEnd()
	case ReadLedger:
		p.raced = false
		if !x.mutant.readBefore {
			p.end = n.ledgerEnd()
		}
	case Flush:
		if p.pending != nil {
			p.late, p.pending = p.pending, nil
		}
	case Persist:
		if x.mutant.notDurable {
			return
		}
		p.dir = saveCheckpoint(p.dir, a.Checkpoint)
		if p.reset && a.Checkpoint.Status == Decided && p.m.state == StateRunning {
			n.marked(-1, a.Checkpoint.Positions)
		}
		if x.mutant.dropDecided {
			p.dir = retain(p.dir, a.Checkpoint.Epoch)
		}
	case StoreStatus:
		p.dir = decide(p.dir, a)
		if x.mutant.keepAll {
			return
		}
		if a.Status == Decided {
			p.dir = retain(p.dir, a.Epoch)
		}
	case Drop:
		p.dir = slices.DeleteFunc(slices.Clone(p.dir), func(c Checkpoint) bool { return slices.Contains(a.Epochs, c.Epoch) })
	case Halt:
		p.acts, p.halting, p.pending, p.tx, p.sent = nil, false, nil, Transaction{}, 0
	}
}

func decide(dir []Checkpoint, a StoreStatus) []Checkpoint {
	out := slices.Clone(dir)
	for i := range out {
		if out[i].Epoch == a.Epoch {
			out[i].Status = a.Status
		}
	}
	return out
}

// storeFaults: the store gives no answer; what it was asked for is durable or not.
func (x *explorer) storeFaults(w *world, i, k int, a Action, emit emitter) {
	p := &w.proc[i]
	if w.faults == 0 || x.cfg.NoFail || p.halting {
		return
	}
	switch a.(type) {
	case Persist, StoreStatus:
		x.local(w, i, true, faction(a)+" takes effect, answered with an error", func(n *world, p *process) {
			p.done(k)
			x.effect(n, p, i, a)
			x.step(n, i, Failed{errUnknown})
		}, emit)
		x.local(w, i, true, faction(a)+" fails", func(n *world, p *process) { p.done(k); x.step(n, i, Failed{errUnknown}) }, emit)
	}
}
