package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// neighbour is another bridge that shares the ledger topic and holds its last stable offset back for a while.
func (w *world) neighbour() {
	if !w.cfg.ledger || w.cfg.twist == twistLedger || w.cfg.semantic != semantics.ExactlyOnce || w.to.cluster.TopicInfo(ledgerTopic) == nil {
		return
	}
	w.neighbours++
	id, d, commit := fmt.Sprint("other-", w.neighbours), span(w.rand, 0, w.cfg.timeout/2), chance(w.rand, 0.5)
	w.tr.add("sim", "%s has a transaction open in the ledger for %s", id, d)
	w.feeding.Go(func() {
		cl := w.to.client(w.t, kgo.TransactionalID(id), kgo.TransactionTimeout(5*time.Minute))
		defer cl.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		err := cl.BeginTransaction()
		if err == nil {
			err = cl.ProduceSync(ctx, &kgo.Record{Topic: ledgerTopic, Key: []byte("other"), Value: []byte("{}")}).FirstErr()
		}
		time.Sleep(d)
		if err == nil {
			err = cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
		}
		if err != nil {
			w.errorf("neighbour %s: %v", id, err)
		}
	})
}

// injection is an error that brokers give without having done anything.
type injection struct {
	key  kmsg.Key
	errs []*kerr.Error
}

func injections() []injection {
	return []injection{
		{kmsg.EndTxn, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.UnknownServerError}},
		{kmsg.InitProducerID, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator}},
		{kmsg.Produce, []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError, kerr.ConcurrentTransactions}},
		{kmsg.Fetch, []*kerr.Error{kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.UnknownServerError, kerr.OffsetNotAvailable}},
		{kmsg.ListOffsets, []*kerr.Error{kerr.NotLeaderForPartition, kerr.OffsetNotAvailable, kerr.LeaderNotAvailable}},
	}
}

// inject lets the next requests of a kind fail, for the bridge only.
func (w *world) inject() {
	in := pick(w.rand, injections()...)
	f := kfake.Fault{Keys: []kmsg.Key{in.key}, Err: pick(w.rand, in.errs...), Count: 1 + w.rand.IntN(4)}
	switch in.key {
	case kmsg.EndTxn, kmsg.InitProducerID:
		f.TxnID = pick(w.rand, ids()...)
	case kmsg.Fetch, kmsg.ListOffsets:
		f.Topic = pick(w.rand, append(w.cfg.sourceTopics(), bridgeName+".ledger")...)
	default:
		f.Topic = pick(w.rand, append(w.cfg.sinkTopics(), bridgeName+".ledger")...)
	}
	w.tr.add("sim", "INJECT %d x %s into %s of %s%s", f.Count, f.Err.Message, in.key.Name(), f.Topic, f.TxnID)
	at := w.to
	if slices.Contains(w.cfg.sourceTopics(), f.Topic) {
		at = w.from
	}
	w.injected = append(w.injected, at.cluster.Fault(f))
}

func (c config) sourceTopics() (names []string) {
	for _, s := range c.sources {
		for _, t := range s {
			names = append(names, t.name)
		}
	}
	return names
}
