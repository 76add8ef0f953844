package bridge

import (
	"context"
	"fmt"

	"kafkabridge/semantics"
)

// observe tells people about an event, before the machine takes it.
func (d *driver) observe(e semantics.Event) {
	switch e := e.(type) {
	case semantics.Failed:
		d.b.log.Debug("an action failed", "error", e.Err, "class", semantics.ClassOf(e.Err), "state", d.m.State())
	case semantics.StopRequested:
		d.b.log.Info("stopping: final checkpoint", "epoch", d.m.Progress().Epoch)
	case semantics.StopDeadline:
		d.b.log.Warn("the stop takes too long; what is proposed stays prepared for the next start", "prepared", d.m.Progress().Prepared)
	}
}

// failure is why the machine asks for Halt after e; nil when it does so for a stop. Not every failure comes as Failed: the machine
// itself finds a barrier that is too late, and a transaction that was not committed.
func failure(e semantics.Event) error {
	switch e := e.(type) {
	case semantics.Failed:
		return e.Err
	case semantics.BarrierTimedOut:
		return fmt.Errorf("the barrier of epoch %d was not flushed within checkpoint.timeout", e.Epoch)
	case semantics.Ended:
		if e.Outcome != semantics.OutcomeCommitted {
			return fmt.Errorf("transaction %s was not committed: %s", e.Tx, e.Outcome)
		}
		return nil
	default:
		return nil
	}
}

// findEnds notes what --until-end waits for: everything that was committed in the sources when they were first resolved.
func (d *driver) findEnds(ctx context.Context) error {
	wanted := map[semantics.SourceTopic]map[int32]int64{}
	for _, s := range d.b.sources {
		ends, err := s.ends(ctx)
		if err != nil {
			return err
		}
		for t, p := range ends {
			wanted[t] = p
		}
	}
	d.wanted = wanted
	return nil
}

// reachedEnds says whether every position has come to its end.
func (d *driver) reachedEnds() bool {
	reached := 0
	want := 0
	for _, p := range d.wanted {
		want += len(p)
	}
	for _, s := range d.b.sources {
		for _, p := range s.status().Partitions {
			end, ok := d.wanted[semantics.SourceTopic{Source: s.o.Name, Topic: p.Topic}][p.Partition]
			if ok && p.Position >= end {
				reached++
			}
		}
	}
	return reached == want
}
