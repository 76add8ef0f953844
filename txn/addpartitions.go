package txn

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// addPartitions makes parts members of the transaction on the coordinator, before their first batch (brokers without
// transaction.version 2; KIP-98). A batch of a partition that is not a member would not get a marker: it would stay
// open for ever, or the broker's verification refuses it (KIP-890). Partitions that wait elsewhere are added with them.
func (r *run) addPartitions(parts []*partition) error {
	if r.allAdded(parts) {
		return nil
	}
	select {
	case r.adding <- struct{}{}: // two at once would answer CONCURRENT_TRANSACTIONS to each other
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
	defer func() { <-r.adding }()
	missing := r.notAdded()
	if len(missing) == 0 {
		return nil
	}
	const op = "add partitions to the transaction"
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.p.opts.DeliveryTimeout, fmt.Errorf("not answered within %s", r.p.opts.DeliveryTimeout))
	defer cancel()
	err := repeat(ctx, r.p.log, op, func(ctx context.Context) error { return r.tryAdd(ctx, op, missing) })
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range missing {
		part.added = true
	}
	return nil
}

func (r *run) tryAdd(ctx context.Context, op string, missing []*partition) error {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = r.tx.ID, r.tx.ProducerID, r.tx.ProducerEpoch
	byTopic := make(map[string]int)
	for _, part := range missing {
		at, ok := byTopic[part.topic]
		if !ok {
			at = len(req.Topics)
			byTopic[part.topic] = at
			rt := kmsg.NewAddPartitionsToTxnRequestTopic()
			rt.Topic = part.topic
			req.Topics = append(req.Topics, rt)
		}
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, part.partition)
	}
	kresp, err := r.p.coordinator.ask(ctx, r.tx.ID, &addPartitionsRequest{req})
	if err != nil {
		return err
	}
	resp, ok := kresp.(*kmsg.AddPartitionsToTxnResponse)
	if !ok {
		return again(fmt.Errorf("answered with %T", kresp))
	}
	answered := 0
	var undecided error
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			answered++
			if rp.ErrorCode == 0 {
				continue
			}
			err := codeError(op, rp.ErrorCode, addResource(r.tx.ID, rt.Topic, rp.ErrorCode), fmt.Sprintf("%s, sink %s/%d", r.tx, rt.Topic, rp.Partition))
			m := r.p.coordinator.note(r.tx.ID, rp.ErrorCode)
			if !m.again {
				return err
			}
			undecided = again(err)
		}
	}
	if undecided == nil && answered < len(missing) {
		return again(fmt.Errorf("%d of %d partitions are answered", answered, len(missing)))
	}
	return undecided
}

// addResource names what an authorization answer is about.
func addResource(id, topic string, code int16) resource {
	if code == kerr.TransactionalIDAuthorizationFailed.Code {
		return resource{"transactional id", id, "WRITE"}
	}
	return resource{"topic", topic, "WRITE"}
}

func (r *run) allAdded(parts []*partition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range parts {
		if !part.added {
			return false
		}
	}
	return true
}

func (r *run) notAdded() []*partition {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []*partition
	for _, part := range r.partitions {
		if !part.added {
			missing = append(missing, part)
		}
	}
	return missing
}
