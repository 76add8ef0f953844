package bridge

import (
	"context"
	"errors"
	"fmt"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// take walks one answer.
func (r *sourceRun) take(ctx context.Context, a *answer) error {
	defer a.hold.release()
	for i := range a.pieces {
		p := &a.pieces[i]
		wanted, err := r.accept(a, p)
		if err != nil {
			return err
		}
		if !wanted {
			continue
		}
		if err := r.walk(ctx, a, p); err != nil {
			return err
		}
	}
	return nil
}

// walk hands the batches of a piece over, and advances the position over all of them: also over control and aborted
// ones, so that the lag behind them is 0.
func (r *sourceRun) walk(ctx context.Context, a *answer, pc *piece) error {
	var aborted abortedFilter
	if r.s.o.ReadCommitted {
		aborted = newAbortedFilter(pc.aborted)
	}
	p := pc.p
	wanted := pc.wanted
	for rest := pc.records; ; {
		h, raw, tail, err := batch.Next(rest)
		if err != nil {
			break // what it is the scan has told
		}
		rest = tail
		drop, err := aborted.drop(h, raw)
		if err != nil {
			return r.corrupt(p, err)
		}
		if h.NextOffset() <= wanted {
			continue // compressed answers may begin with batches before the wanted offset
		}
		if !drop && !h.IsControl() && h.NumRecords > 0 {
			if err := r.handOver(ctx, a, pc, h, raw, wanted); err != nil {
				return nil //nolint:nilerr // ctx ended
			}
		}
		wanted = h.NextOffset()
		if !r.advance(p, pc.generation, h, !drop && !h.IsControl()) {
			return nil
		}
	}
	if pc.scan.err != nil {
		return r.corrupt(p, pc.scan.err)
	}
	return nil
}

// handOver sends one batch, and barriers meanwhile: a slow sink must not hold up a barrier by more than the batch that
// it is at. The position does not count the batch before it is sent.
func (r *sourceRun) handOver(ctx context.Context, a *answer, pc *piece, h batch.Header, raw []byte, from int64) error {
	p := pc.p
	a.hold.refs.Add(1)
	d := delivery{batch: sourceBatch{
		source: r.s.o.Name, topic: p.key.topic, topicID: p.id, partition: p.key.partition, partitions: pc.count,
		header: h, raw: raw, from: from, release: a.release,
	}}
	for {
		select {
		case r.out[p.out] <- d:
			return nil
		case req := <-r.s.barriers:
			if err := r.sendBarrier(ctx, req); err != nil {
				a.hold.release()
				return err
			}
		case <-ctx.Done():
			a.hold.release()
			return context.Cause(ctx)
		}
	}
}

// advance moves the position behind a batch. It is false when fetching began anew meanwhile: what follows in this
// answer comes again.
func (r *sourceRun) advance(p *partition, generation int, h batch.Header, handed bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.position = semantics.Position{Offset: h.NextOffset(), LeaderEpoch: h.PartitionLeaderEpoch}
	if handed {
		p.records += int64(h.NumRecords)
		p.bytes += int64(h.Size())
		r.s.handed.Add(int64(h.NumRecords))
	}
	return p.generation == generation
}

// corrupt is the error of a batch that cannot be read. One that is damaged may be whole in the next answer; one in an old
// format stays what it is, and passing over it would lose its records.
func (r *sourceRun) corrupt(p *partition, err error) error {
	var old *batch.UnsupportedMagicError
	if errors.As(err, &old) {
		return semantics.Refuse("read source", "source %q: %s: %w; rewrite the topic with a producer of Kafka 0.11 or later, or begin behind offset %d (start_offsets)",
			r.s.o.Name, p.key, err, old.Offset)
	}
	return r.s.classify("read source", fmt.Errorf("%s: %w", p.key, err))
}
