package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

// groupOffsets is the store of a bridge without a checkpoint block: the offsets committed to its sources' groups are the
// progress. A daemon of such a bridge is a group without members, so nobody else is asked.
type groupOffsets struct {
	o     bridge.Options
	views []*sourceView
	epoch semantics.Epoch
}

// Load returns one checkpoint with what the groups hold for the topics of the sources.
func (g *groupOffsets) Load() ([]semantics.Checkpoint, error) {
	ctx, cancel := context.WithTimeout(context.Background(), repairTimeout)
	defer cancel()
	all := semantics.Positions{}
	for _, v := range g.views {
		if len(v.topics) == 0 || v.o.Group == "" {
			continue
		}
		found, err := v.adm.FetchOffsetsForTopics(ctx, v.o.Group, v.names()...)
		if err == nil {
			err = found.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("read the offsets of group %q: %w", v.o.Group, err)
		}
		found.Each(func(o kadm.OffsetResponse) {
			if t, ok := v.topics[o.Topic]; ok && o.At >= 0 {
				all.Set(semantics.SourceTopic{Source: v.o.Name, Topic: o.Topic}, t.id, o.Partition, semantics.Position{Offset: o.At, LeaderEpoch: o.LeaderEpoch})
			}
		})
	}
	if len(all) == 0 {
		return nil, nil
	}
	return []semantics.Checkpoint{{Epoch: g.epoch, Semantic: g.o.Semantic, Status: semantics.Decided, Positions: all}}, nil
}

// Save commits the positions, one request for each source. A failure between two of them leaves the first one's set; the
// command says so and may be repeated.
func (g *groupOffsets) Save(c semantics.Checkpoint) error {
	ctx, cancel := context.WithTimeout(context.Background(), repairTimeout)
	defer cancel()
	for _, v := range g.views {
		offsets := kadm.Offsets{}
		for _, st := range c.Positions.Topics() {
			if st.Source != v.o.Name {
				continue
			}
			for p, at := range c.Positions[st].Partitions {
				offsets.AddOffset(st.Topic, p, at.Offset, at.LeaderEpoch)
			}
		}
		if len(offsets) == 0 {
			continue
		}
		if v.o.Group == "" {
			return semantics.Misconfigured("reset", "source %q has neither a group nor a checkpoint block: it keeps no positions", v.o.Name)
		}
		if err := v.adm.CommitAllOffsets(ctx, v.o.Group, offsets); err != nil {
			return fmt.Errorf("commit offsets of group %q: %w", v.o.Group, err)
		}
	}
	g.epoch = c.Epoch
	return nil
}

// Decide has nothing to do: a committed offset is decided.
func (g *groupOffsets) Decide(semantics.Epoch, semantics.Status) error { return nil }

// Drop has nothing to do: there is one checkpoint, the last.
func (g *groupOffsets) Drop(...semantics.Epoch) error { return nil }
