package semantics

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// canon writes a world in a form in which worlds that behave alike are equal bytes. Producer epochs become distances
// from the coordinator's epoch (it tells apart its own, the one before, and others; of the others only identity counts),
// ledger offsets become ranks, incarnations become A, B or dead. Counters that change waits only are left out.
type canon struct {
	b       []byte
	w       *world
	collect bool
	txs     []Transaction
	offs    []int64
}

func (c *canon) bytes(w *world) []byte {
	c.w, c.txs, c.offs = w, c.txs[:0], c.offs[:0]
	c.collect, c.b = true, c.b[:0]
	c.world()
	slices.SortFunc(c.txs, compareTx)
	c.txs = slices.CompactFunc(c.txs, func(a, b Transaction) bool { return compareTx(a, b) == 0 })
	slices.Sort(c.offs)
	c.offs = slices.Compact(c.offs)
	c.collect, c.b = false, c.b[:0]
	c.world()
	return c.b
}

func compareTx(a, b Transaction) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.ProducerID, b.ProducerID), cmp.Compare(a.ProducerEpoch, b.ProducerEpoch))
}

func (c *canon) u(v ...uint8) { c.b = append(c.b, v...) }

func (c *canon) flag(v ...bool) {
	for _, f := range v {
		if f {
			c.b = append(c.b, 1)
		} else {
			c.b = append(c.b, 0)
		}
	}
}

func (c *canon) tx(t Transaction) {
	if t.IsZero() {
		c.u(0)
		return
	}
	s := slotOf(t)
	co := &c.w.co[s]
	if co.state != coNone && co.pid == t.ProducerID && co.epoch-t.ProducerEpoch < 2 {
		c.u(1+uint8(s), uint8(co.epoch-t.ProducerEpoch))
		return
	}
	if c.collect {
		c.txs = append(c.txs, t)
		return
	}
	k, _ := slices.BinarySearchFunc(c.txs, t, compareTx)
	c.u(3+uint8(s), uint8(k))
}

func (c *canon) off(o int64) {
	switch {
	case o == math.MaxInt64:
		c.u(255)
	case o < 0:
		c.u(254)
	case c.collect:
		c.offs = append(c.offs, o)
	default:
		k, _ := slices.BinarySearch(c.offs, o)
		c.u(uint8(k))
	}
}

func (c *canon) inc(s string) {
	for i := range c.w.proc {
		if p := &c.w.proc[i]; p.state == procUp && p.m.cfg.Incarnation == s {
			c.u(uint8(i))
			return
		}
	}
	c.u(2)
}

func (c *canon) pos(p Positions) { c.u(uint8(len(p)), uint8(offsetOf(p))) }

func (c *canon) state(s map[string][]byte) {
	c.u(uint8(len(s)))
	c.b = append(c.b, s["k"]...)
}

func (c *canon) record(r LedgerRecord) {
	c.b = append(c.b, r.Kind...)
	c.inc(r.Incarnation)
	c.u(uint8(r.Epoch))
	c.tx(r.Transaction)
	c.pos(r.Positions)
}

func (c *canon) end(e LedgerEnd) {
	c.flag(e.Found)
	if e.Found {
		c.record(e.Record)
		c.off(e.Offset)
	}
}

func (c *canon) checkpoints(d []Checkpoint) {
	c.u(uint8(len(d)))
	for i := range d {
		c.checkpoint(&d[i])
	}
}

func (c *canon) checkpoint(k *Checkpoint) {
	c.u(uint8(k.Epoch), uint8(k.Semantic), uint8(k.Status), k.LedgerTopicID[0])
	c.pos(k.Positions)
	c.state(k.State)
	c.tx(k.Transaction)
	c.tx(k.Follows)
	c.flag(k.Empty)
}

func (c *canon) written(l []written) {
	c.u(uint8(len(l)))
	for i := range l {
		e := &l[i]
		c.u(uint8(e.slot), e.rec, uint8(e.semantic), uint8(e.by))
		if e.record.Kind != "" {
			c.record(e.record)
			c.off(e.offset)
		}
	}
}

func (c *canon) request(r *request) {
	c.u(uint8(r.kind), uint8(r.slot), r.rec, r.seq, uint8(r.by))
	if r.kind != msgInit {
		c.tx(r.tx)
	}
	if r.kind == msgLedger {
		c.record(r.record)
	}
}

func (c *canon) world() {
	w := c.w
	for i := range w.co {
		c.u(uint8(w.co[i].state), w.co[i].seq, w.co[i].ledgerSeq)
		c.flag(w.co[i].retryable)
	}
	c.written(w.sink)
	c.written(w.ledger)
	c.u(uint8(len(w.net)))
	for i := range w.net {
		c.request(&w.net[i])
	}
	c.flag(w.hasBak)
	c.checkpoints(w.backup)
	c.u(w.faults, w.stops, w.resets)
	c.inc(w.winner)
	for i := range w.proc {
		c.process(&w.proc[i])
	}
}

func (c *canon) process(p *process) {
	c.u(uint8(p.state), uint8(p.exit), p.variant, p.to)
	c.flag(p.started, p.stopped, p.halting, p.flowing, p.pending != nil, p.late != nil, p.raced, p.reset)
	c.checkpoints(p.dir)
	if p.state != procUp {
		return
	}
	c.tx(p.tx)
	c.u(p.pos, p.sent, p.waitFor)
	if p.pending != nil {
		c.request(p.pending)
	}
	if p.late != nil {
		c.request(p.late)
	}
	c.end(p.end)
	c.u(uint8(len(p.acts)))
	for _, a := range p.acts {
		c.action(a)
	}
	c.machine(p.m)
}

func (c *canon) action(a Action) {
	switch a := a.(type) {
	case Look:
		c.u(1)
	case Settle:
		c.u(2)
		c.tx(a.Tx)
	case StoreStatus:
		c.u(3, uint8(a.Epoch), uint8(a.Status))
	case Fence:
		c.u(4, uint8(a.Slot))
		c.tx(a.Known)
	case ReadLedger:
		c.u(5)
	case Resolve:
		c.u(6)
		c.pos(a.Known)
	case Append:
		c.u(7)
		c.tx(a.Tx)
		c.record(a.Record)
	case End:
		c.u(8)
		c.tx(a.Tx)
		c.flag(a.Commit)
	case Drop:
		c.u(9, uint8(len(a.Epochs)))
		for _, e := range a.Epochs {
			c.u(uint8(e))
		}
	case Open:
		c.u(10, uint8(a.Epoch))
		c.tx(a.Tx)
		c.flag(a.Refresh)
	case Barrier:
		c.u(11, uint8(a.Epoch))
	case Flush:
		c.u(12, uint8(a.Epoch))
	case Persist:
		c.u(13)
		c.checkpoint(&a.Checkpoint)
	case Halt:
		c.u(14)
	case Wait:
		c.u(15)
	default:
		panic("an action that waits for an answer is not in canon")
	}
}

func (c *canon) machine(m *Machine) {
	c.u(uint8(m.state), uint8(m.settled), uint8(m.fencing), uint8(m.lastEpoch), uint8(m.failures))
	c.flag(m.hasBase, m.owned[0], m.owned[1], m.claimed, m.stopping, m.draining, m.cfg.Adopt, m.failure != nil, IsFenced(m.failure), m.failure != nil && ClassOf(m.failure) == Fatal)
	c.checkpoints(m.checkpoints)
	c.tx(m.settledTx)
	for _, t := range m.aborts {
		c.tx(t)
	}
	c.tx(m.lastTx)
	c.off(m.claimAt)
	c.off(m.ownedOffset)
	c.end(m.ledger)
	for i := range m.slots {
		c.tx(m.slots[i].tx)
		c.flag(m.slots[i].fresh, m.slots[i].known)
	}
	c.flag(m.base != nil, m.open != nil, m.commit != nil)
	if b := m.base; b != nil {
		c.u(uint8(b.epoch), uint8(b.decide), uint8(len(b.drop)))
		c.tx(b.tx)
		c.pos(b.positions)
		c.pos(b.reading)
		c.state(b.state)
		for _, e := range b.drop {
			c.b = binary.AppendVarint(c.b, int64(e))
		}
	}
	if o := m.open; o != nil {
		c.u(uint8(o.epoch), uint8(o.slot), uint8(o.phase))
		c.flag(o.final, o.sent)
		c.tx(o.tx)
		c.pos(o.start)
		c.pos(o.positions)
		c.state(o.state)
	}
	if k := m.commit; k != nil {
		c.checkpoint(&k.checkpoint)
		c.u(uint8(k.slot))
		c.off(k.ledgerAt)
		c.flag(k.persisted, k.ending)
	}
}
