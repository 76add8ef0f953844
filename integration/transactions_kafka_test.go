//go:build kafka

package integration

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
)

// openTransactions describes the bridge's transactions that are neither complete nor empty, as the coordinator
// sees them. The ids carry the bridge's name as their prefix.
func (r *rig) openTransactions() ([]kadm.DescribedTransaction, error) {
	ctx := r.t.Context()
	listed, err := r.dst.Admin().ListTransactions(ctx, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	var ids []string
	for id := range listed {
		if strings.HasPrefix(id, r.name) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	described, err := r.dst.Admin().DescribeTransactions(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("describe transactions: %w", err)
	}
	var open []kadm.DescribedTransaction
	for _, d := range described {
		if d.State == "Ongoing" || strings.HasPrefix(d.State, "Prepare") {
			open = append(open, d)
		}
	}
	return open, nil
}

// aborted waits until the broker has ended every transaction of the (dead) bridge by its timeout.
func (r *rig) aborted() {
	r.t.Helper()
	err := kafka.Poll(r.t.Context(), "the broker has aborted what was open", func() (bool, error) {
		open, err := r.openTransactions()
		return len(open) == 0, err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// throughPrepared counts the sink's data records up to and with the prepared transaction of the (dead) bridge:
// what a reader shows once it is committed, without anything being reprocessed. It is the broker's own view: the
// prepared transaction is the open one that has written to the ledger, and in every partition the other open one,
// of the next epoch, begins behind it.
func (r *rig) throughPrepared() int {
	r.t.Helper()
	open, err := r.openTransactions()
	if err != nil {
		r.t.Fatal(err)
	}
	prepared := int64(-1)
	for _, tx := range open {
		if _, found := tx.Topics[r.ledger()]; found {
			prepared = tx.ProducerID
		}
	}
	if prepared < 0 {
		r.t.Fatalf("no open transaction has written to the ledger: %+v", open)
	}
	next := r.nextBegins(prepared)
	count := 0
	err = oracle.Read(r.t.Context(), r.dst.Bootstrap(), oracle.Uncommitted, []string{r.out}, func(rec oracle.Record) error {
		if begin, found := next[rec.Partition]; !found || rec.Offset < begin {
			count++
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return count
}

// nextBegins returns per sink partition the first offset of an open transaction other than the prepared one.
func (r *rig) nextBegins(prepared int64) map[int32]int64 {
	r.t.Helper()
	var topic kadm.TopicsSet
	topic.Add(r.out)
	ends, err := r.dst.Admin().ListEndOffsets(r.t.Context(), r.out)
	if err != nil {
		r.t.Fatal(err)
	}
	for partition := range ends[r.out] {
		topic.Add(r.out, partition)
	}
	producers, err := r.dst.Admin().DescribeProducers(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	begins := map[int32]int64{}
	for _, p := range producers.SortedPartitions() {
		for _, a := range p.ActiveProducers {
			if a.ProducerID != prepared && a.CurrentTxnStartOffset >= 0 {
				begins[p.Partition] = a.CurrentTxnStartOffset
			}
		}
	}
	return begins
}
