package integration

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// caseECases are public cases of family E, the shape of the source log, as far as kfake shows them truly; the others
// are in case_e_kafka_test.go.
func caseECases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"CaseE4AbortedIsNotMoved":        caseE4Aborted,
		"CaseE4UncommittedIsWarnedAbout": caseE4Warned,
		"CaseE5RetentionOvertakes":       caseE5Overtaken,
		"CaseE5GroupOffsetsAreNoTruth":   caseE5Group,
		"CaseE8PartitionsAdded":          caseE8Grows,
	}
}

// caseE4Aborted: half of the source's transactions are aborted, the configuration does not mention isolation.
func caseE4Aborted(t *testing.T, suite *kfakeSuite) {
	for _, semantic := range []string{"EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"} {
		r := newKfakeRig(t, suite, semantic, 2)
		r.cfg.Sources[0].Attrs["fetch_max_bytes"] = "50MiB" // see kfakeUpstreamAborted
		p := r.plan(400)
		p.TransactionRecords, p.AbortEvery, p.Shape = 20, 2, traffic.Odd
		n := r.produce(p)
		if n.Aborted != n.Committed {
			t.Fatalf("%d aborted, %d committed", n.Aborted, n.Committed)
		}
		r.untilEnd()
		r.exactlyOnce(verdict{}, n.Committed)
	}
}

func caseE4Warned(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 1)
	r.cfg.Sources[0].Attrs["isolation_level"] = "read_uncommitted"
	r.says(r.untilEnd(), "[WARN]", "read_uncommitted", "source=src")
}

// caseE5Overtaken: while the bridge is frozen, retention takes what it had still to read. It stops and says what is
// lost; with on_gap = "skip" it goes on and counts.
func caseE5Overtaken(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	freeze := func(d *daemon.Daemon) {
		t.Helper()
		r.feed(100)()
		r.published(d)
		if err := d.Freeze(); err != nil {
			t.Fatal(err)
		}
		r.feed(2000)() // more than what a frozen process has in its socket
		r.deleteBefore(1, int64(r.fed)-10)
		if err := d.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	d := r.start("")
	freeze(d)
	log := r.exit(d, 3)
	r.says(log, "topic in partition 1", "to 2089", "on_gap")
	r.cfg.Sources[0].Attrs["on_gap"] = "skip"
	d = r.start("")
	r.published(d)
	if st := r.status(d); st.Gaps != 1 {
		t.Errorf("%d gaps, want 1", st.Gaps)
	}
	freeze(d)
	r.published(d)
	if st := r.status(d); st.Gaps != 2 {
		t.Errorf("%d gaps, want 2", st.Gaps)
	}
	lost := r.lostOffsets(d)
	r.says(r.terminate(d), "lost", "partition=1")
	seen := 0
	r.read(true, func(oracle.Record) error { seen++; return nil }, r.out)
	if lost <= 0 || int64(seen)+lost != int64(r.total) {
		t.Errorf("%d records arrived and %d were lost, of %d", seen, lost, r.total)
	}
}

// lostOffsets are the offsets in the gaps of /status.
func (r *kfakeRig) lostOffsets(d *daemon.Daemon) (n int64) {
	r.t.Helper()
	text, err := d.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	var doc struct {
		Bridges []struct {
			Sources []struct {
				Gaps []struct{ From, To int64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		r.t.Fatal(err)
	}
	for _, b := range doc.Bridges {
		for _, s := range b.Sources {
			for _, g := range s.Gaps {
				n += g.To - g.From
			}
		}
	}
	return n
}

// caseE5Group: the group's committed offsets are forgotten, or moved by an operator. The checkpoint and the ledger are
// the truth, also when one of them is gone.
func caseE5Group(t *testing.T, suite *kfakeSuite) {
	for _, semantic := range []string{"EXACTLY_ONCE", "AT_LEAST_ONCE"} {
		r := newKfakeRig(t, suite, semantic, 2)
		change := map[string]func(){
			"deleted": func() {
				if _, err := r.admin.DeleteGroup(r.ctx(), "g"); err != nil {
					t.Fatal(err)
				}
			},
			"back":    func() { r.resetGroup(0) },
			"forward": func() { r.resetGroup(int64(r.fed)) },
		}
		r.feed(300)()
		r.untilEnd()
		for _, what := range []string{"deleted", "back", "forward"} {
			r.feed(100)()
			change[what]()
			d := r.start("")
			r.until(d, what, func(context.Context) bool { return r.status(d).Maps.RecordsIn >= 200 })
			r.terminate(d)
		}
		if semantic == "EXACTLY_ONCE" { // the ledger alone
			r.feed(100)()
			r.resetGroup(0)
			if err := os.RemoveAll(r.state()); err != nil {
				t.Fatal(err)
			}
			r.untilEnd()
		}
		r.exactlyOnce(verdict{}, r.total)
	}
}

func (r *kfakeRig) resetGroup(offset int64) {
	r.t.Helper()
	offsets := kadm.Offsets{}
	for p := range r.parts {
		offsets.AddOffset("in", p, offset, -1)
	}
	if err := r.admin.CommitAllOffsets(r.ctx(), "g", offsets); err != nil {
		r.t.Fatal(err)
	}
}

// caseE8Grows: the source grows from 2 to 6 partitions, records go to the new ones at once, the bridge is killed as
// soon as a checkpoint has them, and then the sink grows too. Whatever start says, partitions that come at run time are
// read from their beginning.
func caseE8Grows(t *testing.T, suite *kfakeSuite) {
	for _, start := range []string{"earliest", "latest"} {
		r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
		r.cfg.Sources[0].Attrs["start"] = start
		d := r.start("")
		r.ready(d)
		n := r.produce(r.plan(100)).Committed
		r.published(d)
		if _, err := r.admin.UpdatePartitions(r.ctx(), 6, "in"); err != nil {
			t.Fatal(err)
		}
		p := r.plan(250)
		p.Partitions = []int32{2, 3, 4, 5}
		n += r.produce(p).Committed
		r.parts = 6
		r.until(d, "the new partitions are read", func(context.Context) bool { return r.status(d).Maps.RecordsIn > 200 })
		decided := r.status(d).Decided
		r.until(d, "a checkpoint has them", func(context.Context) bool { return r.status(d).Decided > decided })
		r.kill(d)
		r.diesFed(daemon.AfterPersist, 100) // and what was prepared for all six is committed
		d = r.start("")
		r.published(d)
		if _, err := r.admin.UpdatePartitions(r.ctx(), 8, r.out); err != nil {
			t.Fatal(err)
		}
		q := r.plan(100)
		q.First = 250
		q.Partitions = traffic.Range(6)
		n += r.produce(q).Committed + r.total
		r.published(d)
		r.terminate(d)
		r.exactlyOnce(verdict{}, n)
	}
}
