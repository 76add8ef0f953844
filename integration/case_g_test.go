package integration

import (
	"fmt"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
)

// caseGCases are public cases of family G, maps and delivery modes; G2 is in case_g_kafka_test.go.
func caseGCases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"CaseG1DropsNearlyAll": caseG1Drops,
		"CaseG1OneToMany":      caseG1OneToMany,
	}
}

// caseG1Drops: a map lets nothing through, or one record in a thousand. Positions move all the same: lag 0 before the stop, and
// nothing is read again after it; after a kill no more than what came since the last checkpoint.
func caseG1Drops(t *testing.T, suite *kfakeSuite) {
	for _, semantic := range []string{"EXACTLY_ONCE", "AT_LEAST_ONCE"} {
		for _, kind := range []string{"drop", "thin"} {
			r := newKfakeRig(t, suite, semantic, 2)
			r.env = []string{"BRIDGE_TEST_MAP=" + kind}
			p := r.plan(20_000)
			p.Batches = []int{500}
			n := r.produce(p).Committed
			d := r.start("")
			r.published(d) // to the sources' ends
			r.terminate(d)
			nothingIsReadAgain := func() {
				t.Helper()
				d := r.start("")
				r.published(d)
				if st := r.status(d); st.Maps.RecordsIn != 0 {
					t.Errorf("%s, %s: %d records were read again", semantic, kind, st.Maps.RecordsIn)
				}
				r.kill(d)
			}
			nothingIsReadAgain()
			nothingIsReadAgain() // also after the kill: everything was decided
			r.exactlyOnceOrEmpty(kind, n)
		}
	}
}

func (r *kfakeRig) exactlyOnceOrEmpty(kind string, n int) {
	r.t.Helper()
	if kind == "thin" {
		r.exactlyOnce(verdict{mapped: func(rec oracle.Record) []oracle.Record {
			if rec.Offset%1000 != 0 {
				return nil
			}
			return []oracle.Record{rec}
		}}, n)
		return
	}
	for p := range r.parts {
		if end := r.end(r.out, p); end != 0 {
			r.t.Errorf("partition %d of the sink holds something: its end is %d", p, end)
		}
	}
}

// caseG1OneToMany: one record becomes three. Whatever kills the bridge, a reader sees all three of it, in order, or none.
func caseG1OneToMany(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.env = []string{"BRIDGE_TEST_MAP=triple"}
	r.cfg.Checkpoint["interval"] = "30ms"
	whole := func() {
		t.Helper()
		seen := map[int32]int{}
		r.read(true, func(rec oracle.Record) error { seen[rec.Partition]++; return nil }, r.out)
		for p, n := range seen {
			if n%3 != 0 {
				t.Errorf("partition %d shows %d records: a part of a source record's three", p, n)
			}
		}
	}
	p := r.plan(3000)
	p.PerSecond = 6000
	wait := r.background(p)
	for _, name := range []string{daemon.AfterFlush, daemon.AfterLedgerRecord, daemon.AfterPersist, daemon.AfterCommit} {
		r.diesAt(name)
		whole()
	}
	for range 4 {
		d := r.start("")
		r.ready(d)
		r.moment(200 * time.Millisecond)
		r.kill(d)
		whole()
	}
	n := wait().Committed
	r.untilEnd()
	r.exactlyOnce(verdict{mapped: func(rec oracle.Record) []oracle.Record {
		var three []oracle.Record
		for i := range 3 {
			out := rec
			out.Value = fmt.Appendf(rec.Value[:len(rec.Value):len(rec.Value)], ":%d", i)
			three = append(three, out)
		}
		return three
	}}, n)
}
