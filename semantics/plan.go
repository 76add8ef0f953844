package semantics

import (
	"errors"
	"fmt"
)

// View is what somebody who changes nothing can see before a start.
type View struct {
	Ledger LedgerEnd // as Look would find it
	// Settled is what EndTxn(commit) would be answered for the newest checkpoint's transaction; OutcomeAmbiguous where the
	// coordinator has moved on.
	Settled Outcome
	// Pending says that the transaction is not ended yet, so that its ledger record shows itself with the commit.
	Pending bool
}

// Witness is what the coordinator tells of a transactional id without being changed (DescribeTransactions). The zero value
// is an id that it does not know.
type Witness struct {
	State         string // Kafka's own word; "" when the id is not known
	ProducerID    int64
	ProducerEpoch int16
}

// Settles is what EndTxn(commit) would be answered for tx in this state, by the answers measured on real brokers, and
// whether tx is not ended yet. It is asked of the state and not of the broker, because asking is committing. A producer id
// that rotated inside EndTxn cannot be told from a foreign one here: ambiguous, and the ledger decides.
func (w Witness) Settles(tx Transaction) (o Outcome, pending bool) {
	at := w.ProducerID == tx.ProducerID && w.ProducerEpoch == tx.ProducerEpoch
	after := w.ProducerID == tx.ProducerID && w.ProducerEpoch == tx.ProducerEpoch+1 && tx.EndTxnVersion >= 5
	switch {
	case w.State == "Ongoing" && at:
		return OutcomeCommitted, true
	case w.State == "PrepareCommit" && (at || after): // version 5 has its new epoch already
		return OutcomeCommitted, true
	case w.State == "CompleteCommit" && (after || at && tx.EndTxnVersion < 5):
		return OutcomeCommitted, false
	case (w.State == "PrepareAbort" || w.State == "CompleteAbort") && (at || after), // INVALID_TXN_STATE
		w.State == "Empty" && at, w.State == "CompleteCommit" && at:
		return OutcomeAborted, false
	default:
		return OutcomeAmbiguous, false
	}
}

// Plan is what a start would find and do, up to the point at which it would claim.
type Plan struct {
	Settles   Transaction // EndTxn(commit) is sent for it first; zero: nothing is prepared
	Recovery  Recovery    // as it would be announced; zero when it would refuse
	Positions Positions   // where reading would go on, before the sources are asked
	Base      Epoch       // the last decided epoch then; a claim over epochs of another semantic can differ from Recovery.Epoch
	Exit      ExitCode    // with Err
	Err       error       // why the start would refuse; nil: it would go on
}

// planSteps is more than any recovery takes up to the claim.
const planSteps = 16

// Foresee asks a machine of its own what a start of cfg would do with these checkpoints, so that a plan and a start cannot
// disagree about what they see. It is a pure function: whatever the machine asks for is answered from v.
func Foresee(cfg Config, checkpoints []Checkpoint, v View) Plan {
	m := New(cfg)
	var p Plan
	end := v.Ledger
	var e Event = Started{Checkpoints: checkpoints}
	for range planSteps {
		if err := m.Step(e); err != nil {
			return p.refuse(ExitRefused, err)
		}
		for _, a := range m.Ready() {
			switch a := a.(type) {
			case Look:
				e = Looked{End: v.Ledger}
			case Settle:
				p.Settles = a.Tx
				if v.Settled == OutcomeCommitted && v.Pending && a.Bounded {
					end = m.committed(v.Ledger)
				}
				e = Settled{Outcome: v.Settled, Next: a.Tx}
			case StoreStatus:
				e = StatusStored{Epoch: a.Epoch}
			case Fence:
				e = Fenced{Slot: a.Slot, Tx: Transaction{ID: a.ID}}
			case ReadLedger:
				e = LedgerRead{End: end}
			case Resolve:
				p.Recovery, p.Positions, p.Base = m.base.recovery, a.Known, m.base.epoch
				return p
			case Exit:
				return p.refuse(a.Code, a.Err)
			default:
				return p.refuse(ExitRefused, fmt.Errorf("a start would ask for %T before it reads", a))
			}
		}
	}
	return p.refuse(ExitRefused, errors.New("a start would come to no verdict"))
}

func (p Plan) refuse(code ExitCode, err error) Plan {
	p.Exit, p.Err = code, err
	return p
}

// committed is the ledger once the newest checkpoint's transaction is committed: its record holds what the checkpoint does.
func (m *Machine) committed(before LedgerEnd) LedgerEnd {
	n := m.newest()
	return LedgerEnd{TopicID: before.TopicID, Found: true, Offset: before.Offset + 1, Record: LedgerRecord{
		Bridge: m.cfg.Bridge, Kind: LedgerEpoch, Incarnation: n.Incarnation, TransactionalIDs: m.cfg.IDs[:],
		Epoch: n.Epoch, Transaction: n.Transaction, Positions: n.Positions,
	}}
}
