package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafkabridge/semantics"
)

// keep is the keeper: it asks for metadata at once, every Discover, and whenever a partition is in trouble, and repeats
// with growing pauses until none is.
func (r *sourceRun) keep(ctx context.Context) {
	defer r.wg.Done()
	delay := retryMin
	for {
		again, err := r.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && semantics.ClassOf(err) == semantics.Fatal:
			r.fail(err)
			return
		case err != nil:
			if r.setWaiting(err.Error()) {
				r.s.log.Warn("cannot look after the source's partitions, trying again", "error", err)
			}
		default:
			r.setWaiting("")
		}
		if err != nil || again {
			pause(ctx, delay)
			delay = min(2*delay, retryMax)
			continue
		}
		began := time.Now()
		if !r.sleep(ctx) {
			return
		}
		// A partition that gets into trouble again and again must not turn this into a storm of requests.
		if time.Since(began) > retryMax {
			delay = retryMin
			continue
		}
		pause(ctx, delay)
		delay = min(2*delay, retryMax)
	}
}

// sleep waits for trouble or the next discovery; false when ctx ends.
func (r *sourceRun) sleep(ctx context.Context) bool {
	t := time.NewTimer(r.s.o.Discover)
	defer t.Stop()
	select {
	case <-r.refresh:
		return true
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *sourceRun) wakeKeeper() {
	select {
	case r.refresh <- struct{}{}:
	default: // it is woken already
	}
}

// setWaiting says whether that is news.
func (r *sourceRun) setWaiting(why string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.waiting != why
	r.waiting = why
	return news
}

// findings are what one look has to ask the leaders about.
type findings struct {
	fresh      []topicPartition // not known yet
	outOfRange []topicPartition
	checkEnd   []topicPartition
	again      bool // something is not as it should be: look again soon
}

// look refreshes leaders, finds new partitions and sees to those in trouble. again asks for another look soon.
func (r *sourceRun) look(ctx context.Context) (again bool, err error) {
	found, err := r.s.lookup(ctx)
	if err != nil {
		return true, err
	}
	f, err := r.reconcile(found)
	if err != nil {
		return true, err
	}
	if err := r.addFresh(ctx, found, f); err != nil {
		return true, err
	}
	if err := r.seeToRange(ctx, found, f); err != nil {
		return true, err
	}
	if err := r.seeToEnd(ctx, f); err != nil {
		return true, err
	}
	r.startFetchers(ctx)
	return f.again, nil
}

// addFresh takes in partitions that were found at run time, at their log start: nothing of them may be left out.
func (r *sourceRun) addFresh(ctx context.Context, found map[string]topicInfo, f *findings) error {
	starts, err := r.s.listOffsets(ctx, f.fresh, listEarliest, false)
	if err != nil {
		return r.s.classify("discover", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, l := range starts {
		if l.err != nil {
			f.again = true // not lost: it stays unknown until its log start is known
			continue
		}
		info := found[k.topic]
		r.add(k, info.id, int32(len(info.partitions)), semantics.Position{Offset: l.offset, LeaderEpoch: -1})
		p := r.partitions[k]
		r.lead(p, info, f)
		r.s.log.Info("found a partition", "topic", k.topic, "partition", k.partition, "offset", l.offset)
	}
	return nil
}

// seeToRange decides what OFFSET_OUT_OF_RANGE means.
func (r *sourceRun) seeToRange(ctx context.Context, found map[string]topicInfo, f *findings) error {
	epochs := r.leadersSince(found, f.outOfRange)
	starts, err := r.s.listOffsetsSince(ctx, f.outOfRange, epochs, listEarliest, false)
	if err != nil {
		return r.s.classify("list offsets", err)
	}
	ends, err := r.s.listOffsetsSince(ctx, f.outOfRange, epochs, listLatest, false)
	if err != nil {
		return r.s.classify("list offsets", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range f.outOfRange {
		p, ok := r.partitions[k]
		start, end := starts[k], ends[k]
		if !ok || start.err != nil || end.err != nil {
			if ok {
				p.waiting = cmpErr(start.err, end.err).Error()
			}
			f.again = true
			continue
		}
		gap, resume := outOfRange(r.s.o.Name, k, p.position.Offset, start.offset, end.offset)
		if gap == nil {
			// The broker no longer knows the leader epoch of what was read (its history begins later), or the
			// end was not known yet: ask without the epoch.
			p.position.LeaderEpoch = -1
			p.restart()
			p.trouble = healthy
			continue
		}
		if err := r.s.gap(*gap, resume); err != nil {
			return err
		}
		p.moveTo(resume)
		p.trouble = healthy
	}
	return nil
}

func (r *sourceRun) leadersSince(found map[string]topicInfo, keys []topicPartition) map[topicPartition]int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	epochs := map[topicPartition]int32{}
	for _, k := range keys {
		if p, ok := r.partitions[k]; ok && p.id == found[k.topic].id {
			epochs[k] = leaderSince(found[k.topic], k.partition, p.position)
		}
	}
	return epochs
}

// seeToEnd moves positions over the gap at a compacted log's end. Records that are only in tiered storage also may take
// several empty answers to come, so the position must be in the local log.
func (r *sourceRun) seeToEnd(ctx context.Context, f *findings) error {
	locals, err := r.s.listOffsets(ctx, f.checkEnd, listEarliestLocal, false)
	if err != nil {
		return r.s.classify("list offsets", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range f.checkEnd {
		p, ok := r.partitions[k]
		if !ok {
			continue
		}
		local := locals[k]
		if errors.Is(local.err, kerr.UnsupportedVersion) {
			local = listed{offset: 0} // such a broker has no tiered storage
		}
		switch {
		case local.err != nil:
			f.again = true
			continue
		case local.offset <= p.position.Offset && p.emptyEnd > p.position.Offset:
			r.s.log.Debug("nothing is left below the end", "topic", k.topic, "partition", k.partition, "offset", p.position.Offset, "end", p.emptyEnd)
			// Without a leader epoch: those of the batches that are gone are not known, and an older one
			// would look like a truncation.
			p.moveTo(p.emptyEnd)
		default:
			p.restart()
		}
		p.trouble = healthy
	}
	return nil
}

// startFetchers starts a fetch loop for each broker that leads something, and wakes all.
func (r *sourceRun) startFetchers(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.partitions {
		if _, ok := r.fetchers[p.leader]; ok || p.leader < 0 {
			continue
		}
		f := &fetcher{r: r, broker: p.leader, wake: make(chan struct{}, 1), index: map[fetchKey]int{}}
		r.fetchers[p.leader] = f
		r.wg.Add(1)
		go f.loop(ctx)
	}
	for _, f := range r.fetchers {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}
