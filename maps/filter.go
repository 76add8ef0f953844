package maps

import (
	"kafkabridge/bridge"
	"kafkabridge/maps/expr"
)

// FilterOptions are the settings of the map kind "filter".
type FilterOptions struct {
	When string // CEL that gives true for the records that go on; the others are dropped
}

// filter drops records. When the expression reads nothing but what is the same for the whole partition, it is evaluated once.
type filter struct {
	when  *expr.Program
	in    expr.Input
	whole wholeBatch
	keep  bool // in a partition that was decided once
	fixed bool // keep is set
}

func newFilter(c *compiler, o FilterOptions) (*filter, error) {
	when, err := c.expr("when", o.When, expr.Bool)
	if err != nil {
		return nil, err
	}
	return &filter{when: when, whole: wholeBatch{p: when}}, nil
}

// Map implements bridge.Map.
func (m *filter) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	keep, err := m.decide(r)
	if err != nil || !keep {
		return err
	}
	return emit(r)
}

func (m *filter) decide(r *bridge.Record) (bool, error) {
	if m.fixed {
		return m.keep, nil
	}
	keep, err := m.when.Bool(&m.in, r)
	if err == nil && m.when.Only(partitionVariables...) {
		m.keep, m.fixed = keep, true
	}
	return keep, err
}

// Batch implements bridge.BatchMap.
func (m *filter) Batch(c bridge.Common) (bridge.Decision, bool, error) {
	r, ok := m.whole.record(c)
	if !ok {
		return bridge.Decision{}, false, nil
	}
	keep, err := m.decide(r)
	if err != nil {
		return bridge.Decision{}, false, err
	}
	return bridge.Decision{Drop: !keep}, true, nil
}

// partitionVariables are the variables that are the same for all records of a source partition, which a map instance serves.
var partitionVariables = []string{"source", "topic", "partition"}

// wholeBatch makes records of what the records of a batch have in common, for expressions that read nothing else.
type wholeBatch struct {
	p *expr.Program
	r bridge.Record
}

func (w *wholeBatch) record(c bridge.Common) (*bridge.Record, bool) {
	known := partitionVariables
	if c.SameTimestamp {
		known = append(known[:len(known):len(known)], "timestamp")
	}
	if !w.p.Only(known...) {
		return nil, false
	}
	w.r = bridge.Record{Source: c.Source, Topic: c.Topic, Partition: c.Partition, Timestamp: c.Timestamp}
	return &w.r, true
}
