package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxPartitions keeps the timestamps of partitions apart.
const maxPartitions = 1000

func (p *Plan) timestamp(partition int32, seq int) time.Time {
	epoch := defaultEpoch()
	if !p.Epoch.IsZero() {
		epoch = p.Epoch.UnixMilli()
	}
	return time.UnixMilli(epoch + int64(seq)*maxPartitions + int64(partition))
}

// Produce writes the plan's records and returns what was acknowledged. Any record that is not ends it with an
// error. Every batch has exactly the size that the plan says (or less, at the end of a transaction).
func Produce(ctx context.Context, p Plan) (Count, error) {
	p.ensureDefaults()
	w := &writer{plan: p}
	defer w.close()
	for done := 0; done < p.Records; {
		n := p.Records - done
		if p.TransactionRecords > 0 {
			n = min(n, p.TransactionRecords)
		}
		if err := w.stretch(ctx, p.First+done, n); err != nil {
			return w.count, fmt.Errorf("traffic for %s: %w", p.Topic, err)
		}
		done += n
	}
	return w.count, nil
}

type writer struct {
	plan    Plan
	clients []*kgo.Client // one per codec: kgo's codec is the client's
	batch   int           // number of the next batch
	tx      int           // number of the current transaction, from 1
	start   time.Time
	count   Count
}

func (w *writer) close() {
	for _, cl := range w.clients {
		if cl != nil {
			cl.Close()
		}
	}
}

// stretch writes n records to every partition, in one transaction if the plan has any.
func (w *writer) stretch(ctx context.Context, first, n int) error {
	w.tx++
	transactional := w.plan.TransactionRecords > 0
	abort := transactional && w.plan.AbortEvery > 0 && w.tx%w.plan.AbortEvery == 0
	cl, err := w.client()
	if err != nil {
		return err
	}
	if transactional {
		if err := cl.BeginTransaction(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	for done := 0; done < n; {
		size := min(n-done, w.plan.Batches[w.batch%len(w.plan.Batches)])
		if !transactional {
			if cl, err = w.client(); err != nil {
				return err
			}
		}
		if err := w.flushBatches(ctx, cl, first+done, size, abort); err != nil {
			return err
		}
		w.batch++
		done += size
	}
	if transactional {
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(!abort)); err != nil {
			return fmt.Errorf("end: %w", err)
		}
	}
	return nil
}

// flushBatches writes one batch of size records to each partition.
func (w *writer) flushBatches(ctx context.Context, cl *kgo.Client, first, size int, aborted bool) error {
	failed := make(chan error, 1)
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	}
	for _, partition := range w.plan.Partitions {
		for i := range size {
			cl.Produce(ctx, w.plan.Record(partition, first+i, aborted), promise)
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("sequence %d and on: %w", first, err)
	default:
	}
	if aborted {
		w.count.Aborted += size * len(w.plan.Partitions)
	} else {
		w.count.Committed += size * len(w.plan.Partitions)
	}
	w.count.Batches += len(w.plan.Partitions)
	return w.pace(ctx)
}

// pace holds the plan's rate.
func (w *writer) pace(ctx context.Context) error {
	if w.plan.PerSecond == 0 {
		return nil
	}
	if w.start.IsZero() {
		w.start = time.Now()
	}
	due := w.start.Add(time.Duration(w.count.Committed+w.count.Aborted) * time.Second / time.Duration(w.plan.PerSecond))
	select {
	case <-time.After(time.Until(due)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// client returns the client whose turn it is; a codec keeps its client.
func (w *writer) client() (*kgo.Client, error) {
	codecs := w.plan.Codecs
	if w.clients == nil {
		w.clients = make([]*kgo.Client, len(codecs))
	}
	turn := w.batch % len(codecs)
	if w.plan.TransactionRecords > 0 {
		turn = (w.tx - 1) % len(codecs)
	}
	if w.clients[turn] != nil {
		return w.clients[turn], nil
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(w.plan.Bootstrap...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ManualFlushing(), // a batch is what lies between two flushes
		kgo.MaxBufferedRecords(1 << 20),
		kgo.ProducerBatchCompression(codecs[turn]),
		kgo.ProducerBatchMaxBytes(64 << 20), // brokers still refuse what their topic does
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if w.plan.TransactionRecords > 0 {
		opts = append(opts, kgo.TransactionalID(fmt.Sprintf("traffic-%s-%s-%d", w.plan.Topic, w.plan.Source, turn)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	w.clients[turn] = cl
	return cl, nil
}
