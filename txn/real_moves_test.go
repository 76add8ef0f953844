//go:build kafka

package txn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/kafka"
	"kafkabridge/semantics"
	"kafkabridge/txn"
)

// Three brokers, one after the other killed with -9, frozen or stopped under load, so that leaders and coordinators
// move all the time: each record once and in order; an epoch that fails is fenced off and written again.
func TestRealLeaderMoves(t *testing.T) {
	for name, o := range clusters() {
		if name == "TV1" {
			continue // partitions are added explicitly there as on 3.9
		}
		o.Nodes, o.HeapMiB = 3, 400
		t.Run(name, func(t *testing.T) { leaderMoves(t, o) })
	}
}

func leaderMoves(t *testing.T, o kafka.Options) {
	c := kafka.StartT(t, o)
	ctx := within(t, 5*time.Minute)
	configs := map[string]*string{"min.insync.replicas": kadm.StringPtr("2")}
	if _, err := c.Admin().CreateTopic(ctx, 6, 3, configs, "moves-out"); err != nil {
		t.Fatal(err)
	}
	s := sinkOn(t, c, "moves", time.Minute)
	stop := make(chan struct{})
	var disturber sync.WaitGroup
	disturber.Go(func() { disturb(t, c, stop) })
	var txs [2]semantics.Transaction
	fence := func() {
		for i := range txs {
			var err error
			if txs[i], err = s.Coordinator.Fence(ctx, fmt.Sprintf("moves-%d", i)); err != nil {
				t.Error(err)
			}
		}
	}
	fence()
	const perEpoch = 300 // records a partition
	committed, failed, resumed := 0, 0, 0
	for begin := time.Now(); time.Since(begin) < 75*time.Second && !t.Failed(); {
		tx := txs[committed%2]
		if err := moveEpoch(ctx, t, s, tx, committed*perEpoch, perEpoch); err != nil {
			t.Logf("epoch %d failed: %v", committed, err)
			failed++
			fence() // aborts it
			continue
		}
		outcome, next, err := s.Coordinator.End(ctx, tx, true)
		if err != nil {
			t.Fatal(err)
		}
		switch outcome {
		case semantics.OutcomeCommitted:
			committed++
			if next.EndTxnVersion < 5 {
				if next, err = s.Coordinator.Refresh(ctx, next); err != nil {
					t.Fatal(err)
				}
			}
			txs[(committed-1)%2] = next
		case semantics.OutcomeAborted:
			fence()
			resumed++
		default:
			t.Fatalf("outcome %s without a rival", outcome)
		}
	}
	close(stop)
	disturber.Wait()
	t.Logf("%d epochs committed, %d failed, %d aborted", committed, failed, resumed)
	if committed < 20 {
		t.Errorf("only %d epochs", committed)
	}
	for p := range int32(6) {
		inOrder(ctx, t, c, "moves-out", p, committed*perEpoch)
	}
}

func moveEpoch(ctx context.Context, t *testing.T, s *txn.Sink, tx semantics.Transaction, first, n int) error {
	if err := s.Producer.Begin(ctx, tx); err != nil {
		return err
	}
	for i := 0; i < n; i += 10 {
		for p := range int32(6) {
			if err := s.Producer.Write(ctx, realBatch(t, "moves-out", p, first+i, 10)); err != nil {
				return err
			}
		}
	}
	_, err := s.Producer.Flush(ctx)
	return err
}

// disturb hits one node after the other until stop is closed, and leaves all running.
func disturb(t *testing.T, c *kafka.Cluster, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1000+rand.IntN(2000)) * time.Millisecond):
		}
		n := c.Node(int32(i%3) + 1)
		var err error
		switch i % 4 {
		case 0, 2:
			if err = n.Kill(); err == nil {
				err = n.Start(context.WithoutCancel(t.Context()))
			}
		case 1:
			if err = n.Pause(); err == nil {
				time.Sleep(11 * time.Second) // beyond the controller's session timeout: its leaders move, and it wakes as one that was deposed
				err = n.Continue()
			}
		case 3:
			if err = n.Stop(context.WithoutCancel(t.Context())); err == nil {
				err = n.Start(context.WithoutCancel(t.Context()))
			}
		}
		if err != nil {
			t.Errorf("disturb node %d: %v", i%3+1, err)
			return
		}
	}
}

func inOrder(ctx context.Context, t *testing.T, c *kafka.Cluster, topic string, partition int32, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	seen := 0
	for seen < n {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("partition %d: %d of %d records", partition, seen, n)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != fmt.Sprint(seen) {
				t.Errorf("partition %d: record %d at offset %d is %s", partition, seen, r.Offset, r.Value)
			}
			seen++
		})
		if t.Failed() {
			return
		}
	}
	if seen > n {
		t.Errorf("partition %d: %d records, want %d", partition, seen, n)
	}
}
