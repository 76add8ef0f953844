package txn

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// run is everything between two Begins: one transaction, or one life of an idempotent producer.
type run struct {
	p      *Producer
	tx     semantics.Transaction
	id     identity
	ctx    context.Context // ends when the run fails or is abandoned
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // senders, requests, locators
	failed chan struct{}  // closed by the first failure

	adding chan struct{} // one token: AddPartitionsToTxn one at a time

	mu         sync.Mutex
	err        error
	partitions map[partitionKey]*partition
	senders    map[int32]*sender
	unacked    int           // batches queued or in flight
	written    bool          // a batch was ever queued
	lossy      []string      // topics that gave an acknowledged offset out again
	idle       chan struct{} // non-nil while somebody waits for unacked == 0
}

type partitionKey struct {
	topic     string
	partition int32
}

// partition is the queue of one sink partition. At any time it is idle, or in exactly one of: a sender's ready list, a
// request, a locator. Only who has it touches what is not guarded by run.mu.
type partition struct {
	partitionKey

	queue []*pending // guarded by run.mu; the head is what is being sent
	busy  bool       // guarded by run.mu
	added bool       // guarded by run.mu; part of the transaction on the coordinator

	sequence int32     // of the next batch that was never sent
	next     int64     // the least offset that the next append can have
	attempts int       // of the head
	since    time.Time // when the head was first tried
	lastErr  error     // why the head is not acknowledged
}

// pending is a batch on its way.
type pending struct {
	out      batch.Outbound
	budgeted int64 // bytes to give back to the budget
	stamped  bool
	acked    chan int64 // receives the offset; nil when nobody asks
}

func newRun(p *Producer, tx semantics.Transaction, id identity) *run {
	ctx, cancel := context.WithCancelCause(context.Background()) // not Begin's context: the run outlives that call
	return &run{
		p: p, tx: tx, id: id, ctx: ctx, cancel: cancel,
		failed: make(chan struct{}), adding: make(chan struct{}, 1),
		partitions: map[partitionKey]*partition{}, senders: map[int32]*sender{},
	}
}

// enqueue takes over item. An error means that the run has failed; item is released then.
func (r *run) enqueue(item *pending) error {
	key := partitionKey{item.out.Topic, item.out.Partition}
	r.mu.Lock()
	if err := r.err; err != nil {
		r.mu.Unlock()
		r.discard(item)
		return err
	}
	part := r.partitions[key]
	if part == nil {
		part = &partition{partitionKey: key, next: r.p.floor(key)}
		r.partitions[key] = part
	}
	part.queue = append(part.queue, item)
	r.unacked++
	r.written = true
	start := !part.busy
	part.busy = true
	r.mu.Unlock()
	if start {
		r.schedule(part)
	}
	return nil
}

// schedule hands a busy partition with a head to its leader's sender, or has it located.
func (r *run) schedule(part *partition) {
	if part.since.IsZero() {
		part.since = time.Now()
	}
	if led, ok := r.p.leaders.get(part.topic, part.partition); ok {
		r.senderOf(led.node).push(part)
		return
	}
	r.wg.Go(func() { r.locate([]*partition{part}, part.since) })
}

// locate finds the leaders of partitions whose leader is unknown or has just failed to append, and schedules them.
// since is the moment after which metadata must have been asked.
func (r *run) locate(parts []*partition, since time.Time) {
	for len(parts) > 0 {
		pause := 0
		topics := make(map[string]bool)
		for _, part := range parts {
			if time.Since(part.since) > r.p.opts.DeliveryTimeout {
				r.fail(r.undelivered(part))
				return
			}
			pause = max(pause, part.attempts)
			topics[part.topic] = true
		}
		if pause > 0 && !sleep(r.ctx, backoff(pause-1)) {
			return // abandon releases what the partitions hold
		}
		names := make([]string, 0, len(topics))
		for t := range topics {
			names = append(names, t)
		}
		err := r.p.leaders.refresh(r.ctx, since, names...)
		if semantics.ClassOf(err) == semantics.Fatal && err != nil {
			r.fail(err)
			return
		}
		parts = r.dispatch(parts, err)
		since = time.Now()
	}
}

// dispatch schedules those partitions that have a leader and returns the others.
func (r *run) dispatch(parts []*partition, err error) []*partition {
	var homeless []*partition
	for _, part := range parts {
		led, ok := r.p.leaders.get(part.topic, part.partition)
		if ok && err == nil {
			r.senderOf(led.node).push(part)
			continue
		}
		part.attempts++
		switch {
		case err != nil:
			part.lastErr = err
		default:
			part.lastErr = fmt.Errorf("metadata names no leader of %s/%d", part.topic, part.partition)
		}
		homeless = append(homeless, part)
	}
	return homeless
}

func (r *run) undelivered(part *partition) error {
	r.mu.Lock()
	out := part.queue[0].out
	r.mu.Unlock()
	return lostAnswer("produce", fmt.Errorf("%s: not acknowledged within %s after %d attempts; last: %w",
		describe(out), r.p.opts.DeliveryTimeout, part.attempts, part.lastErr))
}

// ack takes the head of part, which was appended at base, off the queue.
func (r *run) ack(part *partition, base int64) {
	part.attempts, part.since, part.lastErr = 0, time.Time{}, nil
	r.mu.Lock()
	item := part.queue[0]
	part.queue[0] = nil
	part.queue = part.queue[1:]
	more := len(part.queue) > 0
	part.busy = more
	r.mu.Unlock()
	r.discard(item)
	if item.acked != nil {
		item.acked <- base
	}
	r.mu.Lock()
	r.unacked-- // after the release: a flushed epoch holds no memory
	if r.unacked == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
	r.mu.Unlock()
	if more {
		r.schedule(part)
	}
}

// discard gives a batch's memory back. Nobody else holds item any more.
func (r *run) discard(item *pending) {
	item.out.Release()
	if item.budgeted > 0 {
		r.p.budget.release(item.budgeted)
	}
}

// fail records the first failure of the run and cancels its requests.
func (r *run) fail(err error) {
	r.mu.Lock()
	first := r.err == nil
	if first {
		r.err = err
	}
	r.mu.Unlock()
	if first {
		close(r.failed)
		r.cancel(err)
	}
}

// loses notes that a topic has lost acknowledged records.
func (r *run) loses(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lossy = append(r.lossy, topic)
}

func (r *run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// flush waits for the acknowledgement of everything.
func (r *run) flush(ctx context.Context) (sent bool, err error) {
	for {
		r.mu.Lock()
		sent, err = r.written, r.err
		done := err != nil || r.unacked == 0
		if r.idle == nil && !done {
			r.idle = make(chan struct{})
		}
		idle := r.idle
		r.mu.Unlock()
		if done {
			return sent, err
		}
		select {
		case <-idle:
		case <-r.failed:
		case <-ctx.Done():
			return sent, lostAnswer("flush", fmt.Errorf("%d batches are not acknowledged: %w", r.left(), context.Cause(ctx)))
		}
	}
}

func (r *run) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unacked
}

// abandon ends the run, waits for its goroutines and releases what is left. The wait matters: a request's buffer may
// only be used again when the client has let go of it.
func (r *run) abandon() {
	r.fail(lostAnswer("produce", errAbandoned))
	r.wg.Wait()
	r.mu.Lock()
	var left []*pending
	for _, part := range r.partitions {
		left = append(left, part.queue...)
		part.queue = nil
	}
	r.mu.Unlock()
	for _, item := range left {
		r.discard(item)
	}
}

// advance is the sequence n records after seq; it wraps at 2^31 (Kafka DefaultRecordBatch.incrementSequence).
func advance(seq, n int32) int32 {
	return int32((int64(seq) + int64(n)) & math.MaxInt32)
}
