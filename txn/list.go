package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"kafkabridge/semantics"
)

// Described is what the coordinator tells of a transactional id, without being changed.
type Described struct {
	ID            string
	State         string // Kafka's own word; "" when the coordinator does not know the id
	ProducerID    int64
	ProducerEpoch int16
	StartedMs     int64 // of the last transaction, the coordinator's clock, Unix milliseconds; 0: none
	TimeoutMs     int64
	Topics        map[string][]int32 // partitions in the open transaction, as far as this user may see them
}

// Open says that the transaction is not ended: readers wait for it.
func (d Described) Open() bool { return d.State == "Ongoing" }

// Ending says that its outcome is decided and its markers are not all written.
func (d Described) Ending() bool { return strings.HasPrefix(d.State, "Prepare") }

// Witness is what the state tells of a transaction's outcome.
func (d Described) Witness() semantics.Witness {
	return semantics.Witness{State: d.State, ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch}
}

// Is says whether the state is tx's own.
func (d Described) Is(tx semantics.Transaction) bool {
	return d.ID == tx.ID && d.ProducerID == tx.ProducerID && d.ProducerEpoch == tx.ProducerEpoch
}

// Describe asks the coordinators for these ids, in their order, and for no other: two bridges whose names begin alike
// must not see each other's. It changes nothing, and repeats until every coordinator has answered or ctx ends.
func (c *Coordinator) Describe(ctx context.Context, ids ...string) ([]Described, error) {
	const op = "describe the transactions"
	out := make([]Described, len(ids))
	err := repeat(ctx, c.log, op, func(ctx context.Context) error {
		answers, err := c.adm.DescribeTransactions(ctx, ids...)
		if err != nil {
			return c.describeRefused(op, ids[0], err)
		}
		for i, id := range ids {
			d, ok := answers[id]
			switch {
			case !ok:
				return again(fmt.Errorf("no answer about %q", id))
			case errors.Is(d.Err, kerr.TransactionalIDNotFound):
				out[i] = Described{ID: id, ProducerID: -1, ProducerEpoch: -1}
			case d.Err != nil:
				return c.describeRefused(op, id, d.Err)
			default:
				out[i] = described(d)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Coordinator) describeRefused(op, id string, err error) error {
	// kadm answers a refusal of one id for all of them.
	if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		return semantics.Misconfigured(op, "transactional id %q: not allowed to see it: grant Describe on TransactionalId %s: %w", id, id, err)
	}
	var typed *kerr.Error
	if errors.As(err, &typed) {
		c.note(id, typed.Code)
	}
	return again(fmt.Errorf("transactional id %q: %w", id, err))
}

func described(d kadm.DescribedTransaction) Described {
	out := Described{ID: d.TxnID, State: d.State, ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch,
		StartedMs: max(0, d.StartTimestamp), TimeoutMs: int64(d.TimeoutMillis), Topics: map[string][]int32{}}
	for topic, partitions := range d.Topics {
		for p := range partitions {
			out.Topics[topic] = append(out.Topics[topic], p)
		}
		slices.Sort(out.Topics[topic])
	}
	return out
}

// endingPause is the pause between two looks at markers that are being written.
const endingPause = 50 * time.Millisecond

// DescribeEnded is Describe once no transaction of these ids is between its outcome and its markers: until then the
// ledger hides what is committed already. When ctx ends before that, it is what was seen last, without an error.
func (c *Coordinator) DescribeEnded(ctx context.Context, ids ...string) ([]Described, error) {
	for {
		seen, err := c.Describe(ctx, ids...)
		if err != nil || !slices.ContainsFunc(seen, Described.Ending) || !sleep(ctx, endingPause) {
			return seen, err
		}
	}
}

// EndVersion is the EndTxn version for a transaction that no checkpoint names: 5 where transaction.version 2 is
// finalized, 4 elsewhere.
func (c *Coordinator) EndVersion(ctx context.Context) (int16, error) {
	return c.limits.endTxnVersion(ctx)
}
