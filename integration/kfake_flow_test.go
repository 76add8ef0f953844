package integration

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

func kfakeFlowCases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"Untouched":        kfakeUntouched,
		"PartitionByKey":   kfakePartitionByKey,
		"TwoSources":       kfakeTwoSources,
		"Idle":             kfakeIdle,
		"DropsEverything":  kfakeDropsEverything,
		"MaxRecords":       kfakeMaxRecords,
		"UpstreamAborted":  kfakeUpstreamAborted,
		"TwoClusters":      kfakeTwoClusters,
		"SinkTopicIsMade":  kfakeSinkTopicIsMade,
		"ReadsUncommitted": kfakeReadUncommitted,
	}
}

// kfakeUntouched: without a map every batch arrives as it was, whatever its codec and size.
func kfakeUntouched(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	p := r.plan(10_002)
	p.Batches, p.Codecs = []int{1, 5000}, traffic.Codecs()
	n := r.produce(p)
	q := r.plan(3_000)
	q.First, q.Shape, q.Codecs = p.Records, traffic.Odd, traffic.Codecs()
	m := r.produce(q)
	d := r.start("")
	r.published(d)
	st := r.status(d)
	if want := r.batches(r.in[0]); st.Maps.Untouched != want || len(st.Maps.Reencoded) != 0 {
		t.Errorf("%d batches untouched of %d, re-encoded: %v", st.Maps.Untouched, want, st.Maps.Reencoded)
	}
	r.terminate(d)
	r.exactlyOnce(verdict{}, n.Committed+m.Committed)
}

// batches are how many the log of a topic holds. A sample producer does not know: kgo may send the first batch of a client in two, when it has to ask
// for the topic first.
func (r *kfakeRig) batches(topic string) (n int64) {
	r.t.Helper()
	topics, err := r.admin.ListTopics(r.ctx(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	for partition := range r.parts {
		for offset := int64(0); ; {
			part := kmsg.NewFetchRequestTopicPartition()
			part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, offset, 64<<20
			in := kmsg.NewFetchRequestTopic()
			in.Topic, in.TopicID, in.Partitions = topic, topics[topic].ID, append(in.Partitions, part)
			req := kmsg.NewPtrFetchRequest()
			req.MaxBytes, req.MinBytes, req.Topics = 64<<20, 0, append(req.Topics, in)
			resp, err := req.RequestWith(r.ctx(), r.cl)
			if err != nil {
				r.t.Fatal(err)
			}
			raw := resp.Topics[0].Partitions[0].RecordBatches
			if len(raw) == 0 {
				break
			}
			for ; len(raw) > 0; n++ { // base offset, length of the rest, … last offset delta at 23
				offset = int64(binary.BigEndian.Uint64(raw)) + int64(binary.BigEndian.Uint32(raw[23:])) + 1
				raw = raw[12+binary.BigEndian.Uint32(raw[8:]):]
			}
		}
	}
	return n
}

func kfakePartitionByKey(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 4)
	r.out = "keyed"
	r.create(r.out, 3)
	r.cfg.Sink.Attrs["topic"], r.cfg.Sink.Attrs["partition"] = r.out, "key"
	p := r.plan(2000)
	p.Shape, p.PerSecond = traffic.Odd, 10_000
	wait := r.background(p)
	r.diesAt(daemon.AfterPersist)
	r.diesAt(daemon.AfterFlush)
	n := wait()
	r.untilEnd()
	r.exactlyOnce(verdict{place: kfakeByKey(3)}, n.Committed)
}

// kfakeTwoSources: two source blocks feed one sink; their barriers have to align.
func kfakeTwoSources(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2, "in1", "in2")
	one := r.cfg.Sources[0]
	one.Attrs["topics"] = []string{"in1"}
	two := r.cfg.Clone().Sources[0]
	two.Label, two.Attrs["topics"], two.Attrs["group"] = "other", []string{"in2"}, "g2"
	r.cfg.Sources = []daemon.Block{one, two}
	p, q := r.plan(3000), r.plan(1500)
	p.PerSecond, q.Topic, q.PerSecond = 6000, "in2", 3000
	first, second := r.background(p), r.background(q)
	for _, at := range []string{daemon.AfterFlush, daemon.AfterPersist, daemon.AfterLedgerRecord} {
		r.diesAt(at)
	}
	for range 2 {
		d := r.start("")
		r.ready(d)
		r.moment(300 * time.Millisecond)
		r.kill(d)
	}
	n := first().Committed + second().Committed
	r.untilEnd()
	r.exactlyOnce(verdict{}, n)
}

func (r *kfakeRig) end(topic string, partition int32) int64 {
	r.t.Helper()
	ends, err := r.admin.ListEndOffsets(r.ctx(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	o, _ := ends.Lookup(topic, partition)
	return o.Offset
}

// kfakeIdle: an idle bridge makes no transactions, keeps its epoch, and still moves what comes later, once.
func kfakeIdle(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Checkpoint["interval"] = "20ms"
	d := r.start("")
	r.ready(d)
	ledger, before := r.end("b.ledger", 0), r.status(d)
	if ledger != 2 { // the claim and its marker
		t.Errorf("the ledger's end is %d after the claim, want 2", ledger)
	}
	<-time.After(400 * time.Millisecond) // twenty intervals: how long it is watched
	after := r.status(d)
	if now := r.end("b.ledger", 0); now != ledger || after.Epoch != before.Epoch || after.Transaction != before.Transaction || after.Decided != 0 || !after.Ready {
		t.Errorf("idle: the ledger's end went from %d to %d, the state from %+v to %+v", ledger, now, before, after)
	}
	n := r.produce(r.plan(100))
	r.published(d)
	r.kill(d)
	d = r.start("")
	r.ready(d)
	r.terminate(d)
	r.exactlyOnce(verdict{}, n.Committed)
}

// kfakeDropsEverything: positions move although nothing is written, so nothing is read again after a restart.
func kfakeDropsEverything(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.env = []string{"BRIDGE_TEST_MAP=drop"}
	n := r.produce(r.plan(1000))
	d := r.start("")
	r.published(d)
	if st := r.status(d); st.Maps.RecordsIn != int64(n.Committed) {
		t.Errorf("%d records read, %d were produced", st.Maps.RecordsIn, n.Committed)
	}
	r.kill(d)
	d = r.start("")
	r.ready(d)
	if st := r.status(d); st.Maps.RecordsIn != 0 {
		t.Errorf("%d records were read again", st.Maps.RecordsIn)
	}
	r.terminate(d)
	for p := range r.parts {
		if end := r.end(r.out, p); end != 0 {
			t.Errorf("partition %d of the sink holds something: its end is %d", p, end)
		}
	}
}

// kfakeMaxRecords: the interval alone would end no epoch for minutes.
func kfakeMaxRecords(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Checkpoint["interval"], r.cfg.Checkpoint["max_records"] = "5m", 500
	d := r.start("")
	r.ready(d)
	n := r.produce(r.plan(250)).Committed
	r.published(d)
	if st := r.status(d); st.Decided != 1 {
		t.Errorf("decided epoch %d, want 1", st.Decided)
	}
	p := r.plan(249) // not enough for a barrier
	p.First = 250
	n += r.produce(p).Committed
	r.until(d, "they are read", func(context.Context) bool { return r.status(d).Maps.RecordsIn == 998 })
	r.terminate(d) // the final barrier takes them
	r.exactlyOnce(verdict{}, n)
}

// kfakeUpstreamAborted: what upstream aborted never arrives, also across kills, and --until-end comes to an end behind it.
func kfakeUpstreamAborted(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	// kfake leaves the list of aborted transactions out of an answer that is full to the request's limit; a broker does not.
	r.cfg.Sources[0].Attrs["fetch_max_bytes"] = "50MiB"
	p := r.plan(3000)
	p.TransactionRecords, p.AbortEvery, p.Shape, p.Codecs, p.PerSecond = 100, 3, traffic.Odd, traffic.Codecs(), 6000
	wait := r.background(p)
	r.diesAt(daemon.AfterPersist)
	r.diesAt(daemon.AfterFlush)
	n := wait() // 30 transactions: the last of all is an aborted one
	if n.Aborted == 0 {
		t.Fatal("nothing was aborted")
	}
	r.untilEnd()
	r.exactlyOnce(verdict{}, n.Committed)
	d := r.start("")
	r.published(d) // the positions have stepped over the markers
	if st := r.status(d); st.Maps.RecordsIn != 0 {
		t.Errorf("%d records were read again", st.Maps.RecordsIn)
	}
	r.terminate(d)
}

// kfakeReadUncommitted: also what was aborted arrives, when that is asked for.
func kfakeReadUncommitted(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "AT_LEAST_ONCE", 1)
	r.cfg.Sources[0].Attrs["isolation_level"] = "read_uncommitted"
	p := r.plan(300)
	p.TransactionRecords, p.AbortEvery = 100, 2
	n := r.produce(p)
	r.untilEnd()
	seen := 0
	r.read(true, func(oracle.Record) error { seen++; return nil }, r.out)
	if seen != n.Committed+n.Aborted || n.Aborted == 0 {
		t.Errorf("%d records in the sink, want %d", seen, n.Committed+n.Aborted)
	}
}

// kfakeTwoClusters: source and sink are brokers of their own; the ledger lives with the sink.
func kfakeTwoClusters(t *testing.T, suite *kfakeSuite) {
	src := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Sources[0].Attrs["brokers"] = src.cluster.ListenAddrs()
	p := src.plan(3000)
	p.PerSecond = 6000
	wait := src.background(p)
	for _, at := range []string{daemon.AfterFlush, daemon.AfterPersist, daemon.AfterCommit} {
		r.diesAt(at)
	}
	n := wait()
	r.untilEnd()
	want := oracle.NewExpected()
	src.read(true, func(rec oracle.Record) error { return want.Add("src", rec) }, "in")
	check := want.NewCheck()
	check.Place = oracle.SamePartition
	r.read(true, check.Saw, r.out)
	if report := check.Report(); report.ExactlyOnce() != nil || report.Expected != n.Committed {
		t.Errorf("%d produced; %s", n.Committed, report)
	}
}

// kfakeSinkTopicIsMade: a missing sink topic is created with the source's number of partitions; where that is not
// allowed the bridge says what is missing.
func kfakeSinkTopicIsMade(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 3)
	r.out = "made-of-in"
	r.cfg.Sink.Attrs["topic"] = "made-of-${topic}"
	n := r.produce(r.plan(200))
	r.cfg.Sink.Attrs["create_topics"] = false
	d := r.start("")
	r.until(nil, "it is told which topic is missing", func(context.Context) bool {
		return strings.Contains(d.Log(), r.out+"\"") || strings.Contains(d.Log(), r.out+":")
	})
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	r.cfg.Sink.Attrs["create_topics"] = true
	r.untilEnd()
	topics, err := r.admin.ListTopics(r.ctx(), r.out)
	if err != nil || len(topics[r.out].Partitions) != 3 {
		t.Errorf("%v, %v: want 3 partitions", topics, err)
	}
	r.exactlyOnce(verdict{}, n.Committed)
}
