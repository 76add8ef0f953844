package bridge

import (
	"context"
	"fmt"

	"kafkabridge/semantics"
)

// placement answers where start and start_offsets begin. What it has to ask for, it asks once for all partitions.
type placement struct {
	s       *source
	asked   bool
	offsets map[topicPartition]listed             // for StartLatest and StartTime
	ends    map[topicPartition]listed             // for StartTime behind the last record
	group   map[topicPartition]semantics.Position // for StartCommitted
}

// place is the first position of k, one of keys. earliest is its log start.
func (p *placement) place(ctx context.Context, k topicPartition, keys []topicPartition, earliest int64) (semantics.Position, error) {
	at := semantics.Position{Offset: earliest, LeaderEpoch: -1}
	if offset, ok := p.s.o.StartOffsets[fmt.Sprintf("%s/%d", k.topic, k.partition)]; ok {
		at.Offset = offset
		return at, nil
	}
	if !p.asked {
		if err := p.ask(ctx, keys); err != nil {
			return at, err
		}
		p.asked = true
	}
	switch p.s.o.Start.At {
	case StartCommitted:
		if committed, ok := p.group[k]; ok {
			return committed, nil
		}
		return at, nil
	case StartLatest, StartTime:
		l := p.offsets[k]
		if l.err == nil && l.offset < 0 {
			l = p.ends[k] // every record is older than the wanted time
		}
		if l.err != nil {
			return at, fmt.Errorf("%s: %w", k, l.err)
		}
		at.Offset = l.offset
		return at, nil
	case StartEarliest:
		return at, nil
	default:
		return at, nil // the zero value: reading too much loses nothing
	}
}

// ask sends the requests that the kind of start needs. Latest is the last stable offset with read_committed: the
// records of a transaction that is open now come after it and are not left out.
func (p *placement) ask(ctx context.Context, keys []topicPartition) (err error) {
	switch p.s.o.Start.At {
	case StartEarliest:
	case StartLatest:
		p.offsets, err = p.s.listOffsets(ctx, keys, listLatest, p.s.o.ReadCommitted)
	case StartCommitted:
		p.group, err = p.s.groupOffsets(ctx)
	case StartTime:
		// The ends first: what is appended between the two requests is then read, not left out.
		if p.ends, err = p.s.listOffsets(ctx, keys, listLatest, p.s.o.ReadCommitted); err == nil {
			p.offsets, err = p.s.listOffsets(ctx, keys, p.s.o.Start.Time.UnixMilli(), p.s.o.ReadCommitted)
		}
	}
	return err
}
