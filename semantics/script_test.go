package semantics

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the scripts print into testdata instead of comparing")

// TestScripts runs testdata/*.txt. A script is a list of blocks: lines of input, a line "----", the expected output up to an
// empty line. The output repeats each event with its whole content, then every action with every field, then the
// machine's state. Expected outputs were read against design.md, not only recorded: see the comments in the scripts.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runScript(t, f) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t}
	var out strings.Builder
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" || strings.HasPrefix(lines[i], "#") {
			out.WriteString(lines[i] + "\n")
			continue
		}
		var got strings.Builder
		first := i
		for ; i < len(lines) && lines[i] != "----"; i++ {
			out.WriteString(lines[i] + "\n")
			got.WriteString(s.run(lines[i]))
		}
		i++
		var want strings.Builder
		for ; i < len(lines) && lines[i] != ""; i++ {
			want.WriteString(lines[i] + "\n")
		}
		out.WriteString("----\n" + got.String() + "\n")
		if !*update && got.String() != want.String() {
			t.Errorf("%s:%d: got\n%s\nwant\n%s", file, first+1, got.String(), want.String())
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// script is the world around one machine: a store, a ledger and a coordinator that do what the script says.
type script struct {
	t       *testing.T
	cfg     Config
	m       *Machine
	store   map[Epoch]Checkpoint
	topic   byte
	ledger  []LedgerEnd // committed records
	offset  int64
	pending map[Transaction]LedgerEnd
	version int16
	epochs  [2]int16
	last    map[string]Action // last action of each kind
}

func (s *script) checkpoints() []Checkpoint {
	var out []Checkpoint
	for _, e := range slices.Sorted(maps.Keys(s.store)) {
		out = append(out, s.store[e])
	}
	return out
}

func (s *script) end() LedgerEnd {
	if len(s.ledger) == 0 {
		return LedgerEnd{TopicID: TopicID{s.topic}, Offset: -1}
	}
	return s.ledger[len(s.ledger)-1]
}

func (s *script) num(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		s.t.Fatalf("not a number: %q", v)
	}
	return n
}

// run executes one line of input and returns its output.
func (s *script) run(line string) string {
	f := strings.Fields(line)
	switch f[0] {
	case "machine", "restart":
		return s.newMachine(f)
	case "store", "ledger", "broker":
		return s.outside(f)
	case "begin", "epoch", "prepare":
		return s.quietly(f)
	}
	e, shown := s.event(f)
	s.probe()
	err := s.m.Step(e)
	out := "> " + shown + "\n"
	if err != nil {
		return out + "  ERROR " + err.Error() + "\n"
	}
	for _, a := range s.m.Ready() {
		s.last[strings.TrimPrefix(fmt.Sprintf("%T", a), "semantics.")] = a
		if ap, ok := a.(Append); ok {
			s.last["Append"] = ap
		}
		out += "  " + faction(a) + "\n"
	}
	return out + "  " + fmachine(s.m) + "\n"
}

// quietly runs what another script shows in full, with every answer good: a start, a whole epoch, or one up to its durable
// checkpoint. Only the machine's state is printed.
func (s *script) quietly(f []string) string {
	line, positions := "due", strings.Join(f[1:], " ")
	if f[0] == "begin" {
		line = "started"
	}
	queue := []string{line}
	for ; len(queue) > 0; queue = queue[1:] {
		e, _ := s.event(strings.Fields(queue[0]))
		if err := s.m.Step(e); err != nil {
			return "ERROR " + err.Error() + "\n"
		}
		for _, a := range s.m.Ready() {
			s.last[strings.TrimPrefix(fmt.Sprintf("%T", a), "semantics.")] = a
			if l := goodAnswer(a, positions); l != "" && (f[0] != "prepare" || l != "ended ok" && l != "opened") {
				queue = append(queue, l)
			}
		}
	}
	return "  " + fmachine(s.m) + "\n"
}

func goodAnswer(a Action, positions string) string {
	switch a.(type) {
	case Look:
		return "looked"
	case Fence:
		return "fenced"
	case ReadLedger:
		return "read"
	case Resolve:
		return "resolved " + positions
	case Append:
		return "appended"
	case End:
		return "ended ok"
	case Open:
		return "opened"
	case Barrier:
		return "aligned " + positions
	case Flush:
		return "flushed"
	case Persist:
		return "persisted"
	case StoreStatus:
		return "stored"
	}
	return ""
}

// probe gives every event to a copy of the machine: whatever does not fit is an error that names the event and the state,
// asks for nothing, and never a panic.
func (s *script) probe() {
	for _, e := range []Event{Started{}, Looked{}, Settled{}, StatusStored{}, Fenced{Slot: 1}, LedgerRead{}, Resolved{}, Dropped{}, Opened{}, Aligned{}, Flushed{},
		Appended{}, Persisted{}, Ended{}, Peeked{}, Halted{}, Waited{}, BarrierDue{}, BarrierTimedOut{}, LookDue{}, Drained{}, StopRequested{}, StopDeadline{},
		Failed{errors.New("plain")}} {
		m := s.m.Clone()
		err := m.Step(e)
		if err == nil {
			continue
		}
		if name := fmt.Sprintf("%T", e); !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), s.m.State().String()) {
			s.t.Errorf("%s in state %s: the error names not both: %v", name, s.m.State(), err)
		}
		if got := m.Ready(); len(got) > 0 || fmachine(m) != fmachine(s.m) {
			s.t.Errorf("%T is illegal in state %s, and does something: %v %s", e, s.m.State(), got, fmachine(m))
		}
	}
}

// newMachine: "machine" is the first process of the script, "restart" a later one with the same store and ledger.
func (s *script) newMachine(f []string) string {
	if f[0] == "machine" {
		*s = script{t: s.t, store: map[Epoch]Checkpoint{}, topic: 1, version: 5, pending: map[Transaction]LedgerEnd{}, last: map[string]Action{}}
		s.cfg = Config{Bridge: "b", Incarnation: "A", Semantic: ExactlyOnce, IDs: [2]string{"i0", "i1"}, Ledger: true}
	} else {
		s.cfg.Incarnation = string(s.cfg.Incarnation[0] + 1)
		s.cfg.Adopt, s.cfg.AdoptEpoch, s.cfg.Reset = false, 0, false
	}
	for _, kv := range f[1:] {
		k, v, _ := strings.Cut(kv, "=")
		switch k {
		case "semantic":
			sem, err := ParseSemantic(v)
			if err != nil {
				s.t.Fatal(err)
			}
			s.cfg.Semantic = sem
		case "ledger":
			s.cfg.Ledger = v == "true"
		case "reset":
			s.cfg.Reset = v == "true"
		case "stateful":
			s.cfg.Stateful = v == "true"
		case "on_timeout":
			s.cfg.OnTimeoutFail = v == "fail"
		case "adopt":
			s.cfg.Adopt = true
			if v != "" {
				s.cfg.AdoptEpoch = Epoch(s.num(v))
			}
		case "tolerable":
			s.cfg.TolerableFailures = int(s.num(v))
		case "attempts":
			s.cfg.RestartAttempts = int(s.num(v))
		case "endtxn":
			s.version = int16(s.num(v))
		case "inc":
			s.cfg.Incarnation = v
		case "id":
			s.cfg.IDs = [2]string{v + "0", v + "1"}
		default:
			s.t.Fatalf("unknown setting %q", k)
		}
	}
	s.m = New(s.cfg)
	return fmt.Sprintf("incarnation %s, %s\n", s.cfg.Incarnation, s.cfg.Semantic)
}

// outside is what happens beside the machine: the store is lost, the broker commits what was asked for, a rival writes.
func (s *script) outside(f []string) string {
	switch strings.Join(f[:2], " ") {
	case "store clear":
		clear(s.store)
	case "store save": // a persist whose answer was lost
		c := s.last["Persist"].(Persist).Checkpoint
		s.store[c.Epoch] = c
	case "store undo": // a copy from before the status was written
		c := s.store[Epoch(s.num(f[2]))]
		c.Status = Proposed
		s.store[c.Epoch] = c
	case "store forget":
		delete(s.store, Epoch(s.num(f[2])))
	case "store rename": // as a directory of another history would have it: same number, other transaction
		c := s.store[Epoch(s.num(f[2]))]
		c.Transaction.ProducerID += 90
		s.store[c.Epoch] = c
	case "broker commits": // the commit took effect, nobody was told
		s.commit(s.last["Persist"].(Persist).Checkpoint.Transaction)
	case "ledger lost":
		s.ledger = nil
	case "ledger recreated":
		s.ledger, s.offset = nil, 0
		s.topic++
		clear(s.pending) // what is open stands in the old topic
	case "ledger truncate":
		s.ledger = s.ledger[:s.num(f[2])]
	case "ledger foreign": // another incarnation claims
		e := s.end()
		e.Found, e.Record.Bridge, e.Record.TransactionalIDs = true, s.cfg.Bridge, s.cfg.IDs[:]
		e.Record.Kind, e.Record.Incarnation = LedgerClaim, f[2]
		e.Offset, s.offset = s.offset, s.offset+2
		s.ledger = append(s.ledger, e)
	case "ledger show":
		out := ""
		for _, e := range s.ledger {
			out += fend(e) + "\n"
		}
		return out
	case "store show":
		out := ""
		for _, c := range s.checkpoints() {
			out += fckpt(c) + "\n"
		}
		return out + fmt.Sprintf("%d checkpoints\n", len(s.store))
	default:
		s.t.Fatalf("unknown line %q", strings.Join(f, " "))
	}
	return strings.Join(f, " ") + "\n"
}

func outcome(t *testing.T, w string) Outcome {
	switch w {
	case "ok":
		return OutcomeCommitted
	case "aborted":
		return OutcomeAborted
	case "ambiguous":
		return OutcomeAmbiguous
	case "nothing":
		return 0
	}
	t.Fatalf("no outcome %q", w)
	return 0
}

func (s *script) next(tx Transaction, o Outcome) Transaction {
	if o != OutcomeCommitted {
		return Transaction{}
	}
	if tx.EndTxnVersion >= 5 {
		tx.ProducerEpoch++
		s.bump(tx)
	}
	return tx
}

// commit makes tx's ledger record visible, once.
func (s *script) commit(tx Transaction) {
	if e, ok := s.pending[tx]; ok {
		s.ledger = append(s.ledger, e)
		delete(s.pending, tx)
	}
}

func (s *script) bump(tx Transaction) {
	for i, id := range s.cfg.IDs {
		if id == tx.ID {
			s.epochs[i] = max(s.epochs[i], tx.ProducerEpoch)
		}
	}
}

// event builds the event of a line from the actions before it, and a text that shows all of it.
func (s *script) event(f []string) (Event, string) {
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	switch f[0] {
	case "started":
		return Started{s.checkpoints()}, "started " + s.held()
	case "halted":
		return Halted{s.checkpoints()}, "halted " + s.held()
	case "looked":
		return Looked{s.end()}, "looked " + fend(s.end())
	case "read":
		return LedgerRead{s.end()}, "read " + fend(s.end())
	case "peeked":
		return Peeked{s.end()}, "peeked " + fend(s.end())
	case "settled":
		o := outcome(s.t, arg(1))
		tx := s.last["Settle"].(Settle).Tx
		n := s.next(tx, o)
		if o == OutcomeCommitted {
			s.commit(tx)
		}
		return Settled{o, n}, fmt.Sprintf("settled %s next=%s", arg(1), ftx(n))
	case "stored":
		a := s.last["StoreStatus"].(StoreStatus)
		c := s.store[a.Epoch]
		c.Status = a.Status
		s.store[a.Epoch] = c
		return StatusStored{a.Epoch}, fmt.Sprintf("stored epoch=%d", a.Epoch)
	case "fenced":
		return s.fenced()
	case "resolved":
		return Resolved{at(s.num(arg(1)))}, "resolved " + fpos(at(s.num(arg(1))))
	case "dropped":
		for _, e := range s.last["Drop"].(Drop).Epochs {
			delete(s.store, e)
		}
		return Dropped{}, "dropped"
	case "opened":
		tx := s.last["Open"].(Open).Tx
		if s.last["Open"].(Open).Refresh {
			tx.ProducerEpoch++
			s.bump(tx)
		}
		return Opened{tx}, "opened " + ftx(tx)
	case "appended":
		a := s.last["Append"].(Append)
		e := LedgerEnd{TopicID: TopicID{s.topic}, Found: true, Record: a.Record, Offset: s.offset}
		s.pending[a.Tx] = e
		s.offset += 2 // the record and its marker
		return Appended{a.Tx, e.Offset}, fmt.Sprintf("appended %s @%d", ftx(a.Tx), e.Offset)
	case "ended":
		tx, o := s.last["End"].(End).Tx, outcome(s.t, arg(1))
		if o == OutcomeCommitted {
			s.commit(tx)
		}
		n := s.next(tx, o)
		return Ended{tx, o, n}, fmt.Sprintf("ended %s %s next=%s", ftx(tx), arg(1), ftx(n))
	case "persisted":
		c := s.last["Persist"].(Persist).Checkpoint
		s.store[c.Epoch] = c
		return Persisted{c.Epoch}, fmt.Sprintf("persisted epoch=%d", c.Epoch)
	case "aligned":
		b := s.last["Barrier"].(Barrier)
		e := Aligned{Epoch: b.Epoch, Positions: at(s.num(arg(1)))}
		if arg(2) != "" {
			e.State = map[string][]byte{"k": []byte(arg(2))}
		}
		return e, fmt.Sprintf("aligned epoch=%d at %s%s", e.Epoch, fpos(e.Positions), fstate(e.State))
	case "flushed":
		e := Flushed{s.last["Flush"].(Flush).Epoch, arg(1) != "nothing"}
		return e, fmt.Sprintf("flushed epoch=%d sent=%t", e.Epoch, e.Sent)
	}
	return s.plain(f, arg)
}

// plain are the events that need nothing from the actions before them.
func (s *script) plain(f []string, arg func(int) string) (Event, string) {
	shown := strings.Join(f, " ")
	switch f[0] {
	case "due":
		return BarrierDue{}, shown
	case "late":
		return BarrierTimedOut{Epoch(s.num(arg(1)))}, shown
	case "look-due":
		return LookDue{}, shown
	case "waited":
		return Waited{}, shown
	case "drained":
		return Drained{}, shown
	case "stop":
		return StopRequested{}, shown
	case "deadline":
		return StopDeadline{}, shown
	case "failed":
		e := &Error{Class: Unknown, Op: "test", Err: errors.New("no answer")}
		switch arg(1) {
		case "unknown":
		case "fenced":
			e.Fenced, e.Err = true, errors.New("PRODUCER_FENCED")
		case "fatal":
			e.Class, e.Exit, e.Err = Fatal, ExitCode(s.num(arg(2))), errors.New("disk full")
		default:
			s.t.Fatalf("failed what: %q", shown)
		}
		return Failed{e}, shown
	}
	s.t.Fatalf("unknown line %q", shown)
	return nil, ""
}

func (s *script) fenced() (Event, string) {
	f := s.last["Fence"].(Fence)
	s.epochs[f.Slot]++
	if s.m.hasBase && f.Known.IsZero() {
		s.epochs[f.Slot]++ // what was open was aborted first
	}
	tx := Transaction{ID: f.ID, ProducerID: int64(70 + f.Slot), ProducerEpoch: s.epochs[f.Slot], EndTxnVersion: s.version}
	return Fenced{f.Slot, tx}, fmt.Sprintf("fenced slot=%d %s", f.Slot, ftx(tx))
}

func (s *script) held() string {
	out := "nothing"
	for i, c := range s.checkpoints() {
		if i == 0 {
			out = ""
		}
		out += fckpt(c)
	}
	return out
}
