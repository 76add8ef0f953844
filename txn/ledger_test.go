package txn

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// record commits (or aborts) one ledger record in a transaction of its own and returns its offset.
func (s *Sink) record(t *testing.T, id string, rec semantics.LedgerRecord, commit bool) int64 {
	t.Helper()
	ctx := testContext(t)
	tx, err := s.Coordinator.Fence(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Producer.Begin(ctx, tx); err != nil {
		t.Fatal(err)
	}
	offset, err := s.Ledger.Append(ctx, tx, rec)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Coordinator.End(ctx, tx, commit); err != nil {
		t.Fatal(err)
	}
	return offset
}

func numbered(o Options, n semantics.Epoch) semantics.LedgerRecord {
	rec := claimOf(o, semantics.Transaction{ID: o.TransactionalIDs[0], ProducerID: 1, ProducerEpoch: int16(n), EndTxnVersion: 5})
	rec.Bridge, rec.Epoch = o.Bridge, n
	return rec
}

func (s *Sink) read(t *testing.T, settled bool) semantics.LedgerEnd {
	t.Helper()
	end, err := s.Ledger.Read(testContext(t), settled, nil)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// Aborted records, another bridge's records and control batches are stepped over; peeks and whole reads agree.
func TestLedgerSeesOnlyWhatIsCommittedAndOurs(t *testing.T) {
	opts := testOptions()
	f := start(t, "", opts)
	other := opts
	other.Bridge, other.LedgerTopic, other.TransactionalIDs = "other", "orders.ledger", []string{"other-0", "other-1"}
	_, o := f.join(t, other)
	if end := f.sink.read(t, true); end.Found {
		t.Fatalf("an empty ledger: %+v", end)
	}
	for n := semantics.Epoch(1); n <= 4; n++ {
		want := f.sink.record(t, "orders-0", numbered(opts, n), true)
		f.sink.record(t, "orders-0", numbered(opts, n+100), false)
		o.record(t, "other-0", numbered(other, n+200), true)
		for _, settled := range []bool{false, true} {
			if end := f.sink.read(t, settled); !end.Found || end.Record.Epoch != n || end.Offset != want {
				t.Fatalf("round %d, settled %v: epoch %d at %d, want offset %d", n, settled, end.Record.Epoch, end.Offset, want)
			}
		}
	}
	if end := o.read(t, true); end.Record.Epoch != 204 {
		t.Errorf("the other bridge's end: %+v", end)
	}
}

// Another bridge's open transaction below our committed record: a settled read waits for it, says who it is, and then
// sees our record; a look does not wait.
func TestSettledReadWaitsForForeignTransactions(t *testing.T) {
	opts := testOptions()
	f := start(t, "", opts)
	other := opts
	other.Bridge, other.LedgerTopic, other.TransactionalIDs = "other", "orders.ledger", []string{"other-0", "other-1"}
	_, o := f.join(t, other)
	f.sink.read(t, true)
	f.sink.record(t, "orders-0", numbered(opts, 1), true)
	ctx := testContext(t)
	tx, err := o.Coordinator.Fence(ctx, "other-0")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Producer.Begin(ctx, tx); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Ledger.Append(ctx, tx, numbered(other, 1)); err != nil {
		t.Fatal(err)
	}
	f.sink.record(t, "orders-0", numbered(opts, 2), true)
	if end := f.sink.read(t, false); end.Record.Epoch != 1 {
		t.Errorf("a look went beyond the last stable offset: %+v", end)
	}
	var mu sync.Mutex
	var reasons []string
	told := make(chan struct{}, 16)
	done := make(chan semantics.LedgerEnd, 1)
	go func() {
		end, err := f.sink.Ledger.Read(ctx, true, func(reason string) {
			mu.Lock()
			reasons = append(reasons, reason)
			mu.Unlock()
			told <- struct{}{}
		})
		if err != nil {
			t.Error(err)
		}
		done <- end
	}()
	select {
	case <-told:
	case end := <-done:
		t.Fatalf("the read did not wait: %+v", end)
	case <-ctx.Done():
		t.Fatal("nothing is told")
	}
	if _, _, err := o.Coordinator.End(ctx, tx, true); err != nil {
		t.Fatal(err)
	}
	if end := <-done; end.Record.Epoch != 2 {
		t.Errorf("read %+v, want epoch 2", end)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(reasons[0], `"other-0"`) || reasons[len(reasons)-1] != "" {
		t.Errorf("reasons %q", reasons)
	}
}

// plainRecord puts a record without a transaction into the ledger topic.
func (f *fixture) plainRecord(t *testing.T, key string, value []byte) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(testContext(t), &kgo.Record{Topic: "orders.ledger", Key: []byte(key), Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func refusedWith(t *testing.T, err error, text string) {
	t.Helper()
	var e *semantics.Error
	if !errors.As(err, &e) || e.Class != semantics.Fatal || e.Exit != semantics.ExitRefused || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want a refusal with %q", err, text)
	}
}

// A record that cannot be understood is never taken for none, nor for the one before it.
func TestUnreadableLedgerIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		value []byte
		want  string
	}{
		"newer":     {[]byte(`{"format":2}`), "format 2"},
		"tombstone": {nil, "tombstone"},
		"garbage":   {[]byte("x"), "offset"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions()
			f := start(t, "", opts)
			f.sink.read(t, true)
			f.sink.record(t, "orders-0", numbered(opts, 1), true)
			f.plainRecord(t, "orders", c.value)
			f.plainRecord(t, "somebody", []byte(`{"format":9}`))
			for _, settled := range []bool{true, false} {
				_, err := f.sink.Ledger.Read(testContext(t), settled, nil)
				refusedWith(t, err, c.want)
			}
		})
	}
}

// A ledger topic that is deleted and made anew has another id and no record, for a peek with memory, too.
func TestRecreatedLedgerIsNoticed(t *testing.T) {
	opts := testOptions()
	f := start(t, "", opts)
	_, r := f.join(t, opts)
	f.sink.read(t, true)
	f.sink.record(t, "orders-0", numbered(opts, 1), true)
	before := f.sink.read(t, false)
	r.read(t, false) // remembers the old topic until the end
	adm := kadm.NewClient(f.client)
	if _, err := adm.DeleteTopic(testContext(t), "orders.ledger"); err != nil {
		t.Fatal(err)
	}
	if end := f.sink.read(t, false); end.Found || end.TopicID != (semantics.TopicID{}) {
		t.Errorf("a look at the deleted topic: %+v", end)
	}
	if end := f.sink.read(t, true); end.Found || end.TopicID == before.TopicID || end.TopicID == (semantics.TopicID{}) {
		t.Errorf("read after the deletion: %+v, before %+v", end, before)
	}
	_, fresh := f.join(t, opts) // one that did not write to the old topic: that one would say that records are lost
	fresh.record(t, "orders-0", numbered(opts, 2), true)
	if end := f.sink.read(t, false); end.Record.Epoch != 2 {
		t.Errorf("after the first record in the new topic: %+v", end)
	}
	if end := r.read(t, false); end.Record.Epoch != 2 || end.TopicID == before.TopicID {
		t.Errorf("a look with memory of the old topic: %+v", end)
	}
}

// A peek reads only what is new.
func TestPeekIsCheap(t *testing.T) {
	opts := testOptions()
	f := start(t, "", opts)
	f.sink.read(t, true)
	f.sink.record(t, "orders-0", numbered(opts, 1), true)
	f.sink.read(t, false)
	fetches := 0
	f.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		fetches++
		return nil, nil, false
	})
	for range 5 {
		if end := f.sink.read(t, false); end.Record.Epoch != 1 {
			t.Fatalf("peek %+v", end)
		}
	}
	if fetches != 0 {
		t.Errorf("%d fetches for 5 peeks at an idle ledger", fetches)
	}
}

// Errors while reading are repeated, never an empty ledger; when the context ends, an error.
func TestLedgerReadRepeats(t *testing.T) {
	opts := testOptions()
	f := start(t, "", opts)
	f.sink.read(t, true)
	f.sink.record(t, "orders-0", numbered(opts, 1), true)
	for _, err := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.OffsetNotAvailable, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError, kerr.UnknownServerError} {
		for _, key := range []kmsg.Key{kmsg.ListOffsets, kmsg.Fetch, kmsg.Metadata} {
			if key == kmsg.Metadata && err == kerr.UnknownTopicOrPartition {
				continue // that is an answer, see TestRecreatedLedgerIsNoticed
			}
			f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "orders.ledger", Err: err, Count: 2})
			if end := f.sink.read(t, true); end.Record.Epoch != 1 {
				t.Errorf("%v on %s: %+v", err, key.Name(), end)
			}
		}
	}
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders.ledger", Err: kerr.KafkaStorageError, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if end, err := f.sink.Ledger.Read(ctx, true, nil); err == nil || end.Found {
		t.Errorf("an unreadable ledger: %+v, %v", end, err)
	}
}
