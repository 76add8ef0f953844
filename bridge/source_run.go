package bridge

import (
	"context"
	"sync"
	"time"

	"kafkabridge/semantics"
)

// sourceRun is one run of the source task. Three kinds of goroutines work on it: the task (walks answers, hands batches
// over, alone advances positions while a partition is healthy), one fetch loop per broker, and the keeper (metadata, new
// partitions, partitions with trouble). mu guards the partitions; nobody holds it while sending or waiting.
type sourceRun struct {
	s       *source
	out     []chan<- delivery
	budget  *budget
	answers chan *answer  // unbuffered: one answer waits per broker while the task walks another
	refresh chan struct{} // wakes the keeper
	fail    context.CancelCauseFunc
	wg      sync.WaitGroup

	last barrierDone // of the task alone

	mu         sync.Mutex
	partitions map[topicPartition]*partition
	fetchers   map[int32]*fetcher
	ended      bool
	waiting    string // why the keeper waits; "" when it does not
	otherIDs   map[string]semantics.TopicID
}

type barrierRequest struct {
	epoch semantics.Epoch
	reply chan semantics.Positions // buffered, 1; closed when the run ended before the barrier was sent
}

type barrierDone struct {
	epoch semantics.Epoch
	pos   semantics.Positions
}

// partition is where one source partition stands. All but key, id and out is guarded by sourceRun.mu.
type partition struct {
	key topicPartition
	id  semantics.TopicID
	out int // map task

	count    int32 // partitions of the topic
	position semantics.Position
	// fetchOffset runs ahead of position by what was fetched and is not handed over yet.
	fetchOffset int64
	fetchEpoch  int32 // leader epoch of the batch before fetchOffset; -1 unknown
	// generation changes whenever fetching begins anew at position: pieces of an earlier one are thrown away.
	generation  int
	leader      int32 // -1: not known now
	leaderEpoch int32
	maxBytes    int32
	trouble     trouble
	missing     int   // looks in a row that did not find the topic
	stale       int   // looks in a row that told an earlier leader epoch
	empty       int   // answers in a row that were wholly empty although the end is behind the position
	emptyEnd    int64 // the end in the first of them
	waiting     string
	answered    time.Time // when its leader last answered for it without an error; when it was taken in before that
	heldSince   time.Time // since when stable stands still behind the end; zero when it does not
	holder      *Holder   // never changed; nil: not known

	logStart, highWatermark, stable int64 // as last answered; -1 before that
	counted
}

// counted are a partition's counters.
type counted struct {
	records, bytes int64
}

// trouble keeps a partition from being fetched until the keeper has seen to it.
type trouble uint8

const (
	healthy         trouble = iota
	troubleLeader           // the leader is not known or not this one
	troubleRange            // OFFSET_OUT_OF_RANGE: what does the log hold?
	troubleCheckEnd         // nothing comes although the end is not reached: a compaction gap?
	troubleAnswered         // an answer that tells of trouble is on its way to the task
)

func newSourceRun(s *source, pos semantics.Positions, out []chan<- delivery) *sourceRun {
	r := &sourceRun{
		s: s, out: out,
		budget:     newBudget(s.window),
		answers:    make(chan *answer),
		refresh:    make(chan struct{}, 1),
		partitions: map[topicPartition]*partition{},
		fetchers:   map[int32]*fetcher{},
		otherIDs:   map[string]semantics.TopicID{},
	}
	for st, tp := range pos {
		if st.Source != s.o.Name {
			continue
		}
		for p, at := range tp.Partitions {
			r.add(topicPartition{st.Topic, p}, tp.ID, int32(len(tp.Partitions)), at)
		}
	}
	return r
}

// add takes a partition in. The caller holds mu, or nobody else knows r yet.
func (r *sourceRun) add(k topicPartition, id semantics.TopicID, count int32, at semantics.Position) {
	r.partitions[k] = &partition{
		key: k, id: id, count: count, out: assign(r.s.o.Name, k.topic, k.partition, len(r.out)),
		position: at, fetchOffset: at.Offset, fetchEpoch: at.LeaderEpoch,
		leader: -1, leaderEpoch: -1, trouble: troubleLeader, maxBytes: min(partitionMaxBytes, r.s.o.FetchMaxBytes),
		logStart: -1, highWatermark: -1, stable: -1, answered: time.Now(),
	}
}

// restart makes fetching begin anew at the position. The caller holds mu.
func (p *partition) restart() {
	p.generation++
	p.fetchOffset, p.fetchEpoch = p.position.Offset, p.position.LeaderEpoch
	p.empty = 0
	if p.trouble == troubleAnswered {
		p.trouble = healthy // that answer is thrown away
	}
}

// moveTo puts the position behind a gap. The caller holds mu, and the task is not walking an answer of p.
func (p *partition) moveTo(offset int64) {
	p.position = semantics.Position{Offset: offset, LeaderEpoch: -1}
	p.restart()
}

// run is the task goroutine.
func (r *sourceRun) run(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer r.end()
	defer r.wg.Wait()
	defer cancel(nil)
	r.fail = cancel
	r.wg.Add(1)
	go r.keep(inner)
	if r.s.o.ReadCommitted {
		r.wg.Add(1)
		go r.watchHeld(inner)
	}
	err := r.task(inner)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	default:
		return context.Cause(inner) // what the keeper failed with
	}
}

func (r *sourceRun) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
}

// task walks answers and sends barriers until ctx ends or something fails.
func (r *sourceRun) task(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case req := <-r.s.barriers:
			if err := r.sendBarrier(ctx, req); err != nil {
				return nil //nolint:nilerr // ctx ended
			}
		case a := <-r.answers:
			if err := r.take(ctx, a); err != nil {
				return err
			}
		}
	}
}

// sendBarrier records the positions of exactly what was handed over, then sends the barrier down every channel.
func (r *sourceRun) sendBarrier(ctx context.Context, req barrierRequest) error {
	if r.last.epoch != req.epoch {
		r.last = barrierDone{epoch: req.epoch, pos: r.positions()}
		for _, ch := range r.out {
			select {
			case ch <- delivery{barrier: req.epoch}:
			case <-ctx.Done():
				close(req.reply)
				return context.Cause(ctx)
			}
		}
	}
	req.reply <- r.last.pos
	return nil
}

// positions are those of all partitions, also of topics that are gone: they may come back.
func (r *sourceRun) positions() semantics.Positions {
	r.mu.Lock()
	defer r.mu.Unlock()
	pos := semantics.Positions{}
	for k, p := range r.partitions {
		pos.Set(semantics.SourceTopic{Source: r.s.o.Name, Topic: k.topic}, p.id, k.partition, p.position)
	}
	return pos
}
