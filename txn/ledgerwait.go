package txn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

const (
	noticeAfter = 2 * time.Second // a shorter wait is ordinary: markers on their way
	noticeEvery = 5 * time.Second
)

// waitNotice tells who holds the ledger's last stable offset (I10: what waits for long is visible with its reason).
type waitNotice struct {
	l     *Ledger
	tell  func(reason string)
	since time.Time
	last  time.Time
}

// note is called while s cannot go on.
func (w *waitNotice) note(ctx context.Context, s *scan) {
	now := time.Now()
	if w.since.IsZero() {
		w.since = now
	}
	if w.tell == nil || now.Sub(w.since) < noticeAfter || now.Sub(w.last) < noticeEvery {
		return
	}
	w.last = now
	holder := w.l.holder(ctx)
	w.tell(fmt.Sprintf("ledger topic %q: an open transaction of %s holds everything from offset %d to %d back; waiting for its end or timeout",
		w.l.topic, holder, s.next, s.target))
}

// over takes a notice back.
func (w *waitNotice) over() {
	if !w.last.IsZero() {
		w.tell("")
	}
}

// holder names the transactional ids with an open transaction in the ledger topic, as far as the cluster tells.
func (l *Ledger) holder(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, requestLimit/3)
	defer cancel()
	var set kadm.TopicsSet
	set.Add(l.topic, 0)
	described, err := l.adm.DescribeProducers(ctx, set)
	if err != nil {
		l.log.Debug("describe the producers of the ledger", "error", err)
		return "an unknown transactional id"
	}
	var producers []int64
	for _, t := range described {
		for _, p := range t.Partitions {
			for _, a := range p.ActiveProducers {
				if a.CurrentTxnStartOffset >= 0 {
					producers = append(producers, a.ProducerID)
				}
			}
		}
	}
	if len(producers) == 0 {
		return "an unknown transactional id"
	}
	listed, err := l.adm.ListTransactions(ctx, producers, nil)
	if err != nil || len(listed) == 0 {
		return fmt.Sprintf("producer id %v", producers)
	}
	var names []string
	for id := range listed {
		names = append(names, fmt.Sprintf("transactional id %q", id))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
