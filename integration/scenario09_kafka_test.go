//go:build kafka

package integration

import (
	"testing"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// TestScenario09Untouched: every codec, batches of 1 and of 5,000, every odd shape of a record, no map: the sink's
// log holds the source's batches as they were, which Kafka's own DumpLogSegments tells.
func TestScenario09Untouched(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	p := r.plan(3, 25_020, 0)
	p.Batches, p.Shape = []int{1, 5_000, 1, 2}, traffic.Odd
	n := produce(t, p)
	r.untilEnd()
	r.exactlyOnce(n.Committed)
	same := 0
	for partition := range int32(3) {
		from, to := r.batches(c, r.in[0], partition), r.batches(c, r.out, partition)
		for i := range min(len(from), len(to)) {
			a, b := from[i], to[i]
			if a.Count == b.Count && a.Size == b.Size && a.Codec == b.Codec {
				same++
			}
		}
	}
	t.Logf("%d of %d batches are in the sink as they were in the source", same, n.Batches)
	if same != n.Batches {
		t.Errorf("%d of %d batches came through untouched", same, n.Batches)
	}
}

// batches are the data batches of a partition on a cluster of one node.
func (r *rig) batches(c *kafka.Cluster, topic string, partition int32) []oracle.Batch {
	r.t.Helper()
	files, err := c.Node(1).Segments(topic, partition)
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := oracle.Batches(r.t.Context(), files)
	if err != nil {
		r.t.Fatal(err)
	}
	var data []oracle.Batch
	for _, b := range all {
		if !b.Control {
			data = append(data, b)
		}
	}
	return data
}

// TestScenario09Headers: the same traffic through a map that needs the records: everything but the new header is
// byte for byte the source's.
func TestScenario09Headers(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	r.cfg.Maps = []daemon.Block{{Label: "headers", Attrs: daemon.Attrs{"set": daemon.Raw(`{ "x-origin" = "east" }`)}}}
	p := r.plan(3, 15_006, 8_000)
	p.Batches, p.Shape = []int{1, 5_000, 1}, traffic.Odd
	wait := r.background(p)
	r.killLoop(3)
	wait()
	r.untilEnd()
	want := oracle.NewExpected()
	want.Map = func(rec oracle.Record) []oracle.Record {
		rec.Headers = append(rec.Headers[:len(rec.Headers):len(rec.Headers)], oracle.Header{Key: "x-origin", Value: []byte("east")})
		return []oracle.Record{rec}
	}
	if err := want.AddTopics(t.Context(), "src", c.Bootstrap(), oracle.Committed, r.in...); err != nil {
		t.Fatal(err)
	}
	r.nothingOpen()
	if err := r.sinkReport(want, oracle.SamePartition).ExactlyOnce(); err != nil {
		t.Error(err)
	}
}

// TestScenario09ManyIntoOne: two sources with four topics feed one sink by key: batches of every codec and size,
// aborted transactions, compaction gaps, and a topic that gains partitions while the bridge runs and is killed.
func TestScenario09ManyIntoOne(t *testing.T) {
	const sinkPartitions = 5
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 0)
	plain, tx, gaps, grows := r.name+"-plain", r.name+"-tx", r.name+"-gaps", r.name+"-grows"
	r.in = []string{plain, tx, gaps, grows}
	big := map[string]string{"max.message.bytes": "8388608"}
	createTopic(t, c, plain, 3, big)
	createTopic(t, c, tx, 2, nil)
	compactedTopic(t, c, gaps, 2, 2_000)
	createTopic(t, c, grows, 2, nil)
	createTopic(t, c, r.out, sinkPartitions, big)
	r.cfg.Sources[0].Attrs["topics"] = []string{plain, tx}
	second := r.cfg.Clone().Sources[0]
	second.Label, second.Attrs["topics"] = "src2", []string{gaps, grows}
	second.Attrs["group"] = r.name + "-group"
	r.cfg.Sources = append(r.cfg.Sources, second)
	r.cfg.Sink.Attrs["partition"], r.cfg.Sink.Attrs["max_message_bytes"] = "key", "8MiB"

	waits := r.manyTraffic(plain, tx, grows)
	r.killLoop(2)
	d := r.start("")
	r.ready(d)
	if err := c.AddPartitions(t.Context(), grows, 4); err != nil {
		t.Fatal(err)
	}
	newOnes := traffic.Plan{Bootstrap: c.Bootstrap(), Topic: grows, Partitions: []int32{2, 3}, Records: 500, Batches: []int{1, 50}}
	produce(t, newOnes)
	r.drained(d) // with the new partitions, without a restart
	r.kill(d)
	r.killLoop(2)
	for _, wait := range waits {
		wait()
	}
	d = r.start("")
	r.ready(d)
	r.drained(d)
	r.terminate(d)
	r.nothingOpen()
	if err := r.sinkReport(r.expected(), oracle.ByKey(sinkPartitions)).ExactlyOnce(); err != nil {
		t.Error(err)
	}
}

func (r *rig) manyTraffic(plain, tx, grows string) []func() traffic.Count {
	all := []traffic.Plan{
		{Topic: plain, Partitions: traffic.Range(3), Records: 20_000, Batches: []int{1, 5_000, 1, 1}, Shape: traffic.Odd,
			Codecs: traffic.Codecs(), PerSecond: 8_000},
		{Topic: tx, Partitions: traffic.Range(2), Records: 4_000, Batches: []int{1, 40}, TransactionRecords: 50,
			AbortEvery: 3, Codecs: traffic.Codecs(), PerSecond: 1_000},
		{Topic: grows, Partitions: traffic.Range(2), Records: 4_000, Batches: []int{1, 100}, PerSecond: 1_000},
	}
	var waits []func() traffic.Count
	for _, p := range all {
		p.Bootstrap = r.src.Bootstrap()
		waits = append(waits, r.background(p))
	}
	return waits
}
