package semantics

import (
	"fmt"
	"strings"
	"testing"
)

// TestForeseeAgreesWithStart takes every state in which a process is down and no other is up, foresees what its start would
// do from what can be seen from outside, then lets it start without any fault: both must come to the same verdict, reason
// and positions, or refuse with the same words.
func TestForeseeAgreesWithStart(t *testing.T) {
	for _, c := range explorations(false) {
		switch c.Name {
		case "one process, TV2", "one process, TV1, crashes and timeouts", "one process, backup restored", "one process, expiry",
			"map state, backup restored or directory lost", "ledger=false, TV2", "ledger=false, TV1",
			"EXACTLY_ONCE to AT_LEAST_ONCE and back, map state", "ledger=false to ledger", "a reset", "a reset with map state":
		default:
			continue
		}
		t.Run(strings.ReplaceAll(c.Name, " ", "-"), func(t *testing.T) {
			c.Max, c.NoLive = 8_000, true
			if raceEnabled || testing.Short() {
				c.Max = 2_000
			}
			kinds := map[string]int{}
			c.Visit = func(x *explorer, w *world) {
				if w.proc[0].state != procDown || w.proc[1].state == procUp || t.Failed() {
					return
				}
				// The plan waits for markers, too: until they are written the ledger hides what is committed.
				w = w.clone()
				w.settleMarkers(x)
				planned, settled := x.foreseen(w)
				started := x.started(w)
				if planned != started {
					t.Errorf("foreseen\n  %s\nstarted\n  %s\ndirectory %s\nledger %s\ncoordinators %+v", planned, started, fdir(w.proc[0].dir), fend(w.ledgerEnd()), w.co)
				}
				kinds[settled+" "+strings.SplitN(planned, " ", 2)[0]]++
			}
			(&explorer{cfg: &c, deep: true}).run()
			t.Log(kinds)
			if len(kinds) < 2 && c.Max >= 8_000 { // a short run does not come far enough
				t.Errorf("only %v was seen", kinds)
			}
		})
	}
}

func fdir(dir []Checkpoint) string {
	var out []string
	for _, c := range dir {
		out = append(out, fckpt(c))
	}
	return strings.Join(out, "; ")
}

func (x *explorer) planConfig(w *world) Config {
	cfg := x.cfg.Variants[w.proc[0].variant]
	cfg.Bridge, cfg.Incarnation, cfg.IDs = "b", "plan", worldIDs
	return cfg
}

// foreseen is the plan, from what a stranger sees: the ledger's end and the coordinators' states.
func (x *explorer) foreseen(w *world) (plan, settled string) {
	v := View{Ledger: w.ledgerEnd()}
	dir := w.proc[0].dir
	if len(dir) > 0 {
		tx := dir[len(dir)-1].Transaction
		co := w.co[slotOf(tx)]
		names := map[coordState]string{coEmpty: "Empty", coOngoing: "Ongoing", coPrepareCommit: "PrepareCommit", coPrepareAbort: "PrepareAbort",
			coCompleteCommit: "CompleteCommit", coCompleteAbort: "CompleteAbort"}
		v.Settled, v.Pending = Witness{State: names[co.state], ProducerID: co.pid, ProducerEpoch: co.epoch}.Settles(tx)
	}
	p := Foresee(x.planConfig(w), dir, v)
	if p.Err != nil {
		return fmt.Sprintf("exit %d %v", p.Exit, p.Err), "refused"
	}
	settled = "nothing-to-settle"
	if !p.Settles.IsZero() {
		settled = "settled-" + v.Settled.String()
	}
	return fmt.Sprintf("%s %d %q from %s", p.Recovery.Outcome, p.Recovery.Epoch, p.Recovery.Reason, fpos(p.Positions)), settled
}

// started lets the process start in a copy of the world in which every request arrives and markers are written at once.
func (x *explorer) started(w *world) string {
	n := w.clone()
	cfg := x.planConfig(w)
	m := New(cfg)
	var e Event = Started{n.proc[0].dir}
	p := &process{state: procUp, m: m, dir: n.proc[0].dir, variant: n.proc[0].variant}
	for range 100 {
		if err := m.Step(e); err != nil {
			return err.Error()
		}
		a := m.Ready()[0]
		n.settleMarkers(x)
		switch a := a.(type) {
		case Resolve:
			return fmt.Sprintf("%s %d %q from %s", m.base.recovery.Outcome, m.base.recovery.Epoch, m.base.recovery.Reason, fpos(a.Known))
		case Exit:
			return fmt.Sprintf("exit %d %v", a.Code, a.Err)
		case Look:
			e = Looked{w.ledgerEnd()} // before anything was touched
		case ReadLedger:
			e = LedgerRead{n.ledgerEnd()}
		case StoreStatus:
			p.dir = decide(p.dir, a)
			e = StatusStored{a.Epoch}
		default:
			r := x.requestOf(p, 0, a)
			ans := n.apply(*r, x)
			for ; ans == ansCT; ans = n.apply(*r, x) {
				n.settleMarkers(x)
			}
			e = x.answerTo(n, p, a, *r, ans)
		}
	}
	return "no end"
}

func (w *world) settleMarkers(x *explorer) {
	for s := range w.co {
		switch w.co[s].state {
		case coPrepareCommit:
			w.co[s].state = coCompleteCommit
			w.markers(int8(s), true, x)
		case coPrepareAbort:
			w.co[s].state = coCompleteAbort
			w.markers(int8(s), false, x)
		}
	}
}
