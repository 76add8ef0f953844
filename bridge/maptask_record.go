package bridge

import (
	"context"
	"errors"
	"fmt"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// take brings the record being read through the chain, if there is one, into open batches. Nothing of it goes out before it
// is known that all of it may.
func (t *mapTask) take(ctx context.Context, p *sourcePartition) error {
	t.outputs.reset()
	if p.chain == nil {
		r := &t.record
		t.outputs.list = append(t.outputs.list, output{record: *r})
	} else if failed := p.chain.run(&t.record); failed != nil {
		return t.failed(p, failed)
	}
	if len(t.outputs.list) == 0 {
		t.counters.records.dropped++
		return nil
	}
	noted, refused := p.noted[t.record.Offset]
	why, err := t.check(ctx, p)
	if refused && !noted.single && why == nil && err == nil {
		why = errors.New(noted.reason)
	}
	if why != nil || err != nil {
		t.discard()
		if err != nil {
			return fmt.Errorf("%s offset %d: %w", p, t.record.Offset, err)
		}
		return t.reject(p, why)
	}
	for i := range t.outputs.list {
		o := &t.outputs.list[i]
		e := t.router.encoderOf(o.sink, o.record.Key, p.partition)
		if err := t.encoders.append(e, o.sink.wanted(t.codec), p, t.record.Offset, o, refused); err != nil {
			t.discard()
			return err
		}
	}
	return nil
}

// check finds the sink topic of each output, and why the sink refuses one of them. err is everything that says nothing about
// the record.
func (t *mapTask) check(ctx context.Context, p *sourcePartition) (why, err error) {
	for i := range t.outputs.list {
		o := &t.outputs.list[i]
		if o.sink = p.sink; o.topic != "" {
			if o.sink, why, err = t.router.routed(ctx, o.topic, t.source); why != nil || err != nil {
				return why, err
			}
		}
		if why, err = t.checkOutput(o); why != nil || err != nil {
			return why, err
		}
	}
	return nil, nil
}

func (t *mapTask) checkOutput(o *output) (why, err error) {
	s := o.sink
	if o.record.Key == nil && s.takes.compacted {
		return fmt.Errorf("sink topic %q is compacted and takes no record without a key", s.name), nil
	}
	if why := s.takes.timestamp(o.record.Timestamp, t.now); why != nil {
		return fmt.Errorf("sink topic %q: %w", s.name, why), nil
	}
	if batch.HeaderSize+sizeOf(&o.record) <= s.most {
		return nil, nil
	}
	o.single, err = t.encoders.single(s, s.wanted(t.codec), &o.record)
	if errors.Is(err, errTooLarge) {
		return err, nil
	}
	return nil, err
}

// discard gives back what outputs that do not go out have taken.
func (t *mapTask) discard() {
	for i := range t.outputs.list {
		if b := t.outputs.list[i].single; b != nil {
			t.encoders.buffers.put(b)
			t.outputs.list[i].single = nil
		}
	}
}

// failed obeys on_error.
func (t *mapTask) failed(p *sourcePartition, e *mapError) error {
	policy := e.stage.onError
	t.counters.failed(e.stage.kind, policy)
	switch policy {
	case Skip:
		t.cfg.journal.note(p, t.record.Offset, Skip, e.place(), e.err.Error())
		return nil
	case DeadLetter:
		return t.bury(p, e.place(), e.err.Error())
	default:
		return semantics.Refuse("map", "%s offset %d: %w; a replay would fail again: mend the map or its settings, or set on_error = %q or %q for it",
			p, t.record.Offset, e, Skip, DeadLetter)
	}
}

// reject obeys on_reject.
func (t *mapTask) reject(p *sourcePartition, why error) error {
	t.counters.records.rejected++
	if t.cfg.sink.OnReject != DeadLetter {
		return semantics.Refuse("write to the sink", "%s offset %d: %w; a replay would be refused again: mend that, or set on_reject = %q", p, t.record.Offset, why, DeadLetter)
	}
	return t.bury(p, sinkMap, why.Error())
}

// bury sends the record being read to the dead letter topic.
func (t *mapTask) bury(p *sourcePartition, where, reason string) error {
	if err := t.dead.write(&t.encoders, p, &t.record, t.codec, where, reason); err != nil {
		return err
	}
	t.counters.records.deadLetters++
	t.cfg.journal.note(p, t.record.Offset, DeadLetter, where, reason)
	return nil
}
