package txn

import (
	"fmt"
	"sync/atomic"
	"testing"

	"kafkabridge/semantics"
)

// One epoch from fence to decided, and the next on the same id, on clusters with implicit (4.4) and explicit (3.9,
// 3.6) membership of partitions.
func TestEpochFromFenceToDecided(t *testing.T) {
	for _, version := range []string{"", "v3.9", "v3.6"} {
		t.Run("kafka"+version, func(t *testing.T) { epochFromFenceToDecided(t, version) })
	}
}

func epochFromFenceToDecided(t *testing.T, version string) {
	ctx := testContext(t)
	f := start(t, version, testOptions())
	s := f.sink
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	end, err := s.Ledger.Read(ctx, false, nil)
	if err != nil || end.Found || end.Offset != -1 || end.TopicID != (semantics.TopicID{}) {
		t.Fatalf("look at a missing ledger: %+v, %v", end, err)
	}
	tx, err := s.Coordinator.Fence(ctx, "orders-0")
	if err != nil {
		t.Fatal(err)
	}
	want := int16(5)
	if version != "" {
		want = min(4, f.maxEndTxn(t))
	}
	if tx.EndTxnVersion != want {
		t.Fatalf("EndTxn version %d, want %d", tx.EndTxnVersion, want)
	}
	if end, err = s.Ledger.Read(ctx, true, nil); err != nil || end.Found || end.TopicID == (semantics.TopicID{}) {
		t.Fatalf("read an empty ledger: %+v, %v", end, err)
	}
	for epoch := range 2 {
		f.flushed(t, tx, epoch)
		tx = f.decided(t, tx, epoch > 0)
	}
	for p := range int32(4) {
		got := f.committed(t, testTopic, p, 200)
		if len(got) != 200 {
			t.Fatalf("partition %d: %d records", p, len(got))
		}
		for i, v := range got {
			if v != fmt.Sprint(i) {
				t.Fatalf("partition %d, record %d is %s", p, i, v)
			}
		}
	}
}

// flushed writes an epoch's 100 records to each partition; all batches are released when the flush is over.
func (f *fixture) flushed(t *testing.T, tx semantics.Transaction, epoch int) {
	t.Helper()
	ctx, s := testContext(t), f.sink
	if err := s.Producer.Begin(ctx, tx); err != nil {
		t.Fatal(err)
	}
	var released atomic.Int64
	for i := range 20 {
		for p := range int32(4) {
			if err := s.Producer.Write(ctx, outbound(t, p, epoch*100+i*5, 5, &released)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if sent, err := s.Producer.Flush(ctx); err != nil || !sent {
		t.Fatalf("flush: %v, %v", sent, err)
	}
	if got := released.Load(); got != 80 {
		t.Fatalf("%d of 80 batches are released after the flush", got)
	}
	if s.Coordinator.StartedAt(ctx, tx) <= 0 {
		t.Error("the coordinator does not tell the start time")
	}
}

// decided adds the ledger record, which nobody sees before the commit, commits, and returns the id's next transaction.
func (f *fixture) decided(t *testing.T, tx semantics.Transaction, before bool) semantics.Transaction {
	t.Helper()
	ctx, s := testContext(t), f.sink
	rec := claimOf(s.opts, tx)
	offset, err := s.Ledger.Append(ctx, tx, rec)
	if err != nil {
		t.Fatal(err)
	}
	if end := s.read(t, false); end.Found != before || end.Offset == offset {
		t.Fatalf("look before the commit: %+v", end)
	}
	outcome, next, err := s.Coordinator.End(ctx, tx, true)
	if err != nil || outcome != semantics.OutcomeCommitted {
		t.Fatalf("commit: %s, %v", outcome, err)
	}
	for _, settled := range []bool{true, false} {
		end := s.read(t, settled)
		if !end.Found || end.Offset != offset || !end.Record.Transaction.Same(tx) || !end.Record.Positions.Equal(rec.Positions) {
			t.Fatalf("read(settled %v): %+v, want offset %d", settled, end, offset)
		}
	}
	if tx.EndTxnVersion < 5 {
		if next, err = s.Coordinator.Refresh(ctx, next); err != nil {
			t.Fatal(err)
		}
	}
	if next.Same(tx) || next.ID != tx.ID || next.EndTxnVersion != tx.EndTxnVersion {
		t.Fatalf("next transaction %s after %s", next, tx)
	}
	return next
}

func (f *fixture) maxEndTxn(t *testing.T) int16 {
	caps, err := f.sink.limits.capabilities(testContext(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	return caps.endTxn
}
