package bridge

import (
	"context"
	"errors"
	"time"

	"kafkabridge/semantics"
)

// sweeperInterval is how long after its timeout a transaction may still be committed: the broker looks for expired ones
// every 10 s by default (transaction.abort.timed.out.transaction.cleanup.interval.ms).
const sweeperInterval = 10 * time.Second

// Settle drives a prepared transaction to a definitive outcome, before any InitProducerID on its id. A bounded one that has no
// answer in time is undetermined: the fence and the ledger decide.
func Settle(ctx context.Context, arbiter Arbiter, a semantics.Settle) (semantics.Settled, error) {
	bounded := ctx
	if a.Bounded {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, time.Duration(a.Timeout)*time.Millisecond+sweeperInterval)
		defer cancel()
	}
	outcome, next, err := arbiter.End(bounded, a.Tx, true)
	switch {
	case err == nil:
		return semantics.Settled{Outcome: outcome, Next: next}, nil
	case a.Bounded && ctx.Err() == nil && errors.Is(bounded.Err(), context.DeadlineExceeded):
		return semantics.Settled{}, nil
	default:
		return semantics.Settled{}, err
	}
}

// Reclaim initialises an id that is still this incarnation's own, without taking it back from a rival (ledger = false). What is open on it is
// aborted first, because the one attempt after the failure may not have got through: with transaction.version 1, InitProducerID with producer
// id and epoch on an open transaction aborts it, bumps the epoch and then answers the same request with PRODUCER_FENCED (seen on Kafka 4.4
// and 3.9), which would look like a rival. What is prepared was settled before.
func Reclaim(ctx context.Context, arbiter Arbiter, known semantics.Transaction) (semantics.Transaction, error) {
	if known.EndTxnVersion < 5 {
		// Whatever definitive answer comes, nothing of ours is open any more; a rival is found out by Refresh.
		if _, _, err := arbiter.End(ctx, known, false); err != nil {
			return semantics.Transaction{}, err
		}
	}
	return arbiter.Refresh(ctx, known)
}
