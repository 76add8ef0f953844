package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// send sends the heads of parts in one request and deals with the answer. It holds one of s's slots until the answer
// is there, not while it waits to try again.
func (r *run) send(s *sender, parts []*partition) {
	if r.id.explicit {
		if err := r.addPartitions(parts); err != nil {
			r.fail(err)
		}
	}
	if r.ctx.Err() != nil {
		<-s.slots
		return
	}
	sent := time.Now()
	resp, err := r.request(s.node, parts)
	<-s.slots
	var undecided []*partition
	if err != nil {
		// The answer is lost, or the request never went out: the same bytes with the same sequence tell which.
		for _, part := range parts {
			part.lastErr = err
		}
		undecided = parts
	} else {
		undecided = r.answered(parts, resp)
	}
	if len(undecided) == 0 || r.ctx.Err() != nil {
		return
	}
	for _, part := range undecided {
		part.attempts++
	}
	r.p.log.Debug("sending again", "partitions", len(undecided), "broker", s.node,
		"topic", undecided[0].topic, "partition", undecided[0].partition, "error", undecided[0].lastErr)
	r.locate(undecided, sent)
}

// request stamps heads that were never sent and exchanges one Produce request. When it returns, kgo no longer reads
// the batches (it copies them before it writes, and a cancelled request that was not copied never is).
func (r *run) request(node int32, parts []*partition) (*kmsg.ProduceResponse, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = r.id.acks
	req.TimeoutMillis = int32(r.p.opts.RequestTimeout.Milliseconds())
	if r.id.transactional {
		req.TransactionID = kmsg.StringPtr(r.tx.ID)
	}
	index := make(map[string]int)
	for _, part := range parts {
		at, ok := index[part.topic]
		if !ok {
			at = len(req.Topics)
			index[part.topic] = at
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic = part.topic
			req.Topics = append(req.Topics, rt)
		}
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition = part.partition
		rp.Records = r.stamped(part)
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, rp)
	}
	version := produceImplicit
	if r.id.explicit || !r.id.transactional {
		version = produceExplicit
	}
	// The broker answers within TimeoutMillis; the rest is for connecting and the way.
	ctx, cancel := context.WithTimeout(r.ctx, r.p.opts.RequestTimeout+requestLimit)
	defer cancel()
	resp, err := r.p.cl.Broker(int(node)).Request(ctx, &produceRequest{ProduceRequest: req, max: version})
	if err != nil {
		return nil, fmt.Errorf("produce to broker %d: %w", node, err)
	}
	answer, ok := resp.(*kmsg.ProduceResponse)
	if !ok {
		return nil, fmt.Errorf("produce to broker %d: answered with %T", node, resp)
	}
	return answer, nil
}

// stamped is the head's batch with its sequence, which it gets when it is first sent and keeps.
func (r *run) stamped(part *partition) []byte {
	item := r.head(part)
	if !item.stamped {
		sequence := int32(-1)
		if r.id.sequenced {
			sequence = part.sequence
			part.sequence = advance(part.sequence, item.out.Records)
		}
		batch.Stamp(item.out.Raw, r.id.producerID, r.id.producerEpoch, sequence, r.id.transactional)
		item.stamped = true
	}
	return item.out.Raw
}

// answered goes through the answer and returns the partitions whose head must be sent again.
func (r *run) answered(parts []*partition, resp *kmsg.ProduceResponse) (undecided []*partition) {
	answers := make(map[partitionKey]*kmsg.ProduceResponseTopicPartition, len(parts))
	for t := range resp.Topics {
		for p := range resp.Topics[t].Partitions {
			a := &resp.Topics[t].Partitions[p]
			answers[partitionKey{resp.Topics[t].Topic, a.Partition}] = a
		}
	}
	for _, part := range parts {
		a, ok := answers[part.partitionKey]
		switch {
		case !ok:
			part.lastErr = fmt.Errorf("the answer does not mention %s/%d", part.topic, part.partition)
			undecided = append(undecided, part)
		case a.ErrorCode == 0:
			r.appended(part, a.BaseOffset)
		case meaningOf(a.ErrorCode).again:
			part.lastErr = r.refusal(part, a)
			undecided = append(undecided, part)
		default:
			r.fail(r.refusal(part, a))
		}
	}
	return undecided
}

// appended decides whether an answer without an error proves the append. An offset must be there (a leader that has
// the batch knows it, for a repeat too), and behind all that was acknowledged before: a leader that gives offsets out
// again has lost acknowledged records (an unclean election, a topic made anew), and brokers that have forgotten a
// producer accept its next sequence without a word. Or it took the batch for a repeat of an older one. Either way the
// epoch must not be committed.
func (r *run) appended(part *partition, base int64) {
	out := r.head(part).out
	if base < 0 {
		r.fail(lostAnswer("produce", fmt.Errorf("%s: acknowledged without an offset", describe(out))))
		return
	}
	if next := part.next; base < next && r.id.sequenced {
		// Said once: the next run goes on from what the topic holds now. Of the whole topic: made anew, it would fail once for each of
		// its partitions.
		r.loses(part.topic)
		r.fail(lostAnswer("produce", fmt.Errorf("%s: appended at offset %d, but all before %d was acknowledged already: the sink has lost acknowledged records",
			describe(out), base, next)))
		return
	}
	part.next = base + int64(out.Records)
	r.ack(part, base)
}

// refusal is the classified error of an answer, with the source offsets and sizes that an operator needs.
func (r *run) refusal(part *partition, a *kmsg.ProduceResponseTopicPartition) *semantics.Error {
	out := r.head(part).out
	detail := fmt.Sprintf("%s (%d records, %d bytes)", describe(out), out.Records, len(out.Raw))
	if tooLarge(a.ErrorCode) {
		if limit, ok := r.p.topics.maxMessageBytes(part.topic); ok {
			detail += fmt.Sprintf(", max.message.bytes is %d", limit)
		}
	}
	if a.ErrorMessage != nil && *a.ErrorMessage != "" {
		detail += ": broker says " + *a.ErrorMessage
	}
	err := codeError("produce", a.ErrorCode, r.resource(part, a.ErrorCode), detail)
	if err.Fenced && !r.id.transactional {
		err.Fenced = false // without a transactional id nobody can have taken over
	}
	return withRefusal(err, out, a)
}

// resource names what an authorization answer is about.
func (r *run) resource(part *partition, code int16) resource {
	switch {
	case r.id.transactional:
		return addResource(r.tx.ID, part.topic, code)
	case code == kerr.ClusterAuthorizationFailed.Code:
		return resource{"cluster", "kafka-cluster", "IDEMPOTENT_WRITE"}
	default:
		return resource{"topic", part.topic, "WRITE"}
	}
}
