package bridge

import (
	"context"
	"fmt"
	"time"

	"kafkabridge/semantics"
)

// groupStore is the Store of a bridge without a checkpoint block: the offsets committed to the sources' groups are the
// progress, as with any consumer. It has no map state and no transactions, so EXACTLY_ONCE and stateful maps need a
// checkpoint block.
type groupStore struct {
	sources  []*source
	semantic semantics.Semantic
	// Of the last checkpoint; they mean nothing beyond this process. A restart inside it must know what the group's offsets
	// follow, or a ledger from an EXACTLY_ONCE past would win over them again.
	epoch   semantics.Epoch
	follows semantics.Transaction
}

// groupTimeout bounds one round of offset requests, so that a checkpoint cannot hang on a group coordinator.
const groupTimeout = 30 * time.Second

// Load returns one checkpoint with the committed offsets, none when no group has any.
func (g *groupStore) Load() ([]semantics.Checkpoint, error) {
	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	all := semantics.Positions{}
	for _, s := range g.sources {
		p, err := s.committed(ctx)
		if err != nil {
			return nil, fmt.Errorf("read committed offsets of source %q: %w", s.o.Name, err)
		}
		all = p.Over(all)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return []semantics.Checkpoint{{Epoch: g.epoch, Semantic: g.semantic, Status: semantics.Decided, Positions: all, Follows: g.follows}}, nil
}

// Save commits the positions. What is not acknowledged is an error: the checkpoint does not count then.
func (g *groupStore) Save(c semantics.Checkpoint) error {
	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	for _, s := range g.sources {
		if err := s.publish(ctx, c.Positions); err != nil {
			return fmt.Errorf("commit offsets of source %q: %w", s.o.Name, err)
		}
	}
	g.epoch, g.follows = c.Epoch, c.Follows
	return nil
}

// Decide has nothing to do: a committed offset is decided.
func (g *groupStore) Decide(semantics.Epoch, semantics.Status) error { return nil }

// Drop has nothing to do: there is one checkpoint, the last.
func (g *groupStore) Drop(...semantics.Epoch) error { return nil }
