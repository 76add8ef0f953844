package txn

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

const testTopic = "out"

type fixture struct {
	cluster *kfake.Cluster
	client  *kgo.Client
	sink    *Sink
}

func testOptions() Options {
	return Options{
		Semantic: semantics.ExactlyOnce, Bridge: "orders", Incarnation: "one",
		TransactionalIDs: []string{"orders-0", "orders-1"}, TransactionTimeout: time.Minute,
		CreateTopics: true, Ledger: true,
	}
}

// start boots a fake cluster; version "" is the newest, with transaction.version 2.
func start(t *testing.T, version string, opts Options, more ...kfake.Opt) *fixture {
	t.Helper()
	kopts := append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(4, testTopic)}, more...)
	if version != "" {
		kopts = append(kopts, kfake.MaxVersions(kversion.FromString(version)))
	}
	cluster, err := kfake.NewCluster(kopts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	f := &fixture{cluster: cluster}
	f.client, f.sink = f.join(t, opts)
	return f
}

// join makes one more sink on the same cluster.
func (f *fixture) join(t *testing.T, opts Options) (*kgo.Client, *Sink) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	level := hclog.Error
	if testing.Verbose() {
		level = hclog.Debug
	}
	s, err := New(opts, cl, hclog.New(&hclog.LoggerOptions{Level: level, Output: testWriter{t}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return cl, s
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// outbound makes a batch of n records "first", "first+1", ... and counts its releases.
func outbound(t testing.TB, partition int32, first, n int, released *atomic.Int64) batch.Outbound {
	t.Helper()
	var b batch.Builder
	for i := range n {
		rec := batch.Record{Key: []byte("k"), Value: fmt.Appendf(nil, "%d", first+i), Timestamp: time.Now().UnixMilli()}
		if err := b.Append(&rec); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := b.Finish(nil, new(batch.Compressor), batch.None)
	if err != nil {
		t.Fatal(err)
	}
	once := new(atomic.Int64)
	return batch.Outbound{
		Topic: testTopic, Partition: partition, Raw: raw, Records: int32(n),
		SourceTopic: "in", SourcePartition: partition, FirstOffset: int64(first), LastOffset: int64(first + n - 1),
		Release: func() {
			if once.Add(1) != 1 {
				t.Errorf("partition %d, records from %d: released twice", partition, first)
			}
			if released != nil {
				released.Add(1)
			}
			clear(raw) // what is sent after the release arrives broken
		},
	}
}

// committed reads a partition as a read_committed consumer, with kgo, up to n records.
func (f *fixture) committed(t *testing.T, topic string, partition int32, n int) []string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var values []string
	for len(values) < n {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		fs.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func claimOf(o Options, tx semantics.Transaction) semantics.LedgerRecord {
	return semantics.LedgerRecord{
		Bridge: o.Bridge, Kind: semantics.LedgerEpoch, Incarnation: o.Incarnation, TransactionalIDs: o.TransactionalIDs,
		Epoch: 1, Transaction: tx, Positions: semantics.Positions{
			{Source: "east", Topic: "in"}: {ID: semantics.TopicID{1}, Partitions: map[int32]semantics.Position{0: {Offset: 10, LeaderEpoch: 3}, 1: {Offset: 7, LeaderEpoch: -1}}},
		},
	}
}
