//go:build kafka

package integration

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// TestHarness proves the tools before they judge the bridge: on every version of the suite the oracle reads
// back exactly what the generator wrote, also after a kill -9 of the broker, and the checker sees each fault.
func TestHarness(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) { harness(t, startCluster(t, o)) })
	}
}

func harness(t *testing.T, c *kafka.Cluster) {
	ctx := t.Context()
	createTopic(t, c, "odd", 3, map[string]string{"max.message.bytes": "8388608"})
	createTopic(t, c, "text", 2, nil)
	odd := traffic.Plan{Bootstrap: c.Bootstrap(), Topic: "odd", Partitions: traffic.Range(3), Records: 4000,
		Batches: []int{1, 1, 7, 1000}, Codecs: traffic.Codecs(), Shape: traffic.Odd}
	text := traffic.Plan{Bootstrap: c.Bootstrap(), Topic: "text", Partitions: traffic.Range(2), Records: 900,
		Batches: []int{100}, Codecs: traffic.Codecs(), TransactionRecords: 100, AbortEvery: 3}
	produce(t, odd)
	if n := produce(t, text); n.Committed != 1200 || n.Aborted != 600 {
		t.Fatalf("transactional traffic: %+v", n)
	}
	want := oracle.NewExpected()
	expectPlan(t, want, odd, func(int) bool { return true })
	expectPlan(t, want, text, func(seq int) bool { return (seq/100+1)%3 != 0 })
	for _, when := range []string{"at first", "after a kill -9"} {
		begin := time.Now()
		check := want.NewCheck()
		check.Place = oracle.SamePartition
		if err := oracle.Read(ctx, c.Bootstrap(), oracle.Committed, []string{"odd", "text"}, check.Saw); err != nil {
			t.Fatal(err)
		}
		report := check.Report()
		t.Logf("%s: %s (%v)", when, report, time.Since(begin).Round(time.Millisecond))
		if err := report.ExactlyOnce(); err != nil {
			t.Fatal(err)
		}
		console(t, c, "text", nil, 1200)
		if err := oracle.NothingOpen(ctx, c.Admin(), "odd", "text"); err != nil {
			t.Fatal(err)
		}
		restartNode(t, c, 1)
	}
}

// expectPlan expects a plan's records from the plan itself, without reading the topic.
func expectPlan(t *testing.T, want *oracle.Expected, p traffic.Plan, committed func(seq int) bool) {
	t.Helper()
	p.Source, p.ValueBytes = p.Topic, 100
	for _, partition := range p.Partitions {
		for seq := range p.Records {
			if !committed(seq) {
				continue
			}
			if err := want.Add("plan", fromClient(p.Record(partition, seq, false))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func fromClient(k *kgo.Record) oracle.Record {
	r := oracle.Record{Topic: k.Topic, Partition: k.Partition, Timestamp: k.Timestamp.UnixMilli(), Key: k.Key, Value: k.Value}
	for _, h := range k.Headers {
		r.Headers = append(r.Headers, oracle.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

// TestOpenTransactionIsSeen: the check for open transactions finds one.
func TestOpenTransactionIsSeen(t *testing.T) {
	c := sharedCluster(t, kafka.Options{Version: kafka.Current, TransactionVersion: 2})
	topic := unique(t)
	createTopic(t, c, topic, 1, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("open")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := contextWithTimeout(t, 2*time.Second)
	defer cancel()
	if err := oracle.NothingOpen(ctx, c.Admin(), topic); err == nil {
		t.Fatal("an open transaction was not seen")
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if err := oracle.NothingOpen(t.Context(), c.Admin(), topic); err != nil {
		t.Fatal(err)
	}
}

// TestCompactionLeavesGaps: the recipe for a compacted source really gives offsets with gaps.
func TestCompactionLeavesGaps(t *testing.T) {
	c := sharedCluster(t, kafka.Options{Version: kafka.Current, TransactionVersion: 2})
	topic := unique(t)
	compactedTopic(t, c, topic, 2, 3000)
	records, err := oracle.ReadAll(t.Context(), c.Bootstrap(), oracle.Committed, topic)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of 6000 records are left", len(records))
}
