package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

func TestSourceReadsAllInOrder(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a", "b"}, ReadCommitted: true},
		kfake.NumBrokers(3), kfake.SeedTopics(5, "a"), kfake.SeedTopics(3, "b"))
	cl := r.client()
	r.start(r.resolve(nil, true), 3)
	want := map[topicPartition][]string{}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		k := topicPartition{"a", int32(i % 5)}
		if i%3 == 0 {
			k = topicPartition{"b", int32(i % 3)}
		}
		v := numbered(fmt.Sprintf("%d-", i), 0, 1+rng.IntN(50))
		r.produce(cl, k.topic, k.partition, v...)
		want[k] = append(want[k], v...)
	}
	r.caughtUp(8)
	var n int64
	for k, v := range want {
		r.eventually(k.String(), func() bool { return len(r.values(k)) >= len(v) })
		r.want(k, v)
		n += int64(len(v))
		if r.count(k) != map[string]int32{"a": 5, "b": 3}[k.topic] {
			t.Errorf("%s: partition count %d", k, r.count(k))
		}
	}
	if got := r.s.handedOver(); got != n {
		t.Errorf("handed over %d, want %d", got, n)
	}
	if err := r.stop(); err != nil {
		t.Fatalf("a run that is cancelled returns %v", err)
	}
	if p := r.s.status().Partitions[0]; p.Position != -1 || p.Lag != -1 {
		t.Errorf("an ended run shows position %d, lag %d: nobody knows whether that was stored", p.Position, p.Lag)
	}
	r.eventually("bytes in flight 0", func() bool { return r.s.status().InFlight == 0 })
}

func TestSourceCutsFirstBatch(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, StartOffsets: map[string]int64{"a/0": 7}},
		kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	r.produce(r.client(), "a", 0, numbered("v", 0, 10)...)
	r.start(r.resolve(nil, true), 1)
	r.caughtUp(1)
	r.eventually("3 records", func() bool { return len(r.values(topicPartition{"a", 0})) >= 3 })
	r.want(topicPartition{"a", 0}, numbered("v", 7, 10))
}

func TestSourceFollowsLeaders(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(3), kfake.SeedTopics(2, "a"))
	cl := r.client()
	r.start(r.resolve(nil, true), 2)
	want := map[topicPartition][]string{}
	for i := range 12 {
		for p := range int32(2) {
			v := numbered(fmt.Sprintf("%d-", i), 0, 20)
			r.produce(cl, "a", p, v...)
			k := topicPartition{"a", p}
			want[k] = append(want[k], v...)
			if err := r.cluster.MoveTopicPartition("a", p, (int32(i)+p)%3); err != nil {
				t.Fatal(err)
			}
		}
	}
	for k, v := range want {
		r.eventually(k.String(), func() bool { return len(r.values(k)) >= len(v) })
		r.want(k, v)
	}
	r.caughtUp(2)
}

// TestSourceBarrierCut draws barriers into a running stream: what came down each channel before the barrier must be
// exactly what its positions say, and a run from those positions must go on without a hole or a double.
func TestSourceBarrierCut(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(2), kfake.SeedTopics(4, "a"))
	cl := r.client(kgo.MaxBufferedRecords(1000))
	var want [4][]string
	for i := range 300 {
		p := int32(i % 4)
		v := numbered(fmt.Sprintf("%d-", i), 0, 9)
		want[p] = append(want[p], v...)
		r.produce(cl, "a", p, v...)
	}
	pos := r.resolve(nil, true)
	epoch := semantics.Epoch(0)
	for range 5 {
		r.start(pos, 2)
		for range 10 {
			epoch++
			var err error
			if pos, err = r.s.barrier(srcContext(t), epoch); err != nil {
				t.Fatal(err)
			}
			r.eventually("barrier", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.seen[epoch] == 2 })
			r.mu.Lock()
			for k, end := range r.barriers[epoch] {
				if got := offsetOf(pos, "a", k.partition); got != end {
					t.Fatalf("barrier %d %s: position %d, but %d was handed over before it", epoch, k, got, end)
				}
			}
			r.mu.Unlock()
		}
		r.stop()
		r.mu.Lock()
		for k := range r.got { // what came after the barrier is not part of it
			n := offsetOf(pos, "a", k.partition)
			r.got[k], r.offsets[k] = r.got[k][:n], r.offsets[k][:n]
			if n == 0 {
				delete(r.task, k)
			}
		}
		r.mu.Unlock()
	}
	r.start(pos, 2)
	r.caughtUp(4)
	for p := range want {
		k := topicPartition{"a", int32(p)}
		r.eventually(k.String(), func() bool { return len(r.values(k)) >= len(want[p]) })
		r.want(k, want[p])
	}
}

// TestSourceBarrierBlocked has a map task that reads nothing: the caller gets away, the run can be ended.
func TestSourceBarrierBlocked(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	r.produce(r.client(), "a", 0, "v")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // also when the test fails: the run holds the client
	out := []chan delivery{make(chan delivery), make(chan delivery)}
	result := make(chan error, 1)
	pos := r.resolve(nil, true)
	go func() { result <- r.s.run(ctx, pos, []chan<- delivery{out[0], out[1]}) }()
	r.eventually("a batch that nobody takes", func() bool { return r.s.status().InFlight > 0 })
	short, done := context.WithTimeout(ctx, 20*time.Millisecond)
	defer done()
	if _, err := r.s.barrier(short, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("barrier: %v", err)
	}
	asked := make(chan error, 1)
	var at1 semantics.Positions
	ask := func(epoch semantics.Epoch) {
		pos, err := r.s.barrier(srcContext(t), epoch)
		at1 = pos
		asked <- err
	}
	go ask(1)
	var got [2]int
	before := int64(0)        // records before the barrier
	for got != [2]int{1, 1} { // once down each channel, although it was asked for twice
		var d delivery
		var i int
		select {
		case d = <-out[0]:
		case d = <-out[1]:
			i = 1
		}
		if d.barrier == 0 {
			if got[i] == 0 {
				before++
			}
			d.batch.release()
			continue
		}
		got[i]++
	}
	if err := <-asked; err != nil || offsetOf(at1, "a", 0) != before {
		t.Fatalf("position %d, but %d came before the barrier; %v", offsetOf(at1, "a", 0), before, err)
	}
	go ask(2)
	for d := range out[0] {
		if d.barrier == 2 {
			break // the task now sends to the other channel
		}
	}
	cancel()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if err := <-asked; !errors.Is(err, errRunEnded) {
		t.Fatalf("barrier of a run that ended: %v", err)
	}
}

// TestSourceBudget has a sink that never lets go: fetching stops at the bound, says so, and goes on when it does.
func TestSourceBudget(t *testing.T) {
	const bound = 256 << 10
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(2), kfake.SeedTopics(4, "a"))
	r.s.maxInFlight = bound
	value := strings.Repeat("x", 10<<10)
	cl := r.client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 200 {
		r.produce(cl, "a", int32(i%4), value)
	}
	r.hold = true
	r.start(r.resolve(nil, true), 1)
	r.eventually("paused", func() bool {
		st := r.s.status()
		return len(st.Waiting) == 1 && st.Waiting[0] == "fetching paused: sink slow"
	})
	r.mu.Lock()
	bytes, n := r.bytes, len(r.held)
	r.mu.Unlock()
	if in := r.s.status().InFlight; bytes > bound || n == 0 || in < bytes {
		t.Fatalf("%d batches of %d bytes (status %d) in flight, the bound is %d", n, bytes, in, bound)
	}
	r.eventually("all, as batches are released", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, release := range r.held {
			release()
		}
		r.held = nil
		total := 0
		for _, v := range r.got {
			total += len(v)
		}
		return total == 200
	})
}

// TestSourceLargeBatch: a batch larger than the partition's limit and the whole bound still passes.
func TestSourceLargeBatch(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "10000000"}))
	if err := r.cluster.CreateTopic("a", 2, map[string]string{"max.message.bytes": "10000000"}); err != nil {
		t.Fatal(err)
	}
	r.s.maxInFlight = 1000 // less than even one reservation
	cl := r.client(kgo.ProducerBatchMaxBytes(9<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	large := strings.Repeat("y", 3<<20)
	for p := range int32(2) {
		r.produce(cl, "a", p, "small")
		r.produce(cl, "a", p, large)
		r.produce(cl, "a", p, "end")
	}
	r.start(r.resolve(nil, true), 1)
	r.caughtUp(2)
	for p := range int32(2) {
		r.eventually("all", func() bool { return len(r.values(topicPartition{"a", p})) == 3 })
		r.want(topicPartition{"a", p}, []string{"small", large, "end"})
	}
}

// TestSourcePartialFirstBatch has a broker that cuts even the first batch (before Kafka 0.10.1): the limit is raised.
func TestSourcePartialFirstBatch(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, FetchMaxBytes: 1000}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	whole := handBatch(0, 999, 0, -1, func() (d []int32) {
		for i := range int32(1000) {
			d = append(d, i)
		}
		return d
	}()...)
	r.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.NewFetchResponseTopic()
		rt.TopicID = req.Topics[0].TopicID
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = 1000, 1000, 0
		if p := req.Topics[0].Partitions[0]; p.FetchOffset == 0 {
			rp.RecordBatches = whole[:min(int(p.PartitionMaxBytes), len(whole))]
		}
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	r.start(at("a", 0), 1)
	r.caughtUp(1)
	r.eventually("all", func() bool { return len(r.values(topicPartition{"a", 0})) == 1000 })
}

func TestSourceErrorsThatEndTheRun(t *testing.T) {
	magic1 := handBatch(0, 0, 0, -1, 0)
	magic1[16] = 1
	badLength := handBatch(0, 5, 0, -1, 0, 1)
	badLength[26] = 0 // last offset delta 0 with two records
	for name, tc := range map[string]struct {
		fill  func(int64, *kmsg.FetchResponseTopicPartition)
		class semantics.Class
		exit  semantics.ExitCode
		text  string
	}{
		"not authorised": {
			func(_ int64, p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.TopicAuthorizationFailed.Code },
			semantics.Fatal, semantics.ExitUsage, `topic "a" needs the operation Read`,
		},
		"magic 1": {handLog{batches: [][]byte{magic1}, end: 1}.raw, semantics.Fatal, semantics.ExitRefused, "topic a partition 0: message set at offset 0 has magic 1"},
		"corrupt": {handLog{batches: [][]byte{badLength}, end: 6}.raw, semantics.Retry, 0, "corrupt"},
		"corrupt on the broker": {
			func(_ int64, p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.CorruptMessage.Code },
			semantics.Retry, 0, "topic a partition 0 offset 0: CORRUPT_MESSAGE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			r.serve(tc.fill)
			r.start(at("a", 0), 1)
			err := r.failed()
			var e *semantics.Error
			if !errors.As(err, &e) || e.Class != tc.class || e.Exit != tc.exit || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("%#v: %v", e, err)
			}
		})
	}
}

// raw serves all batches whatever the offset.
func (l handLog) raw(_ int64, p *kmsg.FetchResponseTopicPartition) {
	p.HighWatermark, p.LastStableOffset = l.end, l.end
	for _, b := range l.batches {
		p.RecordBatches = append(p.RecordBatches, b...)
	}
}

// TestSourceErrorsThatPass injects each code once: reading goes on without a hole.
func TestSourceErrorsThatPass(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
		kerr.InconsistentTopicID, kerr.OffsetNotAvailable, kerr.KafkaStorageError, kerr.ReplicaNotAvailable, kerr.LeaderNotAvailable,
		kerr.OffsetOutOfRange, kerr.UnknownServerError,
	} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			cl := r.client()
			r.produce(cl, "a", 0, "one")
			h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: code, Count: 2})
			r.start(r.resolve(nil, true), 1)
			r.eventually("the record", func() bool { return len(r.values(topicPartition{"a", 0})) == 1 })
			r.produce(cl, "a", 0, "two")
			r.caughtUp(1)
			r.eventually("both", func() bool { return len(r.values(topicPartition{"a", 0})) == 2 })
			r.want(topicPartition{"a", 0}, []string{"one", "two"})
			if h.Hits() != 2 {
				t.Errorf("%d faults", h.Hits())
			}
		})
	}
}
