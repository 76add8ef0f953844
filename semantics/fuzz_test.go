package semantics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// FuzzMachine gives a machine events in any order, answers that fit nothing among them: no panic; an illegal event is an
// error that names event and state, changes nothing and asks for nothing; no step asks for more than a few actions; after
// the exit nothing is asked for any more.
func FuzzMachine(f *testing.F) {
	f.Add(uint8(0), []byte{0, 1, 4, 5, 6, 11, 13, 8, 17, 9, 10, 8, 11, 12, 13})
	f.Add(uint8(3), []byte{0, 1, 2, 4, 4, 5, 6, 11, 13, 7, 8, 17, 9, 10, 23, 15, 16, 1})
	f.Add(uint8(255), []byte{0x40, 1, 2, 3, 4, 0x24, 5, 6, 7, 8, 20, 9, 10, 12, 13, 21, 22})
	f.Fuzz(func(t *testing.T, bits uint8, program []byte) {
		m := New(fuzzConfig(bits))
		w := &fuzzWorld{last: map[string]Action{}}
		for _, b := range program[:min(len(program), 200)] {
			e := w.event(b)
			before, state := fmachine(m), m.State()
			err := m.Step(e)
			out := m.Ready()
			switch {
			case err != nil && (!strings.Contains(err.Error(), fmt.Sprintf("%T", e)) || !strings.Contains(err.Error(), state.String())):
				t.Fatalf("%T in state %s: the error names not both: %v", e, state, err)
			case err != nil && (len(out) > 0 || fmachine(m) != before):
				t.Fatalf("%T is illegal in state %s, and does something: %v\n%s\n%s", e, state, out, before, fmachine(m))
			case len(out) > 8:
				t.Fatalf("%T in state %s: %d actions", e, state, len(out))
			case state == StateExited && len(out) > 0:
				t.Fatalf("%T after the exit: %v", e, out)
			}
			for _, a := range out {
				w.asked(a)
			}
			_ = m.Progress()
		}
	})
}

func fuzzConfig(bits uint8) Config {
	return Config{
		Bridge: "b", Incarnation: "A", Semantic: Semantic(bits%3) + 1, IDs: [2]string{"i0", "i1"}, Ledger: bits&4 == 0, Stateful: bits&8 != 0,
		OnTimeoutFail: bits&16 != 0, Adopt: bits&32 != 0, AdoptEpoch: Epoch(bits >> 7), TolerableFailures: int(bits >> 6 & 1), RestartAttempts: int(bits >> 5 & 3),
	}
}

// fuzzWorld remembers what was asked for last, so that the fuzzer can give answers that fit.
type fuzzWorld struct {
	last   map[string]Action
	ledger LedgerEnd
	store  []Checkpoint
	pid    int64
}

func (w *fuzzWorld) asked(a Action) {
	w.last[fmt.Sprintf("%T", a)[len("semantics."):]] = a
	switch a := a.(type) {
	case Append:
		w.ledger = LedgerEnd{Found: true, Record: a.Record, Offset: w.ledger.Offset + 1}
	case Persist:
		w.store = append(w.store, a.Checkpoint)
	}
}

// event: the low five bits choose the event, the rest how well it fits.
func (w *fuzzWorld) event(b byte) Event {
	odd := Epoch(b >> 5)
	barrier, _ := w.last["Barrier"].(Barrier)
	flush, _ := w.last["Flush"].(Flush)
	persist, _ := w.last["Persist"].(Persist)
	open, _ := w.last["Open"].(Open)
	fence, _ := w.last["Fence"].(Fence)
	end, _ := w.last["End"].(End)
	appended, _ := w.last["Append"].(Append)
	status, _ := w.last["StoreStatus"].(StoreStatus)
	w.pid++
	tx := Transaction{ID: fence.ID, ProducerID: w.pid, ProducerEpoch: int16(odd), EndTxnVersion: 5}
	next := end.Tx
	next.ProducerEpoch++
	switch b & 31 {
	case 0:
		return Started{w.store}
	case 1:
		return Looked{w.ledger}
	case 2:
		return Settled{Outcome: Outcome(odd), Next: next}
	case 3:
		return StatusStored{status.Epoch + odd}
	case 4:
		return Fenced{Slot: fence.Slot + int(odd)&1, Tx: tx}
	case 5:
		return LedgerRead{w.ledger}
	case 6:
		return Resolved{at(int64(odd))}
	case 7:
		return Dropped{}
	case 8:
		return Opened{open.Tx}
	case 9:
		return Aligned{Epoch: barrier.Epoch + odd, Positions: at(int64(odd) + 1)}
	case 10:
		return Flushed{Epoch: flush.Epoch + odd&6, Sent: b&32 != 0}
	case 11:
		return Appended{Tx: appended.Tx, Offset: w.ledger.Offset}
	case 12:
		return Persisted{persist.Checkpoint.Epoch + odd}
	case 13:
		return Ended{Tx: end.Tx, Outcome: OutcomeCommitted, Next: next}
	case 14:
		return Ended{Tx: end.Tx, Outcome: Outcome(odd), Next: next}
	case 15:
		return Halted{w.store}
	case 16:
		return Waited{}
	case 17:
		return BarrierDue{}
	case 18:
		return BarrierTimedOut{barrier.Epoch + odd}
	case 19:
		return LookDue{}
	case 20:
		return Peeked{LedgerEnd{Found: true, Record: LedgerRecord{Incarnation: "B", Kind: LedgerClaim}, Offset: w.ledger.Offset + int64(odd)}}
	case 21:
		return StopRequested{}
	case 22:
		return StopDeadline{}
	case 23:
		return Drained{}
	case 24:
		w.store = nil
		return Looked{}
	case 25:
		w.ledger = LedgerEnd{Offset: -1}
		return LedgerRead{w.ledger}
	default:
		return Failed{fuzzErrors()[int(b)%len(fuzzErrors())]}
	}
}

func fuzzErrors() []error {
	return []error{
		errors.New("plain"), Refuse("x", "refused"), Misconfigured("x", "wrong"), &Error{Class: Retry, Op: "x", Err: errors.New("again")},
		&Error{Class: Unknown, Op: "x", Err: errors.New("who knows")}, &Error{Class: Fatal, Exit: ExitLost, Op: "x", Err: errors.New("lost")},
	}
}
