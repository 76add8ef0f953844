package semantics

// Action is what the machine asks its driver to do. The set is closed. Each is answered by the event that its comment
// names, or by Failed.
type Action interface{ action() }

// Look reads the ledger without fencing, only to refuse or to find that this incarnation has lost (I3). Answer: Looked.
type Look struct{}

// Settle repeats EndTxn(commit) with the stored producer id, epoch and version until the answer is definitive; with
// Bounded no longer than the transaction timeout and the sweeper's interval. Answer: Settled.
type Settle struct {
	Tx      Transaction
	Timeout int64 // the transaction timeout in milliseconds
	Bounded bool
}

// StoreStatus makes the outcome of an epoch durable. Answer: StatusStored.
type StoreStatus struct {
	Epoch  Epoch
	Status Status
}

// Fence takes the transactional id by a blind InitProducerID, the only place of one (I6). With Known not zero (ledger =
// false, same process) the request carries producer id and epoch, so that it never takes the id back from a rival.
// Answer: Fenced.
type Fence struct {
	Slot  int
	ID    string
	Known Transaction
}

// ReadLedger reads the ledger to the high watermark asked for now, waiting until the last stable offset has passed it.
// Answer: LedgerRead.
type ReadLedger struct{}

// Resolve finds what is to be read: it checks known positions against the sources, and finds start positions for the
// rest. It refuses where records are gone. Answer: Resolved.
type Resolve struct{ Known Positions }

// Append sends the ledger record in tx, after everything else in tx is acknowledged (I2). Answer: Appended.
type Append struct {
	Tx     Transaction
	Record LedgerRecord
}

// End ends tx: with Commit until the answer is definitive, otherwise one attempt. Answer: Ended; without Commit also Failed.
type End struct {
	Tx     Transaction
	Commit bool
}

// Drop deletes checkpoints of these epochs. Answer: Dropped.
type Drop struct{ Epochs []Epoch }

// Open makes Tx the transaction of all further output, with Refresh after InitProducerID with producer id and epoch. Tx is zero
// unless ExactlyOnce. Answer: Opened.
type Open struct {
	Epoch   Epoch
	Tx      Transaction
	Refresh bool
}

// Start starts the tasks; records flow in Epoch. Positions are those of Resolved: what is no longer configured is carried
// on in checkpoints, but not read. No answer.
type Start struct {
	Epoch     Epoch
	Positions Positions
	State     map[string][]byte
}

// Flow lets records flow again after a barrier, in Epoch. No answer.
type Flow struct{ Epoch Epoch }

// Barrier sends the barrier of Epoch through the tasks. Answer: Aligned.
type Barrier struct{ Epoch Epoch }

// ExtendBarrier gives the barrier of Epoch another checkpoint.timeout: the failure is tolerated. No answer.
type ExtendBarrier struct{ Epoch Epoch }

// Flush waits until every batch ever written in Epoch is acknowledged. Answer: Flushed.
type Flush struct{ Epoch Epoch }

// Persist makes the checkpoint durable. Answer: Persisted.
type Persist struct{ Checkpoint Checkpoint }

// Publish commits positions to the sources' groups, for lag tools only. No answer.
type Publish struct {
	Epoch     Epoch
	Positions Positions
}

// Peek reads the ledger's end as Look does, while running. Answer: Peeked, or nothing when it cannot be read.
type Peek struct{}

// Halt cuts every action off and stops the tasks. Answer: Halted.
type Halt struct{}

// WaitCause says how long Wait is.
type WaitCause uint8

// WaitRestart is the configured backoff. WaitUnclaimed (100-500 ms) and WaitClaimed (1-3 s) are random, doubled each
// attempt: in lock step two incarnations would fence each other for ever, and the one that has claimed must
// leave the newcomer time.
const (
	WaitRestart WaitCause = iota + 1
	WaitUnclaimed
	WaitClaimed
)

// Wait waits. Answer: Waited.
type Wait struct {
	Cause   WaitCause
	Attempt int // from 1
}

// Announce reports what recovery found and did. No answer.
type Announce struct{ Recovery Recovery }

// Exit ends the process with Code; Err is nil for ExitDone. No answer.
type Exit struct {
	Code ExitCode
	Err  error
}

func (Look) action()          {}
func (Settle) action()        {}
func (StoreStatus) action()   {}
func (Fence) action()         {}
func (ReadLedger) action()    {}
func (Resolve) action()       {}
func (Append) action()        {}
func (End) action()           {}
func (Drop) action()          {}
func (Open) action()          {}
func (Start) action()         {}
func (Flow) action()          {}
func (Barrier) action()       {}
func (ExtendBarrier) action() {}
func (Flush) action()         {}
func (Persist) action()       {}
func (Publish) action()       {}
func (Peek) action()          {}
func (Halt) action()          {}
func (Wait) action()          {}
func (Announce) action()      {}
func (Exit) action()          {}
