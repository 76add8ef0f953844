package semantics

// Event tells the machine what happened. The set is closed.
type Event interface{ event() }

// Started opens the machine with what the store holds, in ascending order of epoch.
type Started struct{ Checkpoints []Checkpoint }

// Looked answers Look.
type Looked struct{ End LedgerEnd }

// Settled answers Settle. Outcome is 0 when the bounded time passed without a definitive answer.
type Settled struct {
	Outcome Outcome
	Next    Transaction // for OutcomeCommitted: what the id's next transaction uses
}

// StatusStored answers StoreStatus.
type StatusStored struct{ Epoch Epoch }

// Fenced answers Fence: the transaction that the id of that slot may hold next.
type Fenced struct {
	Slot int
	Tx   Transaction
}

// LedgerRead answers ReadLedger.
type LedgerRead struct{ End LedgerEnd }

// Resolved answers Resolve: the positions of everything that is read now, and of nothing else.
type Resolved struct{ Positions Positions }

// Dropped answers Drop.
type Dropped struct{}

// Opened answers Open. Tx is the transaction that is open now (with a fresh epoch when Open asked to refresh).
type Opened struct{ Tx Transaction }

// BarrierDue says that time, bytes or records ask for a barrier. It is ignored while none may start.
type BarrierDue struct{}

// Aligned says that the barrier of Epoch has reached every map task. Positions were taken by the source tasks when they sent it,
// State by the map tasks when it was aligned.
type Aligned struct {
	Epoch     Epoch
	Positions Positions
	State     map[string][]byte
}

// Flushed says that every batch of the epoch is acknowledged; Sent that there was one.
type Flushed struct {
	Epoch Epoch
	Sent  bool
}

// Appended says that the ledger record of tx (an epoch's or the claim's) is acknowledged at Offset.
type Appended struct {
	Tx     Transaction
	Offset int64
}

// Persisted says that the epoch's checkpoint is durable.
type Persisted struct{ Epoch Epoch }

// Ended answers End with a definitive outcome.
type Ended struct {
	Tx      Transaction
	Outcome Outcome
	Next    Transaction
}

// BarrierTimedOut says that the barrier of Epoch was not flushed within checkpoint.timeout.
type BarrierTimedOut struct{ Epoch Epoch }

// LookDue asks for a look at the ledger's end; an idle incarnation finds out in no other way that it has lost.
type LookDue struct{}

// Peeked answers Peek.
type Peeked struct{ End LedgerEnd }

// Failed says that an action or a task failed. Err is classified by ClassOf.
type Failed struct{ Err error }

// Halted answers Halt: no task runs and no action is under way. Checkpoints is what the store holds now.
type Halted struct{ Checkpoints []Checkpoint }

// Waited answers Wait.
type Waited struct{}

// Drained says that everything that --until-end asks for was handed to the map tasks: make the final epoch and exit. A failure
// recovers as always, and the event comes again.
type Drained struct{}

// StopRequested asks for the final checkpoint and exit code 0.
type StopRequested struct{}

// StopDeadline says that the time for a clean stop is over.
type StopDeadline struct{}

func (Started) event()         {}
func (Looked) event()          {}
func (Settled) event()         {}
func (StatusStored) event()    {}
func (Fenced) event()          {}
func (LedgerRead) event()      {}
func (Resolved) event()        {}
func (Dropped) event()         {}
func (Opened) event()          {}
func (BarrierDue) event()      {}
func (Aligned) event()         {}
func (Flushed) event()         {}
func (Appended) event()        {}
func (Persisted) event()       {}
func (Ended) event()           {}
func (BarrierTimedOut) event() {}
func (LookDue) event()         {}
func (Peeked) event()          {}
func (Failed) event()          {}
func (Halted) event()          {}
func (Waited) event()          {}
func (Drained) event()         {}
func (StopRequested) event()   {}
func (StopDeadline) event()    {}
