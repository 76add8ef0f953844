//go:build kafka

package txn_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/batch"
	"kafkabridge/integration/kafka"
	"kafkabridge/semantics"
	"kafkabridge/txn"
)

// Real brokers, for what the fake one cannot show: CONCURRENT_TRANSACTIONS, double bumps, verification, Prepare states.

var realProperties = map[string]string{
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}

func sinkOn(t *testing.T, c *kafka.Cluster, name string, timeout time.Duration) *txn.Sink {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	s, err := txn.New(txn.Options{
		Semantic: semantics.ExactlyOnce, Bridge: name, Incarnation: "one", TransactionalIDs: []string{name + "-0", name + "-1"},
		TransactionTimeout: timeout, Ledger: true, CreateTopics: true,
	}, cl, hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: logTo{t}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type logTo struct{ t *testing.T }

func (w logTo) Write(b []byte) (int, error) { w.t.Logf("%s", b); return len(b), nil }

func realBatch(t *testing.T, topic string, partition int32, first, n int) batch.Outbound {
	var b batch.Builder
	for i := range n {
		if err := b.Append(&batch.Record{Value: fmt.Appendf(nil, "%d", first+i), Timestamp: time.Now().UnixMilli()}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := b.Finish(nil, new(batch.Compressor), batch.None)
	if err != nil {
		t.Fatal(err)
	}
	var once atomic.Bool
	return batch.Outbound{Topic: topic, Partition: partition, Raw: raw, Records: int32(n), SourceTopic: "in", SourcePartition: partition,
		FirstOffset: int64(first), LastOffset: int64(first + n - 1), Release: func() {
			if once.Swap(true) {
				t.Error("released twice")
			}
			clear(raw)
		}}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// prepared leaves a flushed transaction on the id.
func prepared(t *testing.T, s *txn.Sink, id, topic string) semantics.Transaction {
	t.Helper()
	ctx := within(t, 30*time.Second)
	tx, err := s.Coordinator.Fence(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, tx, topic)
	return tx
}

func fill(t *testing.T, s *txn.Sink, tx semantics.Transaction, topic string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	if err := s.Producer.Begin(ctx, tx); err != nil {
		t.Fatal(err)
	}
	for p := range int32(3) {
		for i := range 3 {
			if err := s.Producer.Write(ctx, realBatch(t, topic, p, i*10, 10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func clusters() map[string]kafka.Options {
	return map[string]kafka.Options{
		"TV2": {TransactionVersion: 2, Properties: realProperties},
		"TV1": {TransactionVersion: 1, Properties: realProperties},
		"3.9": {Version: kafka.BeforeV2, Properties: realProperties},
	}
}

// The verdicts of EndTxn(commit) by what happened to the prepared transaction: facts, second table.
func TestRealVerdicts(t *testing.T) {
	const committed, aborted, ambiguous = semantics.OutcomeCommitted, semantics.OutcomeAborted, semantics.OutcomeAmbiguous
	for name, o := range clusters() {
		t.Run(name, func(t *testing.T) {
			c := kafka.StartT(t, o)
			v5 := name == "TV2"
			pick := func(a, b semantics.Outcome) semantics.Outcome {
				if v5 {
					return a
				}
				return b
			}
			end := func(t *testing.T, s *txn.Sink, tx semantics.Transaction, commit bool) (semantics.Outcome, semantics.Transaction) {
				t.Helper()
				outcome, next, err := s.Coordinator.End(within(t, 30*time.Second), tx, commit)
				if err != nil {
					t.Fatal(err)
				}
				return outcome, next
			}
			fence := func(t *testing.T, s *txn.Sink, id string) semantics.Transaction {
				t.Helper()
				tx, err := s.Coordinator.Fence(within(t, 30*time.Second), id)
				if err != nil {
					t.Fatal(err)
				}
				return tx
			}
			for i, h := range []struct {
				name    string
				timeout time.Duration
				happen  func(t *testing.T, s *txn.Sink, tx semantics.Transaction)
				want    semantics.Outcome
			}{
				{"still prepared", time.Minute, func(*testing.T, *txn.Sink, semantics.Transaction) {}, committed},
				{"committed before", time.Minute, func(t *testing.T, s *txn.Sink, tx semantics.Transaction) { end(t, s, tx, true) }, committed},
				{"aborted by us", time.Minute, func(t *testing.T, s *txn.Sink, tx semantics.Transaction) { end(t, s, tx, false) }, aborted},
				{"timed out", time.Second, func(t *testing.T, s *txn.Sink, tx semantics.Transaction) {
					waitState(t, c, tx.ID, "CompleteAbort")
				}, pick(aborted, ambiguous)},
				{"fenced by a rival", time.Minute, func(t *testing.T, s *txn.Sink, tx semantics.Transaction) {
					fence(t, s, tx.ID)
					if got, err := s.Coordinator.Refresh(within(t, 30*time.Second), tx); !semantics.IsFenced(err) {
						t.Errorf("refresh of the fenced: %s, %v", got, err)
					}
				}, ambiguous},
				{"fenced twice", time.Minute, func(t *testing.T, s *txn.Sink, tx semantics.Transaction) {
					fence(t, s, tx.ID)
					fence(t, s, tx.ID)
				}, ambiguous},
				{"committed, then used again", time.Minute, func(t *testing.T, s *txn.Sink, tx semantics.Transaction) {
					_, next := end(t, s, tx, true)
					if !v5 {
						var err error
						if next, err = s.Coordinator.Refresh(within(t, 30*time.Second), next); err != nil {
							t.Fatal(err)
						}
					}
					fill(t, s, next, "h-used")
				}, ambiguous},
			} {
				t.Run(h.name, func(t *testing.T) {
					topic := fmt.Sprintf("h%d", i)
					s := sinkOn(t, c, topic, h.timeout)
					ctx := within(t, 60*time.Second)
					if err := s.Check(ctx); err != nil {
						t.Fatal(err)
					}
					for _, name := range []string{topic, "h-used"} {
						if _, err := s.Topics.Ensure(ctx, name, 3); err != nil {
							t.Fatal(err)
						}
					}
					tx := prepared(t, s, topic+"-0", topic)
					want := int16(4)
					if v5 {
						want = 5
					}
					if c.Version() == kafka.BeforeV2 {
						want = min(want, 4)
					}
					if tx.EndTxnVersion != want {
						t.Errorf("EndTxn version %d, want %d", tx.EndTxnVersion, want)
					}
					if h.timeout > 10*time.Second && s.Coordinator.StartedAt(ctx, tx) <= 0 {
						t.Error("no start time")
					}
					h.happen(t, s, tx)
					if got, next := end(t, s, tx, true); got != h.want {
						t.Errorf("verdict %s (next %s), want %s", got, next, h.want)
					}
				})
			}
		})
	}
}

// waitState waits until the coordinator shows the state.
func waitState(t *testing.T, c *kafka.Cluster, id, state string) {
	t.Helper()
	err := kafka.Poll(within(t, 60*time.Second), id+" is "+state, func() (bool, error) {
		d, err := c.Admin().DescribeTransactions(t.Context(), id)
		return err == nil && d[id].State == state, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Epochs one after the other on two ids in turn, with a ledger record each, on every kind of cluster: no
// CONCURRENT_TRANSACTIONS, bump or verification gets in the way, and the ledger follows.
func TestRealEpochs(t *testing.T) {
	for name, o := range clusters() {
		t.Run(name, func(t *testing.T) {
			c := kafka.StartT(t, o)
			s := sinkOn(t, c, "epochs", time.Minute)
			ctx := within(t, 90*time.Second)
			if err := s.Check(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Topics.Ensure(ctx, "epochs-out", 3); err != nil {
				t.Fatal(err)
			}
			var txs [2]semantics.Transaction
			for i := range txs {
				var err error
				if txs[i], err = s.Coordinator.Fence(ctx, fmt.Sprintf("epochs-%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			if end, err := s.Ledger.Read(ctx, true, nil); err != nil || end.Found {
				t.Fatalf("first read: %+v, %v", end, err)
			}
			begin := time.Now()
			const epochs = 50
			for n := range epochs {
				tx := txs[n%2]
				fill(t, s, tx, "epochs-out")
				rec := semantics.LedgerRecord{Bridge: "epochs", Kind: semantics.LedgerEpoch, Incarnation: "one", Epoch: semantics.Epoch(n + 1), Transaction: tx,
					TransactionalIDs: []string{"epochs-0", "epochs-1"}, Positions: semantics.Positions{{Source: "s", Topic: "in"}: {Partitions: map[int32]semantics.Position{0: {Offset: int64(n), LeaderEpoch: -1}}}}}
				offset, err := s.Ledger.Append(ctx, tx, rec)
				if err != nil {
					t.Fatal(err)
				}
				outcome, next, err := s.Coordinator.End(ctx, tx, true)
				if err != nil || outcome != semantics.OutcomeCommitted {
					t.Fatalf("epoch %d: %s, %v", n, outcome, err)
				}
				if tx.EndTxnVersion < 5 {
					if next, err = s.Coordinator.Refresh(ctx, next); err != nil {
						t.Fatal(err)
					}
				}
				txs[n%2] = next
				if n%10 == 9 {
					end, err := s.Ledger.Read(ctx, true, nil)
					if err != nil || end.Offset != offset || end.Record.Epoch != semantics.Epoch(n+1) {
						t.Fatalf("epoch %d: ledger %+v, %v, want offset %d", n, end, err, offset)
					}
				}
			}
			t.Logf("%d epochs in %s", epochs, time.Since(begin).Round(time.Millisecond))
		})
	}
}
