package semantics

import (
	"fmt"
	"maps"
	"slices"
)

// The world around the machines of an explorer run: one source partition with records 0..n-1, one sink partition, one
// ledger partition, a coordinator per transactional id with the answers of the measured facts, a network that delays
// requests, and two processes with a store each. Everything is a value, copied before it is changed.

type coordState uint8

const (
	coNone coordState = iota // never seen, or expired
	coEmpty
	coOngoing
	coPrepareCommit
	coPrepareAbort
	coCompleteCommit
	coCompleteAbort
)

type coord struct {
	state     coordState
	pid       int64
	epoch     int16
	retryable bool  // InitProducerID with epoch-1 is answered with epoch: the last bump was the owner's own
	seq       uint8 // records of the open transaction so far: an exact repeat is answered ok and not written again
	ledgerSeq uint8
}

type answer uint8

const (
	ansOK  answer = iota
	ansITS        // INVALID_TXN_STATE
	ansF          // PRODUCER_FENCED
	ansIPM        // INVALID_PRODUCER_ID_MAPPING
	ansCT         // CONCURRENT_TRANSACTIONS: ask again
)

func (a answer) String() string { return [...]string{"ok", "ITS", "F", "IPM", "CT"}[a] }

// written is one record of the sink or the ledger. slot is -1 when it is committed, otherwise the id whose transaction is open.
type written struct {
	slot     int8
	rec      uint8 // sink
	semantic Semantic
	record   LedgerRecord // ledger
	offset   int64
	by       int8 // process that produced it
}

type msgKind uint8

const (
	msgNone msgKind = iota
	msgEnd
	msgAbort
	msgInit
	msgRefresh
	msgProduce
	msgLedger
)

// request is one request on the wire.
type request struct {
	kind   msgKind
	slot   int8
	tx     Transaction
	rec    uint8
	seq    uint8
	record LedgerRecord
	by     int8
	late   bool // it was delayed in the network
}

func (r request) String() string {
	switch r.kind {
	case msgEnd:
		return "EndTxn(commit, " + ftx(r.tx) + ")"
	case msgAbort:
		return "EndTxn(abort, " + ftx(r.tx) + ")"
	case msgInit:
		return fmt.Sprintf("InitProducerID(i%d)", r.slot)
	case msgRefresh:
		return "InitProducerID(" + ftx(r.tx) + ")"
	case msgProduce:
		return fmt.Sprintf("Produce(record %d seq %d, %s)", r.rec, r.seq, ftx(r.tx))
	case msgLedger:
		return fmt.Sprintf("Produce(%s, %s)", frecord(r.record), ftx(r.tx))
	}
	return "?"
}

type procState uint8

const (
	procDown procState = iota
	procNever
	procUp
	procExited
)

// process is one incarnation with its driver: what the machine asked for and is not answered, and what the pipeline does.
type process struct {
	state   procState
	exit    ExitCode
	inc     uint8
	started bool
	stopped bool // asked to stop
	m       *Machine
	acts    []Action
	halting bool
	dir     []Checkpoint // ascending; never changed in place

	tx      Transaction // what the writer writes into
	flowing bool
	pos     uint8    // next record to read
	sent    uint8    // records written into tx
	pending *request // the last one, while it is not answered
	late    *request // mutant I8: a record that the flush did not wait for
	waitFor uint8    // slots that were open below the high watermark when the ledger read began
	end     LedgerEnd
	variant uint8 // which configuration runs
	raced   bool  // another incarnation has committed since the ledger read
	reset   bool  // an operator's: it sets the position to to and exits
	to      uint8
}

type world struct {
	co      [2]coord
	sink    []written
	ledger  []written
	offset  int64
	nextPID int64
	proc    [2]process
	net     []request
	backup  []Checkpoint
	hasBak  bool
	faults  uint8
	nextInc uint8
	winner  string // incarnation whose claim was committed last
	stops   uint8
	resets  uint8
	bad     string
}

func (w *world) clone() *world {
	c := *w
	return &c
}

func (w *world) violation(kind, format string, args ...any) {
	if w.bad == "" {
		w.bad = kind + ": " + fmt.Sprintf(format, args...)
	}
}

// ids of the two transactional ids in fencing order.
var worldIDs = [2]string{"i0", "i1"}

func slotOf(tx Transaction) int8 {
	if tx.ID == worldIDs[1] {
		return 1
	}
	return 0
}

// apply is what the brokers do with a request.
func (w *world) apply(r request, x *explorer) answer {
	c := &w.co[r.slot]
	if r.kind == msgInit {
		return w.initBlind(c, r.slot, x)
	}
	if r.kind == msgProduce && r.tx.IsZero() { // AT_LEAST_ONCE and NONE: no transaction
		w.addSink(written{slot: -1, rec: r.rec, by: r.by, semantic: AtLeastOnce})
		return ansOK
	}
	if c.state == coNone || r.tx.ProducerID != c.pid {
		return ansIPM
	}
	switch r.kind {
	case msgEnd, msgAbort:
		return w.endTxn(c, r, x)
	case msgRefresh:
		return w.refresh(c, r, x)
	default:
		return w.produce(c, r, x)
	}
}

// bump makes the next epoch; own says that the owner of the epoch before may ask for it again.
// Sequences begin anew with it.
func (c *coord) bump(own bool) {
	c.epoch, c.retryable = c.epoch+1, own
	c.seq, c.ledgerSeq = 0, 0
}

func (w *world) initBlind(c *coord, slot int8, x *explorer) answer {
	switch c.state {
	case coNone:
		*c = coord{state: coEmpty, pid: w.nextPID, epoch: 0}
		w.nextPID++
		return ansOK
	case coPrepareCommit, coPrepareAbort:
		return ansCT
	case coOngoing:
		c.state = coPrepareAbort
		c.bump(x.cfg.TV == 2)
		return ansCT
	}
	c.state = coEmpty
	c.bump(false)
	return ansOK
}

// refresh is InitProducerID with producer id and epoch. While a transaction is open the broker does not look at the epoch: it
// aborts the transaction, whoever's it is, and forgets the epoch before on transaction.version 1 (TransactionMetadata.prepareFenceProducerEpoch).
func (w *world) refresh(c *coord, r request, x *explorer) answer {
	if c.state == coPrepareCommit || c.state == coPrepareAbort {
		return ansCT
	}
	switch {
	case c.state == coOngoing:
		c.state = coPrepareAbort
		c.bump(x.cfg.TV == 2)
		return ansCT
	case r.tx.ProducerEpoch == c.epoch:
		c.state = coEmpty
		c.bump(true)
		return ansOK
	case r.tx.ProducerEpoch == c.epoch-1 && c.retryable:
		c.state = coEmpty
		return ansOK
	}
	return ansF
}

func (w *world) endTxn(c *coord, r request, x *explorer) answer {
	v5 := r.tx.EndTxnVersion >= 5
	at, before := r.tx.ProducerEpoch == c.epoch, r.tx.ProducerEpoch == c.epoch-1
	commit := r.kind == msgEnd
	switch {
	case c.state == coPrepareCommit || c.state == coPrepareAbort:
		if v5 || at {
			return ansCT
		}
		return ansF
	case c.state == coOngoing && at:
		c.state = coPrepareAbort
		if commit {
			c.state = coPrepareCommit
			w.onCommit(r, x)
			for _, e := range w.ledger {
				if e.slot == r.slot && e.record.Kind == LedgerReset {
					w.marked(r.slot, e.record.Positions)
				}
			}
		}
		if v5 {
			c.bump(true)
		}
		return ansOK
	case at && v5 && !commit:
		c.bump(true)
		return ansOK
	case at && !v5 && (commit && c.state == coCompleteCommit || !commit && c.state == coCompleteAbort):
		return ansOK
	case at:
		return ansITS
	case before && v5 && (c.state == coCompleteCommit || c.state == coCompleteAbort):
		if commit == (c.state == coCompleteCommit) {
			return ansOK
		}
		return ansITS
	}
	return ansF
}

func (w *world) produce(c *coord, r request, x *explorer) answer {
	if r.tx.ProducerEpoch != c.epoch {
		return ansF
	}
	if c.state == coPrepareCommit || c.state == coPrepareAbort {
		return ansCT
	}
	have := &c.seq
	if r.kind == msgLedger {
		have = &c.ledgerSeq
	}
	switch {
	case r.seq < *have:
		return ansOK // an exact repeat
	case r.seq > *have:
		return ansF // OUT_OF_ORDER_SEQUENCE_NUMBER; ends the epoch just the same
	}
	if r.tx.EndTxnVersion < 5 && (c.state == coCompleteCommit || c.state == coCompleteAbort) {
		if r.late {
			return ansITS // partition verification: nobody added the partition to a transaction that is open
		}
		if x.cfg.Monitor && !x.mutant.on {
			w.violation("I6", "a second transaction is written under %s", ftx(r.tx))
		}
	}
	*have++
	c.state = coOngoing
	if r.kind == msgProduce {
		w.addSink(written{slot: r.slot, rec: r.rec, by: r.by, semantic: ExactlyOnce})
		return ansOK
	}
	slot := r.slot
	if x.mutant.ledgerOutside && r.record.Kind == LedgerEpoch {
		slot = -1
	}
	w.ledger = append(slices.Clone(w.ledger), written{slot: slot, record: r.record, offset: w.offset, by: r.by})
	w.offset++
	w.compact()
	return ansOK
}

func (w *world) addSink(e written) { w.sink = append(slices.Clone(w.sink), e) }

// onCommit checks what can be seen of the invariants at the moment in which a transaction is committed for good.
func (w *world) onCommit(r request, x *explorer) {
	if !x.cfg.Monitor || x.mutant.on {
		return
	}
	var rec *written
	for i := range w.ledger {
		if w.ledger[i].slot == r.slot {
			rec = &w.ledger[i]
		}
	}
	if x.cfg.ledger() && rec == nil {
		w.violation("I2", "%s is committed without a ledger record", ftx(r.tx))
		return
	}
	if rec == nil {
		return
	}
	w.checkWinner(rec.record)
	if rec.record.Kind == LedgerClaim {
		return
	}
	if !rec.record.Transaction.Same(r.tx) {
		w.violation("I12", "the ledger record in %s names %s", ftx(r.tx), ftx(rec.record.Transaction))
	}
	before := LedgerRecord{}
	for _, e := range w.ledger {
		if (e.slot < 0 || e.slot != r.slot && w.co[e.slot].state == coPrepareCommit) && e.offset < rec.offset {
			before = e.record
		}
	}
	if rec.record.Epoch != before.Epoch+1 {
		w.violation("I8", "epoch %d is decided after epoch %d", rec.record.Epoch, before.Epoch)
	}
	var got []uint8
	for _, e := range w.sink {
		if e.slot == r.slot {
			got = append(got, e.rec)
		}
	}
	var want []uint8
	for n := uint8(offsetOf(before.Positions)); rec.record.Kind == LedgerEpoch && n < uint8(offsetOf(rec.record.Positions)); n++ {
		if !x.cfg.filtered(n) {
			want = append(want, n)
		}
	}
	if !slices.Equal(got, want) {
		w.violation("I5", "%s holds %v between positions %v", ftx(r.tx), got, want)
	}
}

// checkWinner: from the ledger read of an incarnation whose claim gets through, nobody else commits (I9).
func (w *world) checkWinner(rec LedgerRecord) {
	for i := range w.proc {
		p := &w.proc[i]
		if p.state != procUp {
			continue
		}
		if p.m.cfg.Incarnation != rec.Incarnation {
			p.raced = true
		} else if rec.Kind == LedgerClaim && p.raced {
			w.violation("I9", "process %d claims, but another incarnation has committed since its ledger read", i)
		}
	}
	if rec.Kind == LedgerClaim {
		w.winner = rec.Incarnation
	} else if rec.Incarnation != w.winner {
		w.violation("I9", "epoch %d is committed after another incarnation's claim", rec.Epoch)
	}
}

// markers are written: the transaction of a slot becomes visible, or vanishes.
func (w *world) markers(slot int8, commit bool, x *explorer) {
	w.sink = resolve(w.sink, slot, commit)
	w.ledger = resolve(w.ledger, slot, commit)
	w.offset++
	for i := range w.proc {
		w.proc[i].waitFor &^= 1 << slot
	}
	if x.mutant.staleEpoch { // the mutant's writer goes on counting
		w.co[slot].seq, w.co[slot].ledgerSeq = 0, 0
	}
	w.compact()
}

func resolve(log []written, slot int8, commit bool) []written {
	var out []written
	for _, e := range log {
		if e.slot == slot {
			if !commit {
				continue
			}
			e.slot = -1
		}
		out = append(out, e)
	}
	return out
}

// compact keeps the last committed ledger record; the cleaner does not pass the last stable offset.
func (w *world) compact() {
	lso := len(w.ledger)
	for i, e := range w.ledger {
		if e.slot >= 0 {
			lso = i
			break
		}
	}
	if lso < 2 {
		return
	}
	w.ledger = slices.Clone(w.ledger[lso-1:])
}

// ledgerEnd is what a read_committed reader finds: the last record below the last stable offset.
func (w *world) ledgerEnd() LedgerEnd {
	end := LedgerEnd{TopicID: TopicID{1}, Offset: -1}
	for _, e := range w.ledger {
		if e.slot >= 0 {
			break
		}
		end = LedgerEnd{TopicID: TopicID{1}, Found: true, Record: e.record, Offset: e.offset}
	}
	return end
}

// visible are the sink's records that a read_committed reader sees.
func (w *world) visible() []written {
	for i, e := range w.sink {
		if e.slot >= 0 {
			return w.sink[:i]
		}
	}
	return w.sink
}

// saveCheckpoint replaces the one of the same epoch.
func saveCheckpoint(dir []Checkpoint, c Checkpoint) []Checkpoint {
	m := map[Epoch]Checkpoint{}
	for _, k := range dir {
		m[k.Epoch] = k
	}
	m[c.Epoch] = c
	var out []Checkpoint
	for _, e := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[e])
	}
	if c.Status == Decided {
		out = retain(out, c.Epoch)
	}
	return out
}

// retain is the harshest retention that I4 allows: nothing older than the decided one.
func retain(dir []Checkpoint, decided Epoch) []Checkpoint {
	return slices.DeleteFunc(slices.Clone(dir), func(k Checkpoint) bool { return k.Epoch < decided })
}
