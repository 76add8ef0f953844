package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Who holds a last stable offset is asked seldom, for few partitions and only when it lasts: the question goes to every broker and is
// for people alone.
const (
	heldAfter   = 5 * time.Second  // a shorter time is ordinary: every transaction holds its partitions until it ends
	heldLook    = 5 * time.Second  // how often the partitions are looked at, without a request
	heldEvery   = 15 * time.Second // between two rounds of requests
	heldAsked   = 32               // partitions in one round, those that are held longest
	heldTimeout = 5 * time.Second  // of one round
)

// Holder is the open transaction that holds the last stable offset of a partition.
type Holder struct {
	TransactionalID string `json:"transactional_id,omitempty"` // empty: the cluster does not tell it
	ProducerID      int64  `json:"producer_id"`
	SinceMs         int64  `json:"since_ms,omitempty"` // when the transaction began, its coordinator's clock, Unix milliseconds; 0: not known
	Own             bool   `json:"own"`                // it is this bridge's
}

// String names the holder in sentences.
func (h *Holder) String() string {
	switch {
	case h == nil:
		return "an unknown transactional id"
	case h.TransactionalID == "":
		return fmt.Sprintf("producer id %d (no transactional id that may be seen has it)", h.ProducerID)
	case h.Own:
		return fmt.Sprintf("this bridge's own transactional id %q", h.TransactionalID)
	default:
		return fmt.Sprintf("transactional id %q", h.TransactionalID)
	}
}

// noteHeld notes since when the last stable offset stands still behind the end of the log; before is the one that was answered
// before. The caller holds mu.
func (r *sourceRun) noteHeld(p *partition, before int64) {
	switch {
	case !r.s.o.ReadCommitted || p.stable < 0 || p.stable >= p.highWatermark:
		p.heldSince, p.holder = time.Time{}, nil
	case p.stable != before || p.heldSince.IsZero():
		p.heldSince, p.holder = time.Now(), nil
	}
}

// held is how long the last stable offset has stood still; 0 while that is ordinary. The caller holds mu.
func (p *partition) held() time.Duration {
	if d := time.Since(p.heldSince); !p.heldSince.IsZero() && d >= heldAfter {
		return d
	}
	return 0
}

// watchHeld finds out who holds partitions back, for as long as the run lasts.
func (r *sourceRun) watchHeld(ctx context.Context) {
	defer r.wg.Done()
	look := time.NewTicker(heldLook)
	defer look.Stop()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		held := r.heldLongest()
		if len(held) == 0 || !asked.IsZero() && time.Since(asked) < heldEvery {
			continue
		}
		asked = time.Now()
		r.askHolders(ctx, asked, held)
	}
}

// heldLongest are the partitions that a round asks about.
func (r *sourceRun) heldLongest() []topicPartition {
	r.mu.Lock()
	defer r.mu.Unlock()
	var held []*partition
	for _, p := range r.partitions {
		if p.held() > 0 {
			held = append(held, p)
		}
	}
	slices.SortFunc(held, func(a, b *partition) int {
		return cmp.Or(a.heldSince.Compare(b.heldSince), compareTopicPartitions(a.key, b.key))
	})
	var keys []topicPartition
	for _, p := range held[:min(len(held), heldAsked)] {
		keys = append(keys, p.key)
	}
	return keys
}

func (r *sourceRun) askHolders(ctx context.Context, asked time.Time, held []topicPartition) {
	round, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	holders, err := r.s.findHolders(round, held)
	if ctx.Err() != nil {
		return
	}
	r.s.holdersUnknown(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range held {
		// A partition whose last stable offset has moved meanwhile is held by another transaction, or by none.
		if p := r.partitions[k]; p != nil && !p.heldSince.IsZero() && p.heldSince.Before(asked) {
			p.holder = holders[k]
		}
	}
}

// tellHeld warns about what lies behind open transactions at the ends of --until-end: it is not waited for, and whoever counts records
// after a run that went well would take it for lost. It only informs, so what cannot be asked is left out.
func (s *source) tellHeld(ctx context.Context, keys []topicPartition, stable map[topicPartition]listed) {
	round, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	ends, err := s.listOffsets(round, keys, listLatest, false)
	if err != nil {
		return
	}
	var held []topicPartition
	records := int64(0)
	for _, k := range keys {
		if n := ends[k].offset - stable[k].offset; ends[k].err == nil && n > 0 {
			held = append(held, k)
			records += n
		}
	}
	if len(held) == 0 {
		return
	}
	slices.SortFunc(held, compareTopicPartitions)
	holders, _ := s.findHolders(round, held[:min(len(held), heldAsked)])
	s.log.Warn("open transactions hold records back, which are not waited for; they are moved by a later run, once those have ended",
		"partitions", len(held), "records_at_most", records, "first", held[0].String(), "held_by", holders[held[0]].String())
}

// findHolders asks the partitions' leaders for the producer of the oldest open transaction, and the coordinators for its name and
// its beginning. What could be found out is returned also with an error.
func (s *source) findHolders(ctx context.Context, held []topicPartition) (map[topicPartition]*Holder, error) {
	adm := kadm.NewClient(s.cl)
	var set kadm.TopicsSet
	for _, k := range held {
		set.Add(k.topic, k.partition)
	}
	described, err := adm.DescribeProducers(ctx, set)
	holders := map[topicPartition]*Holder{}
	first := map[topicPartition]int64{}
	var producers []int64
	for topic, t := range described {
		for number, p := range t.Partitions {
			err = cmp.Or(err, p.Err)
			k := topicPartition{topic, number}
			for _, a := range p.ActiveProducers {
				if at, ok := first[k]; a.CurrentTxnStartOffset < 0 || ok && at <= a.CurrentTxnStartOffset {
					continue
				}
				first[k], holders[k] = a.CurrentTxnStartOffset, &Holder{ProducerID: a.ProducerID}
			}
		}
	}
	for _, h := range holders {
		producers = append(producers, h.ProducerID)
	}
	if len(producers) == 0 {
		return holders, err
	}
	return holders, cmp.Or(err, s.nameHolders(ctx, adm, producers, holders))
}

// nameHolders fills in transactional ids and times, as far as this user may see them.
func (s *source) nameHolders(ctx context.Context, adm *kadm.Client, producers []int64, holders map[topicPartition]*Holder) error {
	listed, err := adm.ListTransactions(ctx, producers, nil)
	ids := map[int64]string{}
	for id, l := range listed {
		if slices.Contains(producers, l.ProducerID) {
			ids[l.ProducerID] = id
		}
	}
	if len(ids) == 0 {
		return err
	}
	var names []string // never empty: kadm would describe every transaction of the cluster
	for _, id := range ids {
		names = append(names, id)
	}
	described, derr := adm.DescribeTransactions(ctx, names...)
	for _, h := range holders {
		h.TransactionalID = ids[h.ProducerID]
		h.Own = slices.Contains(s.own, h.TransactionalID)
		if d, ok := described[h.TransactionalID]; ok && d.Err == nil && d.ProducerID == h.ProducerID {
			h.SinceMs = max(0, d.StartTimestamp)
		}
	}
	return cmp.Or(err, derr)
}

// holdersUnknown notes why holders cannot be found out, and says it once: it is no failure of the bridge, and lasts.
func (s *source) holdersUnknown(err error) {
	why := ""
	if err != nil {
		why = "who holds open transactions cannot be fully asked (brokers from 2.8 tell producer ids, from 3.0 transactional ids; Read on the topic is needed): " + err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			why = "who holds open transactions was not answered in time"
		}
	}
	s.mu.Lock()
	first := why != "" && !s.saidHolders
	s.holders = why
	s.saidHolders = s.saidHolders || first
	s.mu.Unlock()
	if first {
		s.log.Info("holders of open transactions are shown as far as the cluster tells them", "reason", why)
	}
}
