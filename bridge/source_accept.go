package bridge

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// emptyAnswers is how many wholly empty answers in a row it takes to suspect that nothing is left below the end.
const emptyAnswers = 3

// accept looks at a piece before it is walked: what it tells of the partition is noted, an error is seen to. It is false
// when there is nothing to walk.
func (r *sourceRun) accept(a *answer, pc *piece) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := pc.p
	if p.generation != pc.generation {
		return false, nil
	}
	if pc.from > p.position.Offset {
		// Never hand over what lies behind something that was not handed over.
		p.restart()
		return false, nil
	}
	if pc.resp.ErrorCode != 0 {
		return false, r.answeredError(p, pc)
	}
	before := p.stable
	p.logStart, p.highWatermark, p.stable = pc.resp.LogStartOffset, pc.resp.HighWatermark, pc.resp.LastStableOffset
	r.noteHeld(p, before)
	if pc.resp.DivergingEpoch.EndOffset >= 0 {
		return false, r.diverged(p, pc.resp.DivergingEpoch.EndOffset)
	}
	p.waiting, p.answered = "", time.Now()
	pc.wanted, pc.count = p.position.Offset, p.count
	r.noteEmpty(a, pc)
	return len(pc.records) > 0, nil
}

// readable is the offset that a reader can come to. The caller holds mu.
func (r *sourceRun) readable(p *partition) int64 {
	if r.s.o.ReadCommitted && p.stable >= 0 {
		return min(p.stable, p.highWatermark)
	}
	return p.highWatermark
}

// noteEmpty looks for the gap at a compacted log's end: tombstones and markers that were the last of their segment are
// gone, and the broker answers nothing although the end is not reached. A single such answer proves nothing (other
// partitions filled it, a quota, tiered storage that is slow); the keeper checks before the position moves.
func (r *sourceRun) noteEmpty(a *answer, pc *piece) {
	p := pc.p
	end := r.readable(p)
	if !a.empty || end <= p.position.Offset || p.fetchOffset != p.position.Offset {
		p.empty = 0
		return
	}
	if p.empty == 0 {
		p.emptyEnd = end // what is appended from now on must not be skipped
	}
	if p.empty++; p.empty >= emptyAnswers {
		r.trouble(p, troubleCheckEnd, "")
	}
}

// trouble stops fetching the partition until the keeper has seen to it. The caller holds mu.
func (r *sourceRun) trouble(p *partition, t trouble, why string) {
	p.trouble = t
	if why != "" {
		p.waiting = why
	}
	p.restart()
	r.wakeKeeper()
}

// answeredError sees to an error code of a partition. The caller holds mu.
func (r *sourceRun) answeredError(p *partition, pc *piece) error {
	err := kerr.ErrorForCode(pc.resp.ErrorCode)
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return r.s.unauthorised("topic", p.key.topic, "Read")
	case errors.Is(err, kerr.OffsetOutOfRange):
		r.trouble(p, troubleRange, "")
	case errors.Is(err, kerr.CorruptMessage), errors.Is(err, kerr.UnsupportedCompressionType):
		// Neither passes by fetching again from here at once; the pipeline's restart backs off and shows it.
		return r.s.classify("read source", fmt.Errorf("%s offset %d: %w", p.key, pc.from, err))
	default:
		// Everything else says that this broker cannot answer for the partition now: the leader moved
		// (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, REPLICA_NOT_AVAILABLE), the topic
		// is gone or new (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID), the leader has
		// just taken over (OFFSET_NOT_AVAILABLE), its disk failed (KAFKA_STORAGE_ERROR). Ask who leads it now.
		r.trouble(p, troubleLeader, fmt.Sprintf("broker %d: %v", p.leader, err))
	}
	return nil
}

// diverged sees to a truncation: the log that was read up to the position is not the log any more from end on (an
// unclean leader election). The caller holds mu.
func (r *sourceRun) diverged(p *partition, end int64) error {
	at := p.position.Offset
	if end >= at {
		p.position.LeaderEpoch = -1 // nothing of what was read is gone
		r.trouble(p, troubleLeader, "")
		return nil
	}
	g := Gap{Source: r.s.o.Name, Topic: p.key.topic, Partition: p.key.partition, From: end, To: at, Reason: gapTruncated}
	if err := r.s.gap(g, end); err != nil {
		return err
	}
	p.moveTo(end)
	r.trouble(p, troubleLeader, "")
	return nil
}
