package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

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
	if b.Store != nil && s.Start.At != bridge.StartCommitted {
		return
	}
	switch err := v.coordinator(ctx, kadm.NewClient(c.cl).FindGroupCoordinators, s.Group); {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		v.problem("group %s: not allowed to use it: grant Read on Group %s", s.Group, s.Group)
	case err != nil:
		v.problem("group %s: %v: the brokers cannot serve consumer groups now: see the state of __consumer_offsets", s.Group, connect.Explain(err, c.o))
	}
}

// transactionalIDs asks for the coordinators of the transactional ids. That takes the right Describe; whether Write is
// granted, too, only InitProducerID tells, which would fence a running daemon.
func (v *validation) transactionalIDs(ctx context.Context, c *cluster, o txn.Options) {
	if o.Semantic != semantics.ExactlyOnce {
		return
	}
	for _, id := range o.TransactionalIDs {
		switch err := v.coordinator(ctx, kadm.NewClient(c.cl).FindTxnCoordinators, id); {
		case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
			v.problem("transactional id %s: not allowed to use it: grant Describe and Write on TransactionalId %s", id, id)
		case err != nil:
			v.problem("transactional id %s: %v: the brokers cannot host transactions now: see the state of __transaction_state, and whether there are as many brokers as transaction.state.log.replication.factor", id, connect.Explain(err, c.o))
			return // the next one waits for the same
		}
	}
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
		v.problem("%s %s is missing and may not be created: create it with %d partitions, or grant Create on Topic %s", kind, topic, max(partitions, 1), topic)
	default:
		v.problem("%s %s is missing and cannot be created: %v: create it with %d partitions", kind, topic, connect.Explain(err, c.o), max(partitions, 1))
	}
}
