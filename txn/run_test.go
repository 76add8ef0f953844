package txn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

func TestSequenceWraps(t *testing.T) {
	for _, c := range []struct{ seq, n, want int32 }{
		{0, 5, 5}, {2147483647, 1, 0}, {2147483640, 10, 2}, {2147483647, 2147483647, 2147483646},
	} {
		if got := advance(c.seq, c.n); got != c.want {
			t.Errorf("%d records after %d: %d, want %d", c.n, c.seq, got, c.want)
		}
	}
	f, _ := begun(t, "", testOptions())
	r := f.sink.Producer.current()
	r.partitions[partitionKey{testTopic, 0}] = &partition{partitionKey: partitionKey{testTopic, 0}, sequence: 2147483646}
	var mu sync.Mutex
	var sequences []int32
	f.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		req := kreq.(*kmsg.ProduceRequest)
		h, _ := batch.ParseHeader(req.Topics[0].Partitions[0].Records)
		mu.Lock()
		sequences = append(sequences, h.FirstSequence)
		mu.Unlock()
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		st := kmsg.NewProduceResponseTopic()
		st.Topic = testTopic
		sp := kmsg.NewProduceResponseTopicPartition()
		sp.BaseOffset = int64(len(sequences)) * 100
		st.Partitions = append(st.Partitions, sp)
		resp.Topics = append(resp.Topics, st)
		return resp, nil, true
	})
	for i := range 3 {
		if err := f.sink.Producer.Write(testContext(t), outbound(t, 0, i*3, 3, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if want := []int32{2147483646, 1, 4}; !slices.Equal(sequences, want) {
		t.Errorf("sequences %v, want %v", sequences, want)
	}
}

// Write blocks at the bound, passes on after acknowledgements, and one batch above the bound passes alone.
func TestBytesInFlightAreBounded(t *testing.T) {
	opts := testOptions()
	size := int64(len(outbound(t, 0, 0, 3, nil).Raw))
	opts.MaxInFlight = 2*size + 1
	f, _ := begun(t, "", opts)
	held := make(chan struct{})
	f.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.SleepControl(func() { <-held })
		return nil, nil, false
	})
	var written atomic.Int64
	done := make(chan error, 1)
	go func() {
		for i := range 6 {
			if err := f.sink.Producer.Write(t.Context(), outbound(t, 0, i*3, 3, nil)); err != nil {
				done <- err
				return
			}
			written.Add(1)
		}
		done <- f.sink.Producer.Write(t.Context(), outbound(t, 0, 18, 500, nil))
	}()
	time.Sleep(100 * time.Millisecond) // a longer wait could only find more writes, which the bound forbids
	if n := written.Load(); n != 2 {
		t.Errorf("%d batches were taken, the bound allows 2", n)
	}
	close(held)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	b := &f.sink.Producer.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used != 0 {
		t.Errorf("%d bytes are still taken", b.used)
	}
}

// A write that gave up leaves a hole: the epoch has failed, whatever comes later.
func TestWriteThatGaveUpFailsTheEpoch(t *testing.T) {
	opts := testOptions()
	opts.MaxInFlight = 1
	f, _ := begun(t, "", opts)
	held := make(chan struct{})
	defer close(held)
	f.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.SleepControl(func() { <-held })
		return nil, nil, false
	})
	if err := f.sink.Producer.Write(t.Context(), outbound(t, 0, 0, 3, nil)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var released atomic.Int64
	if err := f.sink.Producer.Write(ctx, outbound(t, 1, 0, 3, &released)); !errors.Is(err, context.DeadlineExceeded) || released.Load() != 1 {
		t.Errorf("a write that gave up: %v, %d releases", err, released.Load())
	}
	if _, err := f.sink.Producer.Flush(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush: %v", err)
	}
}

// Begin in the middle: everything is released once, after the requests in flight have returned, and the new epoch's
// records are the only ones.
func TestBeginThrowsAwayTheEpoch(t *testing.T) {
	f, tx := begun(t, "", testOptions())
	var released atomic.Int64
	if err := f.write(t, 50, &released); err != nil {
		t.Fatal(err)
	}
	next := f.begin(t) // fences the id, too: what was written is aborted
	if released.Load() != 200 {
		t.Fatalf("%d of 200 batches are released", released.Load())
	}
	if next.Same(tx) {
		t.Fatalf("the fence gave %s again", tx)
	}
	if sent, err := f.sink.Producer.Flush(testContext(t)); sent || err != nil {
		t.Fatalf("flush of an empty epoch: %v, %v", sent, err)
	}
	if err := f.write(t, 2, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	f.commit(t, next)
	for p := range int32(4) {
		if got := f.committed(t, testTopic, p, 6); len(got) != 6 {
			t.Errorf("partition %d: %v", p, got)
		}
	}
}

// A batch that cannot be delivered fails the epoch after the delivery timeout, as unknown.
func TestDeliveryTimeout(t *testing.T) {
	opts := testOptions()
	opts.DeliveryTimeout = 150 * time.Millisecond
	f, _ := begun(t, "", opts)
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: testTopic, Err: kerr.NotEnoughReplicas, Count: -1})
	if err := f.sink.Producer.Write(testContext(t), outbound(t, 3, 0, 3, nil)); err != nil {
		t.Fatal(err)
	}
	_, err := f.sink.Producer.Flush(testContext(t))
	if semantics.ClassOf(err) != semantics.Unknown || !errors.Is(err, kerr.NotEnoughReplicas) || !strings.Contains(err.Error(), "source in/3 offsets 0 to 2") {
		t.Errorf("flush: %v", err)
	}
}

// None: no producer id, acks 1.
func TestNoneHasNoProducerID(t *testing.T) {
	opts := testOptions()
	opts.Semantic = semantics.None
	f, _ := begun(t, "", opts)
	f.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		req := kreq.(*kmsg.ProduceRequest)
		h, _ := batch.ParseHeader(req.Topics[0].Partitions[0].Records)
		if req.Acks != 1 || h.ProducerID != -1 || h.FirstSequence != -1 || h.IsTransactional() || req.TransactionID != nil {
			t.Errorf("acks %d, producer id %d, sequence %d", req.Acks, h.ProducerID, h.FirstSequence)
		}
		return nil, nil, false
	})
	if err := f.write(t, 3, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	f.expect(t, 9)
}

// Sequences from 0 again under the same producer epoch: the broker would take the batches for repeats.
func TestBeginNeedsAFreshEpoch(t *testing.T) {
	f, tx := begun(t, "", testOptions())
	if err := f.sink.Producer.Begin(testContext(t), tx); err != nil {
		t.Fatalf("begin again with nothing written: %v", err)
	}
	if err := f.write(t, 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := f.sink.Producer.Begin(testContext(t), tx); semantics.ClassOf(err) != semantics.Fatal {
		t.Errorf("begin again after a write: %v", err)
	}
}

// Offsets that were acknowledged in an earlier epoch are not given out again, either; it is said once.
func TestLostRecordsOfAnEarlierEpoch(t *testing.T) {
	f, tx := begun(t, "", testOptions())
	if err := f.write(t, 3, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	f.commit(t, tx)
	adm := kadm.NewClient(f.client)
	if _, err := adm.DeleteTopic(testContext(t), testTopic); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Topics.Ensure(testContext(t), testTopic, 4); err != nil {
		t.Fatal(err)
	}
	f.begin(t)
	failsWith(t, f, "lost acknowledged records")
	f.begin(t)
	if err := f.write(t, 1, nil); err != nil { // to every partition: a topic made anew must not fail once for each
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Errorf("said twice: %v", err)
	}
}
