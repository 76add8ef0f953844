package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// Producer is the sink's batch producer (bridge.Writer). Write, Flush and Failed are for many goroutines; Begin and close are for
// the driver alone, and never while a Write is under way. Flush waits for what was written before it.
//
// Order: a batch of a sink partition is sent only after the one before it is acknowledged, and the same bytes with the
// same sequence are sent until then. Whatever else a broker answers fails the epoch.
type Producer struct {
	opts        Options
	cl          *kgo.Client
	leaders     *leaders
	coordinator *Coordinator
	topics      *Topics
	log         hclog.Logger
	budget      budget

	mu     sync.Mutex
	run    *run                             // nil before the first Begin and after close
	used   map[string]semantics.Transaction // by transactional id: the last one that batches were written in
	floors map[partitionKey]int64           // the least offset that the next append can have, from earlier runs
}

func newProducer(opts Options, cl *kgo.Client, l *leaders, c *Coordinator, t *Topics, log hclog.Logger) *Producer {
	return &Producer{
		opts: opts, cl: cl, leaders: l, coordinator: c, topics: t, log: log.Named("producer"),
		budget: budget{max: opts.MaxInFlight},
		used:   map[string]semantics.Transaction{}, floors: map[partitionKey]int64{},
	}
}

var (
	errAbandoned = errors.New("the epoch was abandoned")
	errNotBegun  = errors.New("no epoch has begun")
)

// Begin makes tx the transaction of every later Write, with sequences from 0. Under None and AtLeastOnce tx is zero.
// What an earlier Begin left unsent is thrown away and released, after its requests in flight have returned.
func (p *Producer) Begin(ctx context.Context, tx semantics.Transaction) error {
	p.Abandon()
	id, err := p.identity(ctx, tx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.used[tx.ID]; ok && id.transactional && last.Same(tx) {
		// Sequences would start at 0 again under the same producer epoch: a broker takes such a batch for a repeat of an
		// old one, acknowledges it, and drops it (I6).
		return semantics.Refuse("begin an epoch", "transaction %s was written in already: it needs a fresh epoch (Refresh, Fence or End's next)", tx)
	}
	p.run = newRun(p, tx, id)
	return nil
}

// identity is who the batches of a Begin come from.
type identity struct {
	producerID    int64
	producerEpoch int16
	sequenced     bool // the broker checks sequences
	transactional bool
	explicit      bool // partitions are added with AddPartitionsToTxn
	acks          int16
}

func (p *Producer) identity(ctx context.Context, tx semantics.Transaction) (identity, error) {
	const op = "begin an epoch"
	switch p.opts.Semantic {
	case semantics.None:
		return identity{producerID: -1, producerEpoch: -1, acks: 1}, nil
	case semantics.AtLeastOnce:
		id, epoch, err := p.initIdempotent(ctx)
		return identity{producerID: id, producerEpoch: epoch, sequenced: true, acks: -1}, err
	case semantics.ExactlyOnce:
		if tx.ID == "" || tx.ProducerID < 0 || tx.ProducerEpoch < 0 || tx.EndTxnVersion < 1 {
			return identity{}, &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitRefused, Op: op, Err: fmt.Errorf("transaction %s is not complete", tx)}
		}
		return identity{
			producerID: tx.ProducerID, producerEpoch: tx.ProducerEpoch, sequenced: true, transactional: true,
			// v5 of EndTxn is chosen exactly where transaction.version is 2, which adds partitions implicitly.
			explicit: tx.EndTxnVersion < 5, acks: -1,
		}, nil
	default:
		return identity{}, &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitUsage, Op: op, Err: fmt.Errorf("semantic %s", p.opts.Semantic)}
	}
}

// initIdempotent gets a producer id without a transactional id. Each Begin takes a new one: the old one's sequences
// are lost with the batches that were thrown away.
func (p *Producer) initIdempotent(ctx context.Context) (id int64, epoch int16, err error) {
	const op = "initialise an idempotent producer"
	err = repeat(ctx, p.log, op, func(ctx context.Context) error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = -1
		resp, err := req.RequestWith(ctx, p.cl)
		if err != nil {
			return again(err)
		}
		if resp.ErrorCode != 0 {
			err := codeError(op, resp.ErrorCode, resource{"cluster", "kafka-cluster", "IDEMPOTENT_WRITE"}, "WRITE on a topic of the sink suffices, too, since Kafka 2.8")
			if meaningOf(resp.ErrorCode).class == semantics.Fatal {
				return err
			}
			return again(err) // a producer id that nobody uses costs nothing
		}
		id, epoch = resp.ProducerID, resp.ProducerEpoch
		return nil
	})
	return id, epoch, err
}

// Write queues b for its sink partition. It blocks while too many bytes are in flight. Producer owns b.Raw until it
// calls b.Release, exactly once, whatever Write returns.
func (p *Producer) Write(ctx context.Context, b batch.Outbound) error {
	r := p.current()
	if r == nil {
		b.Release()
		return &semantics.Error{Class: semantics.Retry, Op: "write a batch", Err: errNotBegun}
	}
	if len(b.Raw) < batch.HeaderSize || b.Records < 1 {
		b.Release()
		err := semantics.Refuse("write a batch", "%s: %d bytes and %d records are no batch", describe(b), len(b.Raw), b.Records)
		r.fail(err)
		return err
	}
	n := int64(len(b.Raw))
	if !p.budget.acquire(ctx, r.failed, n) {
		b.Release()
		// Also when the caller only gave up: a later Flush must not call an epoch complete that lacks this batch (I5).
		r.fail(lostAnswer("write a batch", fmt.Errorf("%s: %w", describe(b), context.Cause(ctx))))
		return r.failure()
	}
	return r.enqueue(&pending{out: b, budgeted: n})
}

// Flush waits until every batch since Begin is acknowledged; sent says whether there was any.
func (p *Producer) Flush(ctx context.Context) (sent bool, err error) {
	r := p.current()
	if r == nil {
		return false, &semantics.Error{Class: semantics.Retry, Op: "flush", Err: errNotBegun}
	}
	return r.flush(ctx)
}

// Failed is closed after the first batch since Begin that cannot be acknowledged any more.
func (p *Producer) Failed() <-chan struct{} {
	if r := p.current(); r != nil {
		return r.failed
	}
	return nil // blocks for ever: nothing can fail before Begin
}

// append sends b alone in tx and returns its offset. The caller has flushed.
func (p *Producer) append(ctx context.Context, tx semantics.Transaction, b batch.Outbound) (int64, error) {
	r := p.current()
	if r == nil || !r.tx.Same(tx) {
		b.Release()
		return -1, semantics.Refuse("append to the ledger", "the open transaction is not %s", tx)
	}
	item := &pending{out: b, acked: make(chan int64, 1)}
	if err := r.enqueue(item); err != nil {
		return -1, err
	}
	select {
	case offset := <-item.acked:
		return offset, nil
	case <-r.failed:
		return -1, r.failure()
	case <-ctx.Done():
		err := lostAnswer("append to the ledger", fmt.Errorf("%s: %w", describe(b), context.Cause(ctx)))
		r.fail(err) // nobody waits for it any more: it must not be taken for part of the transaction later
		return -1, err
	}
}

func (p *Producer) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// Abandon ends what the last Begin began, waits for its requests in flight, and releases its batches. Until the next Begin, Write and Flush
// fail.
func (p *Producer) Abandon() {
	p.mu.Lock()
	r := p.run
	p.run = nil
	p.mu.Unlock()
	if r == nil {
		return
	}
	r.abandon()
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.written {
		p.used[r.tx.ID] = r.tx
	}
	for key, part := range r.partitions {
		p.floors[key] = part.next
	}
	for key := range p.floors {
		if slices.Contains(r.lossy, key.topic) {
			delete(p.floors, key)
		}
	}
}

// floor is the least offset that the next append to a partition can have.
func (p *Producer) floor(key partitionKey) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.floors[key]
}

func (p *Producer) close() error {
	p.Abandon()
	return nil
}

// describe names a batch in messages.
func describe(b batch.Outbound) string {
	sink := fmt.Sprintf("sink %s/%d", b.Topic, b.Partition)
	if b.SourceTopic == "" {
		return sink
	}
	return fmt.Sprintf("%s, records of source %s/%d offsets %d to %d", sink, b.SourceTopic, b.SourcePartition, b.FirstOffset, b.LastOffset)
}

// tooLarge says whether a code is about sizes.
func tooLarge(code int16) bool {
	err := kerr.ErrorForCode(code)
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}
