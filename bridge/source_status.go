package bridge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// stuckAfter is how long a partition may go without an answer before its bridge is not ready. A leader that moves takes a few seconds.
const stuckAfter = 10 * time.Second

// SourceStatus is what a source task shows. Offsets and counters are those of the moment of the call.
type SourceStatus struct {
	Name      string   `json:"name"`
	RecordsIn int64    `json:"records_in"` // of whole batches handed over, since the process began
	BytesIn   int64    `json:"bytes_in"`
	InFlight  int64    `json:"in_flight_bytes"` // fetched and not released
	Waiting   []string `json:"waiting,omitempty"`
	Stuck     string   `json:"stuck,omitempty"` // a partition that nobody has answered for in a while, and why
	Gaps      []Gap    `json:"gaps,omitempty"`  // the last ones
	GapCount  int64    `json:"gap_count"`
	// HoldersUnknown says why HeldBy is not known, or not fully.
	HoldersUnknown string            `json:"holders_unknown,omitempty"`
	Partitions     []PartitionStatus `json:"partitions"`
}

// PartitionStatus is one partition of a source. Offsets are -1 before the first answer.
type PartitionStatus struct {
	Topic         string `json:"topic"`
	Partition     int32  `json:"partition"`
	Position      int64  `json:"position"` // next offset to hand over; -1 between two runs
	LogStart      int64  `json:"log_start"`
	LastStable    int64  `json:"last_stable"`
	HighWatermark int64  `json:"high_watermark"`
	Lag           int64  `json:"lag"` // offsets up to what a reader of this isolation level can come to; -1 when not known
	RecordsIn     int64  `json:"records_in"`
	BytesIn       int64  `json:"bytes_in"`
	Gaps          int64  `json:"gaps"` // since the process began
	Waiting       string `json:"waiting,omitempty"`
	Gone          bool   `json:"gone,omitempty"` // the topic does not exist now; its position is kept
	// HeldSecs is for how long an open transaction has held the last stable offset where it is; 0 while that is ordinary.
	HeldSecs float64 `json:"held_seconds,omitempty"`
	HeldBy   *Holder `json:"held_by,omitempty"` // whose it is; nil: not known (yet)
}

// status is the state now, of the run that is on or was last. Safe from any goroutine. Between two runs positions and
// lags are -1: the next run goes on from what was stored, and nobody may take for done what an ended run handed over.
func (s *source) status() SourceStatus {
	st := SourceStatus{Name: s.o.Name, Partitions: []PartitionStatus{}}
	r := s.current.Load()
	s.mu.Lock()
	st.Gaps, st.GapCount, st.HoldersUnknown = slices.Clone(s.gaps), s.gapCount, s.holders
	gapsOf := maps.Clone(s.gapsOf)
	for _, c := range s.totals {
		st.RecordsIn += c.records
		st.BytesIn += c.bytes
	}
	s.mu.Unlock()
	if r == nil {
		return st
	}
	used, paused := r.budget.state()
	st.InFlight = used
	if paused {
		st.Waiting = append(st.Waiting, "fetching paused: sink slow")
	}
	r.describe(&st)
	for i := range st.Partitions {
		p := &st.Partitions[i]
		p.Gaps = gapsOf[topicPartition{p.Topic, p.Partition}]
	}
	slices.SortFunc(st.Partitions, func(a, b PartitionStatus) int {
		return compareTopicPartitions(topicPartition{a.Topic, a.Partition}, topicPartition{b.Topic, b.Partition})
	})
	slices.Sort(st.Waiting)
	return st
}

func (r *sourceRun) describe(st *SourceStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting != "" {
		st.Waiting = append(st.Waiting, r.waiting)
	}
	for _, f := range r.fetchers {
		if why := f.waiting(); why != "" {
			st.Waiting = append(st.Waiting, why)
		}
	}
	for k, p := range r.partitions {
		if why := r.stuck(p); why != "" && (st.Stuck == "" || why < st.Stuck) {
			st.Stuck = why
		}
		st.RecordsIn += p.records
		st.BytesIn += p.bytes
		total := r.s.total(k)
		ps := PartitionStatus{
			Topic: k.topic, Partition: k.partition, Position: p.position.Offset,
			LogStart: p.logStart, LastStable: p.stable, HighWatermark: p.highWatermark, Lag: -1,
			RecordsIn: total.records + p.records, BytesIn: total.bytes + p.bytes, Waiting: p.waiting, Gone: p.missing >= missingLooks,
		}
		if held := p.held(); held > 0 && !r.ended && !ps.Gone {
			ps.HeldSecs, ps.HeldBy = held.Seconds(), p.holder
		}
		switch {
		case r.ended:
			ps.Position = -1
		case ps.Gone: // nothing is to be read: what was left is no lag that would ever end
		case p.highWatermark >= 0:
			ps.Lag = max(r.readable(p)-p.position.Offset, 0)
		}
		if p.waiting != "" {
			st.Waiting = append(st.Waiting, strings.Join([]string{k.String(), p.waiting}, ": "))
		}
		st.Partitions = append(st.Partitions, ps)
	}
}

// stuck says why nothing has come of a partition for long; empty when that is not so, or when it is only not asked because
// the sink is slow. The caller holds mu.
func (r *sourceRun) stuck(p *partition) string {
	late := time.Since(p.answered)
	if _, paused := r.budget.state(); paused || r.ended || late < stuckAfter {
		return ""
	}
	why := p.waiting
	if f := r.fetchers[p.leader]; why == "" && f != nil {
		why = f.waiting()
	}
	if why == "" {
		why = r.waiting
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s: no answer for %s: %s", p.key, late.Round(time.Second), why)
}

// keepTotals adds an ended run's counters to those that stay.
func (s *source) keepTotals(r *sourceRun) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, p := range r.partitions {
		s.addTotal(k, p.counted)
	}
}

func (s *source) addTotal(k topicPartition, c counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.totals[k]
	t.records += c.records
	t.bytes += c.bytes
	s.totals[k] = t
}

func (s *source) total(k topicPartition) counted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals[k]
}
