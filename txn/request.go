package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// kgo overwrites a request's version with the highest one that request, client and broker know, and routes and rewrites
// by the request's concrete type (kgo broker.go handleReq: a *kmsg.ProduceRequest gets the client's acks). A type of
// our own around the request, sent to a broker by id, keeps acks as they are and caps the version with MaxVersion. The
// alternative, a second client with kgo.MaxVersions, would double connections and could not serve v4 and v5 of EndTxn
// on one cluster by what is stored with each transaction.

// produceRequest is a Produce request whose acks and highest version are ours. Version 13 names topics by id only,
// and versions from 12 on add partitions to the transaction implicitly (KIP-890), which clusters with
// transaction.version below 2 do not do for every client.
type produceRequest struct {
	*kmsg.ProduceRequest
	max int16
}

func (r *produceRequest) MaxVersion() int16 { return r.max }

const (
	produceExplicit int16 = 11 // partitions were added with AddPartitionsToTxn
	produceImplicit int16 = 12 // the last version that names topics
)

// endTxnRequest is an EndTxn request of at most the version that is stored with its transaction.
type endTxnRequest struct {
	*kmsg.EndTxnRequest
	max int16
}

func (r *endTxnRequest) MaxVersion() int16 { return r.max }

// addPartitionsRequest is an AddPartitionsToTxn request of version 3: from 4 on it is for brokers among themselves
// and asks for CLUSTER_ACTION.
type addPartitionsRequest struct {
	*kmsg.AddPartitionsToTxnRequest
}

func (r *addPartitionsRequest) MaxVersion() int16 { return 3 }

const (
	backoffMin   = 10 * time.Millisecond
	backoffMax   = time.Second
	requestLimit = 15 * time.Second // for requests that a broker answers at once: then the connection is taken for dead
	patience     = 10 * time.Second // how long something may be repeated before the log says so
)

// backoff is the pause before the next of several attempts, with jitter, so that partitions do not return in step.
func backoff(attempt int) time.Duration {
	d := backoffMax
	if attempt < 7 {
		d = min(backoffMin<<attempt, backoffMax)
	}
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errAgain is wrapped by what an attempt in repeat answers to be called again.
var errAgain = errors.New("no answer that decides")

// again marks err as not decisive.
func again(err error) error { return fmt.Errorf("%w: %w", errAgain, err) }

// tellKey is under what a context carries whom to tell why something is repeated: func(reason string).
type tellKey struct{}

// repeat calls try until it answers nil or an error that does not wrap errAgain. When ctx ends before that, the
// error is Unknown and carries the last reason (I7: an undetermined effect never becomes nil).
func repeat(ctx context.Context, log hclog.Logger, op string, try func(ctx context.Context) error) error {
	return repeatEach(ctx, log, op, requestLimit, try)
}

// repeatEach is repeat with another time limit for each attempt.
func repeatEach(ctx context.Context, log hclog.Logger, op string, limit time.Duration, try func(ctx context.Context) error) error {
	var warned time.Time
	var last error
	start := time.Now()
	for attempt := 0; ; attempt++ {
		rctx, cancel := context.WithTimeout(ctx, limit)
		err := try(rctx)
		cancel()
		if err == nil || !errors.Is(err, errAgain) {
			return err
		}
		if ctx.Err() != nil && last != nil {
			err = last // what came before says more than "cancelled"
		}
		last = err
		if tell, ok := ctx.Value(tellKey{}).(func(string)); ok && time.Since(start) > noticeAfter {
			tell(err.Error())
		}
		if now := time.Now(); now.Sub(start) > patience && now.Sub(warned) > patience {
			warned = now
			log.Warn("still repeating", "operation", op, "since", now.Sub(start).Round(time.Second).String(), "error", err)
		}
		if !sleep(ctx, backoff(attempt)) {
			return &semantics.Error{Class: semantics.Unknown, Op: op, Err: fmt.Errorf("%w; last: %w", context.Cause(ctx), err)}
		}
	}
}
