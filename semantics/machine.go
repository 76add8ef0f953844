package semantics

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Config is what a Machine knows from its start; it is never changed.
type Config struct {
	Bridge            string
	Incarnation       string
	Semantic          Semantic
	IDs               [2]string // transactional ids in fencing order
	Ledger            bool      // false: the state directory is the only truth
	Stateful          bool      // a map has state: it must belong to the positions
	Groups            bool      // checkpoints are offsets committed to the sources' groups: they keep no transaction
	OnTimeoutFail     bool
	Adopt             bool
	AdoptEpoch        Epoch // 0: the newest whose outcome is known
	Reset             bool  // the epochs of this run are an operator's: one without output that sets positions
	TolerableFailures int
	RestartAttempts   int // recoveries in a row without a decided epoch before giving up; 0: for ever
}

// State is where a machine stands.
type State uint8

// The states of a machine, in the order in which a start passes them.
const (
	StateNew State = iota
	StateLooking
	StateSettling
	StateRecording // ledger = false: the outcome of settling is being made durable
	StateFencing
	StateReading
	StateResolving
	StateClaiming    // the claim is being appended
	StateClaimEnding // the claim's transaction is being ended
	StateDropping    // checkpoints of another history are being deleted
	StateOpening     // the first epoch is being opened
	StateRunning     // records flow, or a barrier does
	StateHalting     // tasks and actions are being stopped
	StateAborting    // what is open and not proposed is aborted, before an exit or (ledger = false) a recovery
	StateWaiting     // before the next recovery
	StateExited
)

// String is the word used in logs and status.
func (s State) String() string {
	names := [...]string{"new", "looking", "settling", "recording", "fencing", "reading", "resolving", "claiming", "claim-ending",
		"dropping", "opening", "running", "halting", "aborting", "waiting", "exited"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Phase is where the open epoch stands while the machine runs.
type Phase uint8

// The phases of the open epoch.
const (
	PhaseFlowing   Phase = iota + 1 // records flow
	PhaseAligning                   // the barrier is on its way to the map tasks
	PhaseFlushing                   // every batch is being acknowledged
	PhaseAppending                  // the ledger record is on its way
	PhaseSwitching                  // the next epoch is being opened
	PhaseClosed                     // the final epoch was flushed; no other is opened
)

// openEpoch is the epoch that records flow into.
type openEpoch struct {
	epoch Epoch
	slot  int
	tx    Transaction // zero unless ExactlyOnce
	start Positions   // at its opening
	phase Phase
	final bool
	// taken at the barrier
	positions Positions
	state     map[string][]byte
	sent      bool
}

// committing is the epoch that is flushed and not decided.
type committing struct {
	checkpoint Checkpoint
	slot       int
	ledgerAt   int64 // offset of its ledger record
	persisted  bool
	ending     bool
}

// slotState is one transactional id.
type slotState struct {
	tx    Transaction // what it may hold next, or holds
	fresh bool        // no transaction was ended under tx's epoch
	known bool
}

// Machine is the protocol as a value: no goroutine, clock, Kafka or Pebble. Step takes an event, Ready the actions that
// follow. It is not safe for concurrent use. doc.go has the contract for whoever drives it.
type Machine struct {
	cfg   Config
	state State
	out   []Action

	checkpoints []Checkpoint
	settled     Outcome
	settledTx   Transaction // what settled was told about; a later recovery of this process must not forget it
	slots       [2]slotState
	fencing     int
	base        *base
	claimAt     int64

	ledger      LedgerEnd // as read after the last fence; its topic id goes into checkpoints
	hasBase     bool      // the ledger was read after a fence of this process
	ownedOffset int64     // base of the lost rule: last ledger record seen after a fence, or the last own committed one; -1: none
	claimed     bool      // this incarnation has claimed since its start
	owned       [2]bool   // ids that this process has fenced (ledger = false: never fence them blindly again)
	lastTx      Transaction
	lastEpoch   Epoch

	open    *openEpoch
	commit  *committing
	failure error         // why the machine halts
	aborts  []Transaction // still to be aborted

	stopping   bool // StopRequested
	draining   bool // Drained
	failures   int  // barriers in a row that timed out
	recoveries int  // in a row without a decided epoch
	fencings   int  // recoveries in a row that began with being fenced, without a decided epoch
}

// New returns a machine that waits for Started.
func New(cfg Config) *Machine { return &Machine{cfg: cfg, ownedOffset: -1} }

// State is where the machine stands.
func (m *Machine) State() State { return m.state }

// Ready returns the actions since the last call, in order, and forgets them.
func (m *Machine) Ready() []Action {
	out := m.out
	m.out = nil
	return out
}

// Clone is an independent copy, for explorers.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out = slices.Clone(m.out)
	c.checkpoints = slices.Clone(m.checkpoints)
	if m.open != nil {
		o := *m.open
		c.open = &o
	}
	if m.commit != nil {
		k := *m.commit
		c.commit = &k
	}
	if m.base != nil {
		b := *m.base
		c.base = &b
	}
	return &c
}

// Progress tells people where the machine stands.
type Progress struct {
	State      State
	Phase      Phase // of the open epoch; 0 when none is open
	Epoch      Epoch // open epoch; 0 when none is open
	Decided    Epoch // last decided epoch
	Open       Transaction
	Committing Epoch       // flushed, not decided; 0 when none is
	Prepared   Transaction // its transaction
	Blocked    string      // why nothing moves although the machine tries; empty otherwise
}

// Progress returns where the machine stands.
func (m *Machine) Progress() Progress {
	p := Progress{State: m.state, Decided: m.lastEpoch}
	if m.open != nil {
		p.Epoch, p.Phase, p.Open = m.open.epoch, m.open.phase, m.open.tx
	}
	if m.commit != nil {
		p.Committing, p.Prepared = m.commit.checkpoint.Epoch, m.commit.checkpoint.Transaction
	}
	// Two bridges with one transactional id fence each other for ever without a foreign record in this bridge's ledger.
	if m.fencings >= 5 {
		p.Blocked = fmt.Sprintf("transactional id %s is used by somebody else: fenced %d times in a row without progress", m.cfg.IDs[0], m.fencings)
	}
	return p
}

// Step takes one event. An event that is illegal in the present state is an error that names both, and changes nothing.
func (m *Machine) Step(e Event) error {
	if m.state == StateExited {
		return nil // the answers of what was under way prove nothing any more
	}
	switch e := e.(type) {
	case Failed:
		m.fail(e.Err)
		return nil
	case StopRequested:
		return m.stop()
	case StopDeadline:
		return m.stopNow()
	case Drained:
		m.draining = true
		m.finalBarrier()
		return nil
	case BarrierDue:
		m.barrierDue()
		return nil
	case LookDue:
		if m.watchesLedger() && m.state == StateRunning {
			m.do(Peek{})
		}
		return nil
	case BarrierTimedOut:
		m.barrierTimedOut(e.Epoch)
		return nil
	}
	if m.state == StateHalting {
		return m.stepHalting(e)
	}
	if m.state == StateRunning {
		return m.stepRunning(e)
	}
	return m.stepRecovery(e)
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

func (m *Machine) illegal(e Event) error {
	if m.open != nil {
		return fmt.Errorf("event %T is illegal in state %s, epoch %d in phase %d", e, m.state, m.open.epoch, m.open.phase)
	}
	return fmt.Errorf("event %T is illegal in state %s", e, m.state)
}

// exactlyOnce says that epochs have transactions.
func (m *Machine) exactlyOnce() bool { return m.cfg.Semantic == ExactlyOnce }

// watchesLedger says that other incarnations show themselves in the ledger.
func (m *Machine) watchesLedger() bool { return m.exactlyOnce() && m.cfg.Ledger }

// ---- recovery: look → settle → fence → read → resolve → claim → open, one path for first start, crash and failure ----

func (m *Machine) stepRecovery(e Event) error {
	switch e := e.(type) {
	case Started:
		if m.state != StateNew {
			return m.illegal(e)
		}
		m.checkpoints = slices.Clone(e.Checkpoints)
		m.recover()
	case Waited:
		if m.state != StateWaiting {
			return m.illegal(e)
		}
		m.recover()
	case Looked:
		if m.state != StateLooking {
			return m.illegal(e)
		}
		m.onLooked(e.End)
	case Settled:
		if m.state != StateSettling {
			return m.illegal(e)
		}
		m.onSettled(e)
	case StatusStored:
		switch m.state {
		case StateRecording:
			m.fence(0)
		case StateDropping:
			m.base.decide = 0
			m.dropOrOpen()
		default:
			return m.illegal(e)
		}
	case Fenced:
		if m.state != StateFencing || e.Slot != m.fencing {
			return m.illegal(e)
		}
		m.onFenced(e)
	case LedgerRead:
		if m.state != StateReading {
			return m.illegal(e)
		}
		m.onLedgerRead(e.End)
	case Resolved:
		if m.state != StateResolving {
			return m.illegal(e)
		}
		m.onResolved(e.Positions)
	case Appended:
		if m.state != StateClaiming || !e.Tx.Same(m.slots[0].tx) {
			return m.illegal(e)
		}
		m.claimAt = e.Offset
		m.state = StateClaimEnding
		m.do(End{Tx: m.slots[0].tx, Commit: true})
	case Ended:
		return m.onEndedOutsideRunning(e)
	case Dropped:
		if m.state != StateDropping {
			return m.illegal(e)
		}
		m.openFirst()
	case Persisted:
		if m.state != StateDropping || e.Epoch != 1 || !m.startsAlone() {
			return m.illegal(e)
		}
		m.base.epoch = 1
		m.openFirst()
	case Opened:
		if m.state != StateOpening {
			return m.illegal(e)
		}
		m.onFirstOpened(e.Tx)
	default:
		return m.illegal(e)
	}
	return nil
}

// recover begins the one recovery path.
func (m *Machine) recover() {
	m.base, m.open, m.commit, m.failures, m.failure = nil, nil, nil, 0, nil
	if n := m.newest(); n == nil || !n.Transaction.Same(m.settledTx) {
		m.settled, m.settledTx = 0, Transaction{}
	}
	m.draining = false // what is replayed may lie before the end that was asked for
	if !m.cfg.Ledger {
		m.settleOrFence()
		return
	}
	m.state = StateLooking
	m.do(Look{})
}

// onLooked may refuse, or find that we lost; positions are never taken from here (I3).
func (m *Machine) onLooked(end LedgerEnd) {
	if m.refuseForeign(end) || m.lost(end) {
		return
	}
	if !m.exactlyOnce() && !end.Found && !m.hasTransactionalPast() {
		m.ledger = end
		m.judged()
		return
	}
	m.settleOrFence()
}

func (m *Machine) hasTransactionalPast() bool {
	return slices.ContainsFunc(m.checkpoints, func(c Checkpoint) bool { return !c.Transaction.IsZero() || !c.Follows.IsZero() })
}

// refuseForeign refuses a ledger whose writer used other transactional ids: the old process would keep ids that our fence does not
// take, and could commit after our read.
func (m *Machine) refuseForeign(end LedgerEnd) bool {
	ids := end.Record.TransactionalIDs
	if !end.Found || len(ids) == 0 || slices.Equal(ids, m.cfg.IDs[:]) {
		return false
	}
	m.exit(Refuse("recover", "the ledger of bridge %q was written with transactional ids %v, configured are %v: set transactional_id back, or use another bridge name", m.cfg.Bridge, ids, m.cfg.IDs))
	return true
}

// lost is the base rule: a record of another incarnation at a higher offset than the last one that we saw after a fence, or
// committed ourselves. Anything else proves nothing (REVIEW V4).
func (m *Machine) lost(end LedgerEnd) bool {
	if !m.watchesLedger() || !m.hasBase || !end.Found || end.Record.Incarnation == m.cfg.Incarnation || end.Offset <= m.ownedOffset {
		return false
	}
	m.exit(&Error{Class: Fatal, Exit: ExitLost, Op: "recover", Err: fmt.Errorf("another instance of bridge %q took over: ledger record at offset %d by incarnation %s", m.cfg.Bridge, end.Offset, end.Record.Incarnation)})
	return true
}

func (m *Machine) newest() *Checkpoint {
	if len(m.checkpoints) == 0 {
		return nil
	}
	return &m.checkpoints[len(m.checkpoints)-1]
}

// settleOrFence settles before any InitProducerID: that would abort what is prepared.
func (m *Machine) settleOrFence() {
	if !m.exactlyOnce() && !m.cfg.Ledger && !m.hasTransactionalPast() {
		m.judged()
		return
	}
	n := m.newest()
	if n == nil || n.Transaction.IsZero() || n.Status != Proposed || n.Empty {
		m.fence(0)
		return
	}
	m.state = StateSettling
	m.do(Settle{Tx: n.Transaction, Timeout: n.TimeoutMs, Bounded: m.inLedger(n)})
}

// inLedger says that the ledger tells whether n was committed. It does not for a checkpoint that was made while ledger
// was false, although there is a ledger now.
func (m *Machine) inLedger(n *Checkpoint) bool { return m.cfg.Ledger && n.LedgerTopicID != (TopicID{}) }

func (m *Machine) onSettled(e Settled) {
	n := m.newest()
	// Version 4 answers "aborted" (INVALID_TXN_STATE) for a committed transaction, too: EndTxn left its epoch as it was, a late repeat
	// of the InitProducerID that had refreshed it is answered with that same epoch, and the id is empty again.
	if e.Outcome == OutcomeAborted && n.Transaction.EndTxnVersion < 5 {
		e.Outcome = OutcomeAmbiguous
	}
	if e.Outcome != 0 && !(e.Outcome == OutcomeAmbiguous && m.settled != 0) { // our own fence makes later answers ambiguous
		m.settled, m.settledTx = e.Outcome, n.Transaction
	}
	if e.Outcome == OutcomeCommitted && !e.Next.IsZero() {
		m.remember(e.Next)
	}
	// The fence makes every later answer ambiguous: what is known now must survive a crash after it. With a ledger that
	// matters only where the ledger has lost records: "ok" convicts it, and --adopt needs either answer, also that of the start
	// before: nobody says --adopt before a start has refused, and that start has fenced.
	if m.inLedger(n) && e.Outcome != OutcomeCommitted && e.Outcome != OutcomeAborted {
		m.fence(0)
		return
	}
	switch e.Outcome {
	case OutcomeCommitted:
		m.record(n, Decided)
	case OutcomeAborted:
		if m.cfg.OnTimeoutFail && !m.inLedger(n) {
			m.exit(Refuse("recover", "the prepared transaction of epoch %d (%s) was aborted by the broker, and on_timeout = \"fail\"; not delivered: %s; to read this range again set on_timeout = \"replay\" and start anew",
				n.Epoch, n.Transaction, m.rangesBefore(n)))
			return
		}
		m.record(n, Aborted)
	default:
		if m.cfg.Adopt && m.cfg.AdoptEpoch == n.Epoch {
			m.record(n, Decided)
			return
		}
		if m.cfg.Adopt && m.cfg.AdoptEpoch != 0 && m.cfg.AdoptEpoch < n.Epoch {
			m.record(n, Aborted)
			return
		}
		m.exit(Refuse("recover", "nobody can tell whether the transaction of checkpoint %d (%s) was committed, because ledger = false and another process initialised its id since; look at the sink for %s; then --adopt=%d if it is there, an earlier epoch if it is not",
			n.Epoch, n.Transaction, m.rangesBefore(n), n.Epoch))
	}
}

func (m *Machine) rangesBefore(n *Checkpoint) string {
	var from Positions
	for i := range m.checkpoints {
		if c := &m.checkpoints[i]; c.Epoch < n.Epoch && c.upTo().Same(n.Follows) {
			from = m.checkpoints[i].Positions
		}
	}
	return Ranges(from, n.Positions)
}

func (m *Machine) record(n *Checkpoint, s Status) {
	n.Status = s
	m.settled = map[Status]Outcome{Decided: OutcomeCommitted, Aborted: OutcomeAborted}[s]
	m.state = StateRecording
	m.do(StoreStatus{Epoch: n.Epoch, Status: s})
}

// remember keeps what EndTxn returned for the id's next transaction; checkpoints never see it (REVIEW V3).
func (m *Machine) remember(next Transaction) {
	for i := range m.slots {
		if m.cfg.IDs[i] == next.ID {
			m.slots[i] = slotState{tx: next, fresh: next.EndTxnVersion >= 5, known: true}
		}
	}
}

// fence takes the ids in ascending order (I11).
func (m *Machine) fence(slot int) {
	m.state = StateFencing
	m.fencing = slot
	f := Fence{Slot: slot, ID: m.cfg.IDs[slot]}
	if !m.cfg.Ledger && m.owned[slot] {
		f.Known = m.slots[slot].tx
	}
	m.do(f)
}

func (m *Machine) onFenced(e Fenced) {
	m.slots[e.Slot] = slotState{tx: e.Tx, fresh: true, known: true}
	m.owned[e.Slot] = true
	if e.Slot == 0 {
		m.fence(1)
		return
	}
	if !m.cfg.Ledger {
		m.judged()
		return
	}
	m.state = StateReading
	m.do(ReadLedger{})
}

func (m *Machine) onLedgerRead(end LedgerEnd) {
	if m.refuseForeign(end) || m.lost(end) {
		return
	}
	m.ledger = end
	m.hasBase = true
	if end.Found {
		m.ownedOffset = max(m.ownedOffset, end.Offset)
	}
	m.judged()
}

// judged goes on from what the verdict says; every refusal comes before the claim.
func (m *Machine) judged() {
	e := &evidence{end: m.ledger, checkpoints: m.checkpoints, settled: m.settled}
	var b *base
	var err error
	if m.cfg.Ledger {
		b, err = judge(&m.cfg, e)
	} else {
		b, err = judgeDirectory(&m.cfg, e)
	}
	if err != nil {
		m.exit(err)
		return
	}
	m.base = b
	m.state = StateResolving
	m.do(Resolve{Known: b.positions})
}

func (m *Machine) onResolved(now Positions) {
	m.base.reading = now
	m.base.positions = now.Over(m.base.positions)
	if !m.watchesLedger() {
		m.dropOrOpen()
		return
	}
	// A claim takes no number and repeats the last epoch's transaction, so that it hides nothing (REVIEW V6). It runs on
	// the id that was fenced first (I11).
	m.state = StateClaiming
	m.claimAt = math.MaxInt64
	m.do(Append{Tx: m.slots[0].tx, Record: m.ledgerRecord(LedgerClaim, m.base.epoch, m.base.tx, m.base.positions)})
}

func (m *Machine) ledgerRecord(kind LedgerKind, epoch Epoch, tx Transaction, p Positions) LedgerRecord {
	return LedgerRecord{Bridge: m.cfg.Bridge, Kind: kind, Incarnation: m.cfg.Incarnation, TransactionalIDs: m.cfg.IDs[:], Epoch: epoch, Transaction: tx, Positions: p}
}

// onEndedOutsideRunning takes the claim's outcome, and the one attempt to abort on the way out.
func (m *Machine) onEndedOutsideRunning(e Ended) error {
	switch {
	case m.state == StateAborting:
		m.abortNext()
	case m.state != StateClaimEnding || !e.Tx.Same(m.slots[0].tx):
		return m.illegal(e)
	case e.Outcome == OutcomeCommitted:
		m.remember(e.Next)
		m.claimed = true
		m.cfg.Adopt = false // the ledger is whole again: what it loses from now on is another matter
		m.ownedOffset = max(m.ownedOffset, m.claimAt)
		m.dropOrOpen()
	default:
		m.fail(m.notCommitted(e))
	}
	return nil
}

// notCommitted: whoever's own transaction did not commit was fenced or timed out; the ledger tells which. Without a
// ledger an ambiguous answer ends the run: nothing can tell.
func (m *Machine) notCommitted(e Ended) error {
	if !m.cfg.Ledger && e.Outcome == OutcomeAmbiguous {
		return Refuse("commit", "nobody can tell whether transaction %s was committed, because ledger = false and another process initialised its id since; the next start says how to go on", e.Tx)
	}
	return &Error{Class: Unknown, Fenced: true, Op: "commit", Err: fmt.Errorf("transaction %s: %s", e.Tx, e.Outcome)}
}

// dropOrOpen brings the store in line with the verdict, then opens.
func (m *Machine) dropOrOpen() {
	switch {
	case m.base.decide != 0:
		m.state = StateDropping
		m.do(StoreStatus{Epoch: m.base.decide, Status: Decided})
	case len(m.base.drop) > 0:
		m.state = StateDropping
		m.do(Drop{Epochs: m.base.drop})
	case m.startsAlone():
		m.state = StateDropping
		m.do(Persist{Checkpoint: Checkpoint{Epoch: 1, Semantic: m.cfg.Semantic, Status: Decided, Incarnation: m.cfg.Incarnation, Positions: m.base.positions}})
	default:
		m.openFirst()
	}
}

// startsAlone says that nothing but a checkpoint can hold the start positions: where there is no claim, a first epoch that does not come
// to its end would leave nothing to go on from, and start = "latest" would pass over what it was to read.
func (m *Machine) startsAlone() bool {
	return m.cfg.Semantic != None && !m.watchesLedger() && m.base.epoch == 0 && len(m.checkpoints) == 0
}

// openFirst opens the first epoch, on the id that the claim did not use.
func (m *Machine) openFirst() {
	m.lastEpoch, m.lastTx = m.base.epoch, m.base.tx
	m.state = StateOpening
	m.openEpoch(m.base.epoch+1, 1, m.base.positions)
}

func (m *Machine) openEpoch(n Epoch, slot int, start Positions) {
	m.open = &openEpoch{epoch: n, slot: slot, start: start, phase: PhaseSwitching}
	if !m.exactlyOnce() {
		m.do(Open{Epoch: n})
		return
	}
	s := m.slots[slot]
	m.open.tx = s.tx
	// Under transaction.version 1 EndTxn leaves the producer epoch as it is: without a fresh one a late EndTxn of the transaction
	// before would commit this one half-written (I6).
	m.do(Open{Epoch: n, Tx: s.tx, Refresh: !s.fresh})
}

// opened enters the transaction that Open returned.
func (m *Machine) opened(tx Transaction) {
	m.open.tx, m.open.phase = tx, PhaseFlowing
	if m.exactlyOnce() {
		m.slots[m.open.slot] = slotState{tx: tx, fresh: true, known: true}
	}
}

func (m *Machine) onFirstOpened(tx Transaction) {
	m.opened(tx)
	m.state = StateRunning
	m.do(Announce{Recovery: m.base.recovery})
	m.do(Start{Epoch: m.open.epoch, Positions: m.base.reading, State: m.base.state})
	m.base = nil
	m.settled, m.settledTx = 0, Transaction{}
	m.finalBarrier()
}

// ---- running: one epoch is open, the one before it may be committing ----

func (m *Machine) stepRunning(e Event) error {
	switch e := e.(type) {
	case Aligned:
		if m.open.phase != PhaseAligning || e.Epoch != m.open.epoch {
			return m.illegal(e)
		}
		m.onAligned(e)
	case Flushed:
		if m.open.phase != PhaseFlushing || e.Epoch != m.open.epoch {
			return m.illegal(e)
		}
		m.onFlushed(e)
	case Appended:
		if m.open.phase != PhaseAppending || !e.Tx.Same(m.open.tx) {
			return m.illegal(e)
		}
		m.propose(e.Offset)
	case Opened:
		if m.open.phase != PhaseSwitching {
			return m.illegal(e)
		}
		m.opened(e.Tx)
		m.do(Flow{Epoch: m.open.epoch})
		m.finalBarrier()
	case Persisted:
		if m.commit == nil || m.commit.persisted || e.Epoch != m.commit.checkpoint.Epoch {
			return m.illegal(e)
		}
		m.onPersisted()
	case Ended:
		if m.commit == nil || !m.commit.ending || !e.Tx.Same(m.commit.checkpoint.Transaction) {
			return m.illegal(e)
		}
		return m.onCommitEnded(e)
	case StatusStored:
		if m.commit == nil || m.commit.checkpoint.Status != Decided || e.Epoch != m.commit.checkpoint.Epoch {
			return m.illegal(e)
		}
		m.decided()
	case Peeked:
		m.lost(e.End)
	default:
		return m.illegal(e)
	}
	return nil
}

// barrierDue starts a barrier, never while the epoch before is undecided: epochs are decided in order (I8).
func (m *Machine) barrierDue() {
	if m.state != StateRunning || m.open.phase != PhaseFlowing || m.commit != nil {
		return
	}
	m.open.phase = PhaseAligning
	m.do(Barrier{Epoch: m.open.epoch})
}

// finalBarrier starts the last barrier as soon as one may start: one that was under way when the stop came does not count, it may
// lie before records that were asked for.
func (m *Machine) finalBarrier() {
	if !m.stopping && !m.draining {
		return
	}
	if m.state == StateRunning && m.open.phase == PhaseFlowing && m.commit == nil {
		m.open.final = true
		m.barrierDue()
	}
}

func (m *Machine) onAligned(e Aligned) {
	m.open.positions, m.open.state = e.Positions.Over(m.open.start), e.State
	// NONE waits for nothing; the final barrier flushes all the same, or every clean stop would lose records.
	if m.cfg.Semantic == None && !m.open.final {
		if m.open.positions.Equal(m.open.start) {
			m.idle()
			return
		}
		m.propose(-1)
		return
	}
	m.open.phase = PhaseFlushing
	m.do(Flush{Epoch: m.open.epoch})
}

func (m *Machine) onFlushed(e Flushed) {
	m.open.sent = e.Sent
	// Idle only if nothing was sent: a produce that is on its way would be committed by a transaction whose positions exclude it.
	// A reset is stored also where it moves nothing: it may drop the map state.
	if !e.Sent && !m.cfg.Reset && m.open.positions.Equal(m.open.start) {
		m.idle()
		return
	}
	if !m.watchesLedger() {
		m.propose(-1)
		return
	}
	m.open.phase = PhaseAppending
	kind := LedgerEpoch
	if m.cfg.Reset {
		kind = LedgerReset
	}
	m.do(Append{Tx: m.open.tx, Record: m.ledgerRecord(kind, m.open.epoch, m.open.tx, m.open.positions)})
}

// idle keeps the epoch's number, transaction and id.
func (m *Machine) idle() {
	m.failures, m.recoveries = 0, 0 // a barrier came through: failures before it are not in a row with later ones
	if m.open.final {
		m.open.phase = PhaseClosed
		m.halt(nil)
		return
	}
	m.open.phase = PhaseFlowing
	m.do(Flow{Epoch: m.open.epoch})
	m.finalBarrier()
}

// propose asks for the checkpoint to be made durable (I1), and opens the next epoch: everything of this one is
// acknowledged, so the order inside each sink partition holds (I8).
func (m *Machine) propose(ledgerAt int64) {
	o := m.open
	m.failures = 0
	c := Checkpoint{
		Epoch: o.epoch, Semantic: m.cfg.Semantic, Status: Decided, Incarnation: m.cfg.Incarnation,
		Positions: o.positions, State: o.state, Follows: m.lastTx,
	}
	if m.exactlyOnce() {
		c.Transaction = o.tx
		c.Empty = !m.cfg.Ledger && !o.sent
		if !c.Empty {
			c.Status = Proposed
		}
		if m.cfg.Ledger {
			c.LedgerTopicID = m.ledger.TopicID
		}
	}
	m.commit = &committing{checkpoint: c, slot: o.slot, ledgerAt: ledgerAt}
	m.do(Persist{Checkpoint: c})
	switch {
	case o.final:
		o.phase = PhaseClosed
	case !m.exactlyOnce():
		m.open = &openEpoch{epoch: o.epoch + 1, start: o.positions, phase: PhaseFlowing}
		m.do(Flow{Epoch: m.open.epoch})
	case c.Empty:
		// Its transaction has no partition, so there is nothing that EndTxn could end: the id keeps its epoch.
		m.open = &openEpoch{epoch: o.epoch + 1, slot: o.slot, tx: o.tx, start: o.positions, phase: PhaseFlowing}
		m.do(Flow{Epoch: m.open.epoch})
	default:
		m.openEpoch(o.epoch+1, 1-o.slot, o.positions)
	}
}

func (m *Machine) onPersisted() {
	m.commit.persisted = true
	if m.commit.checkpoint.Status == Decided {
		m.decided() // under NONE and AT_LEAST_ONCE the durable checkpoint is the commit point
		return
	}
	m.commit.ending = true
	m.do(End{Tx: m.commit.checkpoint.Transaction, Commit: true})
}

// onCommitEnded: with OutcomeCommitted the epoch is decided. This is the only commit point under EXACTLY_ONCE.
func (m *Machine) onCommitEnded(e Ended) error {
	m.commit.ending = false
	if e.Outcome != OutcomeCommitted {
		m.fail(m.notCommitted(e))
		return nil
	}
	m.remember(e.Next)
	m.ownedOffset = max(m.ownedOffset, m.commit.ledgerAt)
	m.commit.checkpoint.Status = Decided
	m.do(StoreStatus{Epoch: m.commit.checkpoint.Epoch, Status: Decided})
	return nil
}

func (m *Machine) decided() {
	c := m.commit.checkpoint
	m.lastEpoch = c.Epoch
	if !c.Empty && m.exactlyOnce() {
		m.lastTx = c.Transaction
	}
	m.commit = nil
	m.recoveries, m.fencings = 0, 0
	m.do(Publish{Epoch: c.Epoch, Positions: c.Positions})
	if m.open.phase == PhaseClosed {
		m.halt(nil)
		return
	}
	m.finalBarrier()
}

func (m *Machine) barrierTimedOut(n Epoch) {
	if m.state != StateRunning || m.open.epoch != n {
		return
	}
	switch m.open.phase {
	case PhaseFlowing, PhaseSwitching, PhaseClosed:
		return // flushed in the meantime
	case PhaseAligning, PhaseFlushing:
		if m.failures++; m.failures <= m.cfg.TolerableFailures {
			m.do(ExtendBarrier{Epoch: n})
			return
		}
	case PhaseAppending: // the ledger record may be there: only recovery can tell
	}
	m.fail(&Error{Class: Unknown, Op: "checkpoint", Err: fmt.Errorf("barrier of epoch %d was not flushed within checkpoint.timeout", n)})
}

// ---- failure and stop ----

// fail sends every failure to the one recovery path, and a fatal one out.
func (m *Machine) fail(err error) {
	switch {
	case m.state == StateAborting:
		m.abortNext() // one attempt: what is open is aborted by its timeout
	case m.state == StateHalting:
		if ClassOf(err) == Fatal {
			m.failure = err
		}
	case m.state == StateFencing && !m.cfg.Ledger && m.owned[m.fencing] && IsFenced(err):
		// Nothing but the fence tells of a rival here.
		m.halt(&Error{Class: Fatal, Exit: ExitLost, Op: "recover", Err: fmt.Errorf("another instance of bridge %q took over: %w", m.cfg.Bridge, err)})
	default:
		m.halt(err)
	}
}

func (m *Machine) halt(err error) {
	m.failure = err
	m.state = StateHalting
	m.do(Halt{})
}

// stepHalting: the answers of actions that were cut off may still arrive, and prove nothing (I7).
func (m *Machine) stepHalting(e Event) error {
	h, ok := e.(Halted)
	if !ok {
		return nil
	}
	m.checkpoints = slices.Clone(h.Checkpoints)
	// With a ledger the blind fence aborts what is open. Without one the re-fence carries producer id and epoch, and on an open
	// transaction transaction.version 1 answers that with F, which would look like a rival.
	if m.failure == nil || m.stopping || ClassOf(m.failure) == Fatal || !m.cfg.Ledger {
		m.abortOpen()
		return nil
	}
	m.retry()
	return nil
}

// retry waits, then recovers.
func (m *Machine) retry() {
	fenced := IsFenced(m.failure)
	m.recoveries++
	if m.cfg.RestartAttempts > 0 && m.recoveries > m.cfg.RestartAttempts {
		m.failure = &Error{Class: Fatal, Exit: ExitGaveUp, Op: "restart", Err: fmt.Errorf("gave up after %d attempts: %w", m.cfg.RestartAttempts, m.failure)}
		m.abortOpen()
		return
	}
	w := Wait{Cause: WaitRestart, Attempt: m.recoveries}
	if fenced {
		m.fencings++
		w.Attempt = m.fencings
		w.Cause = WaitUnclaimed
		if m.claimed {
			w.Cause = WaitClaimed
		}
	}
	m.state = StateWaiting
	m.do(w)
}

// stop begins a clean stop. Before records flow there is nothing to save.
func (m *Machine) stop() error {
	m.stopping = true
	switch m.state {
	case StateRunning:
		m.finalBarrier()
	case StateHalting, StateAborting:
	case StateNew:
		m.exitDone()
	default:
		m.halt(nil)
	}
	return nil
}

// stopNow ends a stop that takes too long: what is proposed stays prepared for the next start.
func (m *Machine) stopNow() error {
	m.stopping = true
	switch m.state {
	case StateHalting:
	case StateAborting, StateWaiting, StateNew:
		m.leave()
	default:
		m.halt(nil)
	}
	return nil
}

// abortOpen aborts what is open and not proposed, one attempt each, so that nobody's last stable offset hangs on it until
// the timeout. What a durable checkpoint names is never aborted.
func (m *Machine) abortOpen() {
	if m.exactlyOnce() {
		m.aborts = m.unproposed()
	}
	m.abortNext()
}

func (m *Machine) abortNext() {
	if len(m.aborts) == 0 {
		m.leave()
		return
	}
	m.state = StateAborting
	m.do(End{Tx: m.aborts[0], Commit: false})
	m.aborts = m.aborts[1:]
}

// unproposed: the store was read after everything had ended, so a checkpoint that it does not hold was never proposed.
func (m *Machine) unproposed() []Transaction {
	var txs []Transaction
	if m.commit != nil {
		txs = append(txs, m.commit.checkpoint.Transaction)
	}
	switch {
	case m.open != nil:
		if m.open.phase != PhaseClosed { // closed: flushed, so it is the one committing, or idle
			txs = append(txs, m.open.tx)
		}
	case m.base != nil && m.slots[0].known && !(m.claimed && m.ownedOffset >= m.claimAt):
		txs = append(txs, m.slots[0].tx) // the claim
	}
	return slices.DeleteFunc(slices.Compact(txs), func(tx Transaction) bool {
		return tx.IsZero() || slices.ContainsFunc(m.checkpoints, func(c Checkpoint) bool { return c.Transaction.Same(tx) && !c.Empty })
	})
}

// leave goes on after the attempt to abort: out with the fatal error that ended the run, out as asked, or to the next recovery.
func (m *Machine) leave() {
	switch {
	case m.failure != nil && ClassOf(m.failure) == Fatal:
		m.exit(m.failure)
	case m.failure != nil && !m.stopping:
		m.retry()
	default:
		m.exitDone()
	}
}

func (m *Machine) exitDone() {
	m.state = StateExited
	m.do(Exit{Code: ExitDone})
}

func (m *Machine) exit(err error) {
	m.state = StateExited
	code := ExitRefused
	var e *Error
	if errors.As(err, &e) && e.Exit != 0 {
		code = e.Exit
	}
	m.do(Exit{Code: code, Err: err})
}
