package bridge

import (
	"errors"
	"fmt"
	"time"

	"kafkabridge/batch"
)

// intake is what a sink topic is known to take, by its settings and by what its brokers have refused.
type intake struct {
	nothing          error // why no record may go there; nil: records may
	compacted        bool  // a record without a key is refused
	keys             bool  // one was refused by a broker of this topic: untouched batches must be looked at, too
	appendTime       bool  // timestamps are overwritten
	maxAge, maxAhead int64 // milliseconds; 0: no limit is known
	span             *span // the timestamps that a broker said it takes; nil: none has said
}

// span is the range of timestamps that a broker took at the moment at. It moves on with the time.
type span struct {
	earliest, latest int64
	at               time.Time
}

// clockMargin is by how much a timestamp must exceed the topic's limit before this process's clock is believed. In between the
// broker is asked, whose clock decides: a clock that is an hour off must not send everything to the dead letter topic.
const clockMargin = 24 * time.Hour

// learn takes over what brokers of the topic have refused in earlier runs.
func (s *sinkTopic) learn(l lesson) {
	if l.nothing != "" {
		s.takes.nothing = errors.New(l.nothing)
	}
	s.takes.keys, s.takes.span = l.nullKey, l.span
	s.takes.compacted = s.takes.compacted || l.nullKey
	if l.batch > 0 && l.batch < s.limit {
		s.limit = l.batch
	}
	if l.single > 0 && l.single < s.most {
		s.most, s.limitedBy = l.single, "a broker refused one that was a byte larger"
		s.limit = min(s.limit, s.most)
	}
}

// timestamp says why a timestamp, Unix milliseconds, is refused at the moment now; nil when it is not, or nobody knows.
func (t *intake) timestamp(ms int64, now time.Time) error {
	switch {
	case ms == -1 || t.appendTime: // -1 is none
		return nil
	case t.span != nil:
		passed := max(now.Sub(t.span.at).Milliseconds(), 0)
		if ms < t.span.earliest+passed || ms-passed > t.span.latest {
			return fmt.Errorf("timestamp %d is outside of what the topic takes, %d to %d when a broker last said so", ms, t.span.earliest, t.span.latest)
		}
		return nil
	case t.maxAge > 0 && ms < now.Add(-clockMargin).UnixMilli()-t.maxAge:
		return fmt.Errorf("timestamp %d is older than message.timestamp.before.max.ms = %d allows", ms, t.maxAge)
	case t.maxAhead > 0 && ms > now.Add(clockMargin).UnixMilli()+t.maxAhead:
		return fmt.Errorf("timestamp %d is further ahead than message.timestamp.after.max.ms = %d allows", ms, t.maxAhead)
	}
	return nil
}

// suspicious says whether an untouched batch may hold a record that the topic refuses. The header does not tell the lowest
// timestamp, so this finds most of them and not all; a broker finds the others.
func (t *intake) suspicious(h batch.Header, now time.Time) bool {
	return t.keys || t.timestamp(h.MaxTimestamp, now) != nil || !h.HasDeleteHorizon() && t.timestamp(h.FirstTimestamp, now) != nil
}
