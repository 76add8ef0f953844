package integration

import (
	"slices"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

func kfakeKillCases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"KillsAtRandomMoments":   kfakeRandomKills,
		"EveryFailpoint":         kfakeEveryFailpoint,
		"HeadersMapUnderKills":   kfakeHeadersUnderKills,
		"AtLeastOnceUnderKills":  kfakeAtLeastOnceKills,
		"GroupPositions":         kfakeGroupPositions,
		"None":                   kfakeNone,
		"SemanticChanged":        kfakeSemanticChanged,
		"WithoutLedger":          kfakeWithoutLedger,
		"TerminatedInTheMiddle":  kfakeTerminated,
		"PreparedIsCommitted":    kfakePrepared,
		"PreparedIsCommittedALO": kfakePersistedALO,
	}
}

func kfakeRandomKills(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 3)
	p := r.plan(6000)
	p.Shape, p.Codecs, p.PerSecond = traffic.Odd, traffic.Codecs(), 6000
	wait := r.background(p)
	for i := range 8 {
		d := r.start("")
		if i%4 != 3 { // every fourth may die in its recovery
			r.ready(d)
		}
		r.moment(500 * time.Millisecond)
		r.kill(d)
	}
	n := wait()
	r.untilEnd()
	r.exactlyOnce(verdict{}, n.Committed)
}

// kfakeEveryFailpoint dies after each step, at its first and at its second time, and twice in a row at the same.
func kfakeEveryFailpoint(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Checkpoint["interval"] = "50ms"
	for _, name := range daemon.Failpoints() {
		if name != daemon.AfterClaim { // one claim a process
			r.diesFed(name+":2", 600)
		}
		r.diesFed(name, 300)
		if name != daemon.AfterPersist && name != daemon.AfterCommit { // these have nothing left to do the second time
			r.diesAt(name)
		}
	}
	r.untilEnd()
	r.exactlyOnce(verdict{}, r.total)
}

func kfakeHeadersUnderKills(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Maps = []daemon.Block{{Label: "headers", Attrs: daemon.Attrs{"set": daemon.Raw(`{ "x-origin" = "test" }`), "remove": []string{"binary"}}}}
	p := r.plan(4000)
	p.Shape, p.Codecs, p.PerSecond = traffic.Odd, traffic.Codecs(), 4000
	wait := r.background(p)
	for _, name := range []string{daemon.AfterFlush, daemon.AfterLedgerRecord, daemon.AfterPersist, daemon.AfterCommit} {
		r.diesAt(name)
	}
	d := r.start("")
	n := wait()
	r.published(d)
	st := r.status(d)
	if st.Maps.Untouched != 0 || len(st.Maps.Reencoded) == 0 {
		t.Errorf("with a map no batch may go untouched: %+v", st.Maps)
	}
	r.terminate(d)
	r.exactlyOnce(verdict{mapped: func(rec oracle.Record) []oracle.Record {
		rec.Headers = slices.DeleteFunc(slices.Clone(rec.Headers), func(h oracle.Header) bool { return h.Key == "x-origin" || h.Key == "binary" })
		rec.Headers = append(rec.Headers, oracle.Header{Key: "x-origin", Value: []byte("test")})
		return []oracle.Record{rec}
	}}, n.Committed)
}

func kfakeAtLeastOnceKills(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "AT_LEAST_ONCE", 2)
	p := r.plan(6000)
	p.PerSecond = 8000
	wait := r.background(p)
	for _, name := range []string{"", daemon.AfterFlush, "", daemon.AfterPersist, ""} {
		if name != "" {
			r.diesAt(name)
			continue
		}
		d := r.start("")
		r.ready(d)
		r.moment(300 * time.Millisecond)
		r.kill(d)
	}
	n := wait()
	r.untilEnd()
	r.atLeastOnce(n.Committed)
}

// kfakeGroupPositions: without a checkpoint block the group's offsets are the progress.
func kfakeGroupPositions(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "AT_LEAST_ONCE", 2)
	r.cfg.Checkpoint = nil
	r.cfg.Sources[0].Attrs["commit_interval"] = "100ms"
	p := r.plan(3000)
	n := r.produce(p)
	d := r.start("")
	r.published(d)
	r.terminate(d)
	r.exactlyOnce(verdict{}, n.Committed) // nothing failed, so nothing is doubled either
	// Nothing is read again after a clean stop.
	d = r.start("")
	r.ready(d)
	p.First = p.Records
	more := r.produce(p)
	r.published(d)
	if st := r.status(d); st.Maps.RecordsIn != int64(more.Committed) {
		t.Errorf("%d records were read after a clean stop, %d were new", st.Maps.RecordsIn, more.Committed)
	}
	r.kill(d)
	d = r.start("")
	r.ready(d)
	r.terminate(d)
	r.exactlyOnce(verdict{}, n.Committed+more.Committed) // what was committed to the group is not read again after a kill
	p.First += p.Records
	wait := r.background(p)
	for range 3 {
		d := r.start("")
		r.ready(d)
		r.moment(100 * time.Millisecond)
		r.kill(d)
	}
	last := wait()
	r.untilEnd()
	r.atLeastOnce(n.Committed + more.Committed + last.Committed)
}

func kfakeNone(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "NONE", 2)
	p := r.plan(3000)
	p.PerSecond = 12000
	wait := r.background(p)
	for range 2 { // a clean stop loses and doubles nothing, also in the middle
		d := r.start("")
		r.ready(d)
		r.moment(200 * time.Millisecond)
		r.terminate(d)
	}
	n := wait()
	d := r.start("")
	r.published(d)
	r.terminate(d)
	r.exactlyOnce(verdict{}, n.Committed)
}

// kfakeSemanticChanged kills before each change: EXACTLY_ONCE → AT_LEAST_ONCE → EXACTLY_ONCE.
func kfakeSemanticChanged(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Checkpoint["interval"] = "50ms"
	r.diesFed(daemon.AfterPersist+":2", 1500) // prepared: the next start has to commit it, whatever its semantic
	r.cfg.Attrs["semantic"] = "AT_LEAST_ONCE"
	d := r.start("")
	r.published(d)
	r.kill(d)
	r.exactlyOnce(verdict{}, r.total) // everything was in a durable checkpoint before the kill
	wait := r.feed(500)
	d = r.start("")
	wait()
	r.published(d)
	r.kill(d)
	r.exactlyOnce(verdict{}, r.total)
	r.cfg.Attrs["semantic"] = "EXACTLY_ONCE"
	r.diesAt(daemon.AfterClaim)
	r.diesFed(daemon.AfterPersist, 500)
	r.untilEnd()
	r.exactlyOnce(verdict{}, r.total)
}

func kfakeWithoutLedger(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Sink.Attrs["ledger"] = false
	r.cfg.Checkpoint["interval"] = "50ms"
	for _, name := range []string{daemon.AfterFlush, daemon.AfterPersist, daemon.AfterPersist + ":2", daemon.AfterCommit, daemon.AfterCommit + ":2", daemon.AfterFence} {
		r.diesFed(name, 500)
	}
	r.untilEnd()
	r.exactlyOnce(verdict{}, r.total)
	topics, err := r.admin.ListTopics(r.ctx())
	if err != nil || topics.Has(r.name+".ledger") {
		t.Errorf("with ledger = false no ledger topic may be made: %v %v", topics.Names(), err)
	}
}

func kfakeTerminated(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 3)
	p := r.plan(5000)
	p.PerSecond = 15000
	wait := r.background(p)
	for range 3 {
		d := r.start("")
		r.ready(d)
		r.moment(300 * time.Millisecond)
		r.terminate(d)
		if err := oracle.NothingOpen(r.ctx(), r.admin, r.out, r.name+".ledger"); err != nil {
			t.Error(err)
		}
	}
	n := wait()
	r.untilEnd()
	r.exactlyOnce(verdict{}, n.Committed)
}

// kfakePrepared: what was prepared is committed by the next start, and not one record of it is read again.
func kfakePrepared(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Checkpoint["interval"] = "5m"
	r.cfg.Checkpoint["max_records"] = 2000 // the barrier comes when all is read
	n := r.produce(r.plan(1000))
	r.diesAt(daemon.AfterPersist)
	d := r.start("")
	r.ready(d)
	st := r.status(d)
	if st.Recoveries["committed"] != 1 || st.Maps.RecordsIn != 0 || st.Replayed != 0 {
		t.Errorf("recoveries %v, %d records read again", st.Recoveries, st.Maps.RecordsIn)
	}
	r.terminate(d)
	r.exactlyOnce(verdict{}, n.Committed)
}

// kfakePersistedALO: under AT_LEAST_ONCE the durable checkpoint is the commit point.
func kfakePersistedALO(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "AT_LEAST_ONCE", 2)
	r.cfg.Checkpoint["interval"] = "5m"
	r.cfg.Checkpoint["max_records"] = 2000
	n := r.produce(r.plan(1000))
	r.diesAt(daemon.AfterPersist)
	d := r.start("")
	r.ready(d)
	r.terminate(d)
	r.exactlyOnce(verdict{}, n.Committed)
}
