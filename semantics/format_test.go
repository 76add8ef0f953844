package semantics

import (
	"fmt"
	"strings"
)

// The scripts have one source topic with one partition, so positions print as a single offset.
var scriptTopic = SourceTopic{Source: "s", Topic: "t"}

func at(offset int64) Positions {
	return Positions{scriptTopic: {ID: TopicID{1}, Partitions: map[int32]Position{0: {Offset: offset, LeaderEpoch: -1}}}}
}

func offsetOf(p Positions) int64 {
	pos, ok := p.Get(scriptTopic, 0)
	if !ok {
		return 0
	}
	return pos.Offset
}

func fpos(p Positions) string {
	if len(p) == 0 {
		return "{}"
	}
	var parts []string
	for _, t := range p.Topics() {
		for _, n := range p[t].Numbers() {
			pos := p[t].Partitions[n]
			name := ""
			if t != scriptTopic || n != 0 {
				name = fmt.Sprintf("%s/%s/%d=", t.Source, t.Topic, n)
			}
			parts = append(parts, fmt.Sprintf("%s%d", name, pos.Offset))
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func ftx(t Transaction) string {
	if t.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s/%d.%d(v%d)", t.ID, t.ProducerID, t.ProducerEpoch, t.EndTxnVersion)
}

func fstate(s map[string][]byte) string {
	if len(s) == 0 {
		return ""
	}
	return fmt.Sprintf(" state=%s", s["k"])
}

func fckpt(c Checkpoint) string {
	out := fmt.Sprintf("[%d %s %s by %s at %s%s tx=%s follows=%s", c.Epoch, c.Semantic, c.Status, c.Incarnation, fpos(c.Positions), fstate(c.State),
		ftx(c.Transaction), ftx(c.Follows))
	if c.Empty {
		out += " empty"
	}
	if c.LedgerTopicID != (TopicID{}) {
		out += fmt.Sprintf(" ledger=L%d", c.LedgerTopicID[0])
	}
	return out + "]"
}

func frecord(r LedgerRecord) string {
	return fmt.Sprintf("(%s %s by %s ids=%v epoch=%d tx=%s at %s)", r.Bridge, r.Kind, r.Incarnation, r.TransactionalIDs, r.Epoch, ftx(r.Transaction), fpos(r.Positions))
}

func fend(e LedgerEnd) string {
	if !e.Found {
		return fmt.Sprintf("L%d nothing", e.TopicID[0])
	}
	return fmt.Sprintf("L%d %s@%d", e.TopicID[0], frecord(e.Record), e.Offset)
}

func ferr(err error) string {
	if err == nil {
		return "nil"
	}
	return fmt.Sprintf("%s: %v", ClassOf(err), err)
}

// faction prints every field: a field that a script does not show is a field that no script checks.
func faction(a Action) string {
	switch a := a.(type) {
	case Look, ReadLedger, Peek, Halt:
		return strings.TrimPrefix(fmt.Sprintf("%T", a), "semantics.")
	case Settle:
		return fmt.Sprintf("Settle tx=%s timeout=%d bounded=%t", ftx(a.Tx), a.Timeout, a.Bounded)
	case StoreStatus:
		return fmt.Sprintf("StoreStatus epoch=%d %s", a.Epoch, a.Status)
	case Fence:
		return fmt.Sprintf("Fence slot=%d id=%s known=%s", a.Slot, a.ID, ftx(a.Known))
	case Resolve:
		return fmt.Sprintf("Resolve known=%s", fpos(a.Known))
	case Append:
		return fmt.Sprintf("Append tx=%s %s", ftx(a.Tx), frecord(a.Record))
	case End:
		return fmt.Sprintf("End tx=%s commit=%t", ftx(a.Tx), a.Commit)
	case Drop:
		return fmt.Sprintf("Drop %v", a.Epochs)
	case Open:
		return fmt.Sprintf("Open epoch=%d tx=%s refresh=%t", a.Epoch, ftx(a.Tx), a.Refresh)
	case Start:
		return fmt.Sprintf("Start epoch=%d at %s%s", a.Epoch, fpos(a.Positions), fstate(a.State))
	case Flow:
		return fmt.Sprintf("Flow epoch=%d", a.Epoch)
	case Barrier:
		return fmt.Sprintf("Barrier epoch=%d", a.Epoch)
	case ExtendBarrier:
		return fmt.Sprintf("ExtendBarrier epoch=%d", a.Epoch)
	case Flush:
		return fmt.Sprintf("Flush epoch=%d", a.Epoch)
	case Persist:
		return "Persist " + fckpt(a.Checkpoint)
	case Publish:
		return fmt.Sprintf("Publish epoch=%d at %s", a.Epoch, fpos(a.Positions))
	case Wait:
		return fmt.Sprintf("Wait %s attempt=%d", [...]string{"?", "restart", "unclaimed", "claimed"}[a.Cause], a.Attempt)
	case Announce:
		r := a.Recovery
		return fmt.Sprintf("Announce %s epoch=%d from=%s to=%s: %s", r.Outcome, r.Epoch, fpos(r.From), fpos(r.To), r.Reason)
	case Exit:
		return fmt.Sprintf("Exit %d %s", a.Code, ferr(a.Err))
	}
	return fmt.Sprintf("UNKNOWN ACTION %T", a)
}

// fmachine is the line below the actions: everything of the machine that a person would ask for.
func fmachine(m *Machine) string {
	p := m.Progress()
	out := "= " + m.State().String()
	if p.Epoch != 0 {
		phase := [...]string{"", "flowing", "aligning", "flushing", "appending", "switching", "closed"}[p.Phase]
		out += fmt.Sprintf(", open %d %s %s", p.Epoch, ftx(p.Open), phase)
		if m.open.final {
			out += " final"
		}
	}
	if p.Committing != 0 {
		out += fmt.Sprintf(", committing %d %s", p.Committing, ftx(p.Prepared))
	}
	out += fmt.Sprintf(", decided %d", p.Decided)
	if m.hasBase {
		out += fmt.Sprintf(", base @%d", m.ownedOffset)
	}
	if p.Blocked != "" {
		out += ", BLOCKED " + p.Blocked
	}
	return out
}
