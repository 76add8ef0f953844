package semantics

import (
	"errors"
	"fmt"
	"slices"
)

// mutant removes one rule, as a filter between machine and world.
type mutant struct {
	on            bool
	notDurable    bool // I1: Persist is answered before it is durable
	ledgerOutside bool // I2: the ledger record does not belong to the transaction
	readBefore    bool // I3: positions of the look before the fence
	dropDecided   bool // I4: proposing n drops what was decided before
	shortBarrier  bool // I5: the barrier's positions lag behind the records in the transaction
	staleEpoch    bool // I6: transaction.version 1 without a fresh epoch
	blindRefresh  bool // I6: a blind InitProducerID between transactions
	unknownIsOK   bool // I7: a commit without an answer is taken for done
	ambiguousIsNo bool // I7: F when settling is taken for aborted
	noFlush       bool // I8: epoch n+1 flows while a record of n is on its way
	fenceOne      bool // I9: the second id is not fenced
	noLook        bool // I9: an idle incarnation does not look
	keepAll       bool // I10: nothing is ever released
	fenceDown     bool // I11: ids are fenced in descending order
	byNumber      bool // I12: a checkpoint counts if the ledger has its number
	stateKept     bool // a reset takes the map state with it
}

// xConfig is one configuration of the explorer.
type xConfig struct {
	Name     string
	N        uint8 // source records
	Faults   uint8
	TV       int      // transaction.version
	Variants []Config // a restart may go on to the next one
	Filter   uint8    // bit n: record n yields no output
	Rival    int      // 1: a second process with an empty directory, 2: with a copy; at any moment
	LoseDir  bool
	Backup   bool // a backup may be taken at any moment and restored later
	Expiry   bool
	GiveUp   bool // bounded settling may end without an answer
	NoNet    bool // no lost answers or delayed requests: crashes and timeouts only
	NoExpire bool // transactions do not time out
	NoFail   bool // actions do not fail inside a living process
	Idle     bool // barriers also when nothing moved
	Stops    uint8
	Allow3   bool // exit 3 is a right end
	Allow4   bool // exit 4 is a right end without a rival: ledger = false cannot tell a late request of its own from one
	Monitor  bool // check I2, I5, I8, I9, I12 at each commit
	LossOnly bool // records may be doubled
	Lossy    bool // records may be lost, too (NONE)
	NoLive   bool
	Max      int
	Resets   uint8                       // how often an operator may set the positions of a stopped bridge
	To       []uint8                     // where he may set them
	Visit    func(x *explorer, w *world) // sees every state once
}

func (c *xConfig) filtered(n uint8) bool { return c.Filter&(1<<n) != 0 }
func (c *xConfig) ledger() bool          { return c.Variants[0].Ledger }

func (c *xConfig) version() int16 {
	if c.TV == 1 {
		return 4
	}
	return 5
}

func stateAt(pos uint8) map[string][]byte { return map[string][]byte{"k": {'0' + pos}} }

// start begins a new incarnation.
func (x *explorer) start(w *world, i int, variant uint8) {
	p := &w.proc[i]
	w.nextInc++
	cfg := x.cfg.Variants[variant]
	cfg.Bridge, cfg.Incarnation, cfg.IDs = "b", string(rune(1000+int(w.nextInc))), worldIDs
	*p = process{state: procUp, inc: w.nextInc, started: true, m: New(cfg), dir: p.dir, variant: variant}
	x.step(w, i, Started{p.dir})
}

// reset begins an incarnation that sets positions and exits.
func (x *explorer) reset(w *world, i int, to uint8) {
	p := &w.proc[i]
	w.nextInc++
	cfg := x.cfg.Variants[p.variant]
	cfg.Bridge, cfg.Incarnation, cfg.IDs = "b", string(rune(1000+int(w.nextInc))), worldIDs
	cfg.Reset, cfg.Stateful = true, false // the state is dropped with the positions that it belongs to
	*p = process{state: procUp, inc: w.nextInc, started: true, m: New(cfg), dir: p.dir, variant: p.variant, reset: true, to: to}
	x.step(w, i, Started{p.dir})
}

// resetMark is what the sink's log shows of a reset, for the check alone: from here on a reader sees the records from that position.
const resetMark = 0x80

// marked notes a reset that is committed: with a ledger by its transaction, otherwise by its checkpoint.
func (w *world) marked(slot int8, p Positions) {
	w.addSink(written{slot: slot, rec: resetMark | uint8(offsetOf(p))})
}

// crash forgets everything but the directory.
func crash(p *process) {
	*p = process{state: procDown, started: true, dir: p.dir, variant: p.variant}
}

// step hands an event to the machine and takes its actions.
func (x *explorer) step(w *world, i int, e Event) {
	p := &w.proc[i]
	m := p.m.Clone()
	if err := m.Step(e); err != nil {
		w.violation("illegal", "%v", err)
		return
	}
	p.m = m
	acts := m.Ready()
	p.acts = slices.Clone(p.acts)
	for _, a := range acts {
		x.take(w, i, a)
		if p.state != procUp {
			return
		}
	}
	if len(p.acts) > 3 {
		w.violation("I10", "%d actions are under way", len(p.acts))
	}
	x.eager(w, i)
}

// eager performs at once what touches nothing but the process itself. It commutes with every step of anybody else, and a
// crash before it leaves what a crash after it leaves, so no behaviour is lost; a deep run does without.
func (x *explorer) eager(w *world, i int) {
	p := &w.proc[i]
	if x.deep || p.halting || w.bad != "" {
		return
	}
	for k, a := range p.acts {
		switch a := a.(type) {
		case Open:
			if x.requestOf(p, i, a) == nil {
				p.done(k)
				x.opened(w, i, a.Tx)
				return
			}
		case Resolve, Wait, Barrier, Flush:
			if e, ok := x.answerHere(w, i, a); ok {
				p.done(k)
				x.effect(w, p, i, a)
				x.step(w, i, e)
				return
			}
		}
	}
}

// take begins an action: the ones that nobody answers happen here.
func (x *explorer) take(w *world, i int, a Action) {
	p := &w.proc[i]
	x.observe(w, i, a)
	switch a := a.(type) {
	case Announce, Publish, ExtendBarrier:
	case Start:
		p.flowing, p.pos = !p.reset, uint8(offsetOf(a.Positions))
		x.checkStart(w, p, a)
	case Flow:
		p.flowing = true
	case Barrier:
		p.flowing = false
		p.acts = append(p.acts, a)
	case Halt:
		p.halting, p.flowing = true, false
		p.acts = append(p.acts, a)
	case ReadLedger:
		p.waitFor = 0
		for _, e := range w.ledger {
			if e.slot >= 0 {
				p.waitFor |= 1 << e.slot
			}
		}
		p.acts = append(p.acts, a)
	case Exit:
		x.exit(w, i, a)
	default:
		p.acts = append(p.acts, a)
	}
}

func (x *explorer) exit(w *world, i int, a Exit) {
	p := &w.proc[i]
	switch {
	case p.reset && a.Code == ExitLost: // the daemon may be started again
		crash(p)
		return
	case a.Code == ExitDone && (p.stopped || p.reset):
		crash(p) // a stopped process may be started again
		return
	case a.Code == ExitRefused && x.cfg.Allow3:
	case a.Code == ExitLost && x.cfg.Allow4:
	case a.Code == ExitLost && x.cfg.Rival != 0 && w.proc[1-i].started:
	case a.Code == ExitRefused:
		w.violation("refused", "process %d: %v", i, a.Err)
	default:
		w.violation("exit", "process %d exits with %d: %v", i, a.Code, a.Err)
	}
	*p = process{state: procExited, exit: a.Code, started: true}
}

// checkStart: what is before the positions is in the sink, and the map state is that of the positions.
func (x *explorer) checkStart(w *world, p *process, a Start) {
	if end := w.ledgerEnd(); x.cfg.Resets > 0 && x.cfg.ledger() && end.Found && offsetOf(end.Record.Positions) != int64(p.pos) {
		w.violation("mix", "started from %d, the ledger stands at %d", p.pos, offsetOf(end.Record.Positions))
	}
	if !x.cfg.Lossy && x.cfg.Resets == 0 {
		for n := uint8(0); n < p.pos; n++ {
			there := x.cfg.filtered(n) || slices.ContainsFunc(w.sink, func(e written) bool {
				return e.rec == n && (e.slot < 0 || w.co[e.slot].state == coPrepareCommit)
			})
			if !there {
				w.violation("lost", "started from %d, record %d is not in the sink", p.pos, n)
			}
		}
	}
	if !x.cfg.Variants[p.variant].Stateful {
		return
	}
	want := ""
	if p.pos > 0 {
		want = string(stateAt(p.pos)["k"])
	}
	if got := string(a.State["k"]); got != want {
		w.violation("state", "started from %d with the map state of %q", p.pos, got)
	}
}

// observe checks the invariants that show themselves in what a machine asks for.
func (x *explorer) observe(w *world, i int, a Action) {
	p := &w.proc[i]
	if !x.cfg.Monitor || x.mutant.on {
		return
	}
	switch a := a.(type) {
	case End:
		if a.Commit && !p.m.Progress().Prepared.IsZero() && !slices.ContainsFunc(p.dir, func(c Checkpoint) bool { return c.Transaction.Same(a.Tx) && !c.Empty }) {
			w.violation("I1", "commit of %s is asked for, no checkpoint with it is durable", ftx(a.Tx))
		}
	case Append:
		if p.pending != nil || a.Record.Kind == LedgerEpoch && (!a.Tx.Same(p.tx) || p.flowing) {
			w.violation("I2", "ledger record in %s, the writer is in %s", ftx(a.Tx), ftx(p.tx))
		}
		if a.Record.Kind == LedgerClaim && a.Tx.ID != worldIDs[0] {
			w.violation("I11", "claim on %s", a.Tx.ID)
		}
		if a.Record.Kind == LedgerClaim && p.end.Found && len(x.cfg.Variants) == 1 &&
			(a.Record.Epoch != p.end.Record.Epoch || !a.Record.Transaction.Same(p.end.Record.Transaction) || !a.Record.Positions.Equal(p.end.Record.Positions)) {
			w.violation("I3", "claim %s after reading %s", frecord(a.Record), fend(p.end))
		}
	case Fence:
		if a.Slot != 0 && !p.m.owned[0] || a.ID != worldIDs[a.Slot] {
			w.violation("I11", "%s is fenced first", a.ID)
		}
	case Open:
		if p.pending != nil && x.cfg.Variants[p.variant].Semantic != None {
			w.violation("I8", "epoch %d opens with a record of the one before on its way", a.Epoch)
		}
	case Drop:
		for _, e := range a.Epochs {
			for _, c := range p.dir {
				if c.Epoch == e && p.end.Found && c.Transaction.Same(p.end.Record.Transaction) {
					w.violation("I4", "checkpoint %d is dropped, the ledger names it", e)
				}
			}
		}
	}
}

// notFenced is the producer id of an id that mutant I9 takes only when it opens its first epoch.
const notFenced = -2

func errFenced(op string, a answer) error {
	return &Error{Class: Unknown, Fenced: true, Op: op, Err: errors.New(a.String())}
}

var errUnknown = &Error{Class: Unknown, Op: "request", Err: errors.New("no answer")}

// answerTo turns a broker's answer into the event that txn would make of it; nil: ask again.
func (x *explorer) answerTo(w *world, p *process, a Action, r request, ans answer) Event {
	if ans == ansCT {
		return nil
	}
	switch a := a.(type) {
	case Settle:
		o, next := x.outcome(r.tx, ans)
		if x.mutant.ambiguousIsNo && o == OutcomeAmbiguous {
			o = OutcomeAborted
		}
		return Settled{o, next}
	case End:
		o, next := x.outcome(a.Tx, ans)
		return Ended{a.Tx, o, next}
	case Fence:
		return x.fenced(w, p, a, ans)
	case Append:
		if ans != ansOK {
			return Failed{errFenced("append", ans)}
		}
		at := int64(-1)
		for _, e := range w.ledger {
			if e.record.Transaction.Same(a.Record.Transaction) && e.record.Kind == a.Record.Kind && e.record.Incarnation == a.Record.Incarnation {
				at = e.offset
			}
		}
		return Appended{a.Tx, at}
	case Open:
		if ans != ansOK {
			return Failed{errFenced("refresh", ans)}
		}
		return Opened{x.held(w, r.slot)}
	}
	panic(fmt.Sprintf("no request belongs to %T", a))
}

// held is the transaction that InitProducerID has just handed out.
func (x *explorer) held(w *world, slot int8) Transaction {
	c := w.co[slot]
	return Transaction{ID: worldIDs[slot], ProducerID: c.pid, ProducerEpoch: c.epoch, EndTxnVersion: x.cfg.version()}
}

func (x *explorer) fenced(w *world, p *process, a Fence, ans answer) Event {
	if ans != ansOK {
		return Failed{errFenced("fence", ans)}
	}
	tx := x.held(w, int8(a.Slot))
	if x.mutant.fenceDown { // i1 was asked for when slot 0 was wanted, and the other way round
		tx = x.held(w, int8(1-a.Slot))
		if a.Slot == 1 {
			m := p.m.Clone()
			m.slots[0].tx = tx
			p.m = m
			tx = p.tx
		} else {
			p.tx = tx
		}
	}
	return Fenced{a.Slot, tx}
}

func (x *explorer) outcome(tx Transaction, ans answer) (Outcome, Transaction) {
	switch ans {
	case ansOK:
		if tx.EndTxnVersion >= 5 {
			tx.ProducerEpoch++
		}
		return OutcomeCommitted, tx
	case ansITS:
		return OutcomeAborted, Transaction{}
	}
	return OutcomeAmbiguous, Transaction{}
}

// requestOf is what an action sends; nil when it sends nothing.
func (x *explorer) requestOf(p *process, i int, a Action) *request {
	switch a := a.(type) {
	case Settle:
		return &request{kind: msgEnd, slot: slotOf(a.Tx), tx: a.Tx, by: int8(i)}
	case End:
		k := msgAbort
		if a.Commit {
			k = msgEnd
		}
		return &request{kind: k, slot: slotOf(a.Tx), tx: a.Tx, by: int8(i)}
	case Fence:
		slot := int8(a.Slot)
		if x.mutant.fenceDown {
			slot = 1 - slot
		}
		if !a.Known.IsZero() {
			return &request{kind: msgRefresh, slot: slot, tx: a.Known, by: int8(i)}
		}
		return &request{kind: msgInit, slot: slot, by: int8(i)}
	case Append:
		return &request{kind: msgLedger, slot: slotOf(a.Tx), tx: a.Tx, record: a.Record, by: int8(i)}
	case Open:
		if a.Tx.ProducerID == notFenced {
			return &request{kind: msgInit, slot: 1, by: int8(i)}
		}
		if !a.Refresh || x.mutant.staleEpoch {
			return nil
		}
		if x.mutant.blindRefresh {
			return &request{kind: msgInit, slot: slotOf(a.Tx), by: int8(i)}
		}
		return &request{kind: msgRefresh, slot: slotOf(a.Tx), tx: a.Tx, by: int8(i)}
	}
	return nil
}
