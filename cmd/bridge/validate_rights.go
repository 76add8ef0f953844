package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
	"kafkabridge/txn"
)

const (
	coordinatorPatience = 5 * time.Second        // a fresh cluster makes __transaction_state at the first question
	coordinatorPause    = 200 * time.Millisecond // between two questions
)

// group asks for the coordinator of the source's group where the bridge cannot do without it. Where the group only shows the
// lag, a missing right stops nothing.
func (v *validation) group(ctx context.Context, c *cluster, b configs.Bridge, s bridge.SourceOptions) {
	tell := v.problem
	if b.Store != nil && s.Start.At != bridge.StartCommitted {
		tell = v.warn // what the group shows is the lag; nothing depends on it
	}
	grant := c.grant(right{"group", s.Group, "Read"})
	switch err := v.coordinator(ctx, kadm.NewClient(c.cl).FindGroupCoordinators, s.Group); {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		tell("group %s: not allowed to use it: grant Read on Group %s: %s", s.Group, s.Group, grant)
		return
	case err != nil:
		tell("group %s: %v: the brokers cannot serve consumer groups now: see the state of __consumer_offsets", s.Group, connect.Explain(err, c.o))
		return
	}
	if !v.mayRead(ctx, c, s.Group) {
		tell("group %s: not allowed to commit to it: grant Read on Group %s: %s", s.Group, s.Group, grant)
	}
}

// mayRead asks what this user may do to the group. Where the brokers do not say, it may.
func (v *validation) mayRead(ctx context.Context, c *cluster, group string) bool {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil || len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 || resp.Version < 3 {
		return true
	}
	return allowed(resp.Groups[0].AuthorizedOperations, operationRead)
}

// transactionalIDs asks for the coordinators of the transactional ids, which takes the right Describe, and then whether a
// transaction may be ended there, which takes Write.
func (v *validation) transactionalIDs(ctx context.Context, c *cluster, o txn.Options) {
	if o.Semantic != semantics.ExactlyOnce {
		return
	}
	for _, id := range o.TransactionalIDs {
		switch err := v.coordinator(ctx, kadm.NewClient(c.cl).FindTxnCoordinators, id); {
		case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
			v.problem("transactional id %s: not allowed to use it: grant Describe and Write on TransactionalId %s: %s", id, id,
				c.grant(right{"transactional-id", id, "Describe"}, right{"transactional-id", id, "Write"}))
		case err != nil:
			v.problem("transactional id %s: %v: the brokers cannot host transactions now: see the state of __transaction_state, and whether there are as many brokers as transaction.state.log.replication.factor", id, connect.Explain(err, c.o))
			return // the next one waits for the same
		case !v.mayWrite(ctx, c, id):
			v.problem("transactional id %s: not allowed to write with it: grant Write on TransactionalId %s: %s", id, id, c.grant(right{"transactional-id", id, "Write"}))
		}
	}
}

// mayWrite asks for the end of a transaction by a producer id that no cluster ever gives out: the broker looks at the right
// first, and then finds that the id is not this producer's (INVALID_PRODUCER_ID_MAPPING). Nothing happens to a transaction that
// is open. InitProducerID was rejected, it would fence a running daemon.
func (v *validation) mayWrite(ctx context.Context, c *cluster, id string) bool {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, math.MaxInt64, 0
	resp, err := req.RequestWith(ctx, c.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	return !errors.Is(err, kerr.TransactionalIDAuthorizationFailed)
}

// coordinator repeats the question while the answer is that there is none yet.
func (v *validation) coordinator(ctx context.Context, find func(context.Context, ...string) kadm.FindCoordinatorResponses, name string) error {
	ctx, cancel := context.WithTimeout(ctx, coordinatorPatience)
	defer cancel()
	var last error
	for {
		err := find(ctx, name).Error()
		if err == nil || ctx.Err() == nil && !errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-time.After(coordinatorPause):
		case <-ctx.Done():
			return last
		}
	}
}

// creatable asks whether a missing topic could be created, without creating it.
func (v *validation) creatable(ctx context.Context, c *cluster, kind, topic string, partitions int32) {
	answers, err := kadm.NewClient(c.cl).ValidateCreateTopics(ctx, max(partitions, 1), -1, nil, topic)
	if err == nil {
		err = answers[topic].Err
	}
	switch {
	case err == nil, errors.Is(err, kerr.TopicAlreadyExists):
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		v.problem("%s %s is missing and may not be created: create it with %s, or grant Create on Topic %s: %s", kind, topic, count(partitions), topic, c.grant(right{"topic", topic, "Create"}))
	default:
		v.problem("%s %s is missing and cannot be created: %v: create it with %s", kind, topic, connect.Explain(err, c.o), count(partitions))
	}
}
