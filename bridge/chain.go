package bridge

import (
	"fmt"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// chain is the map functions of one source partition, in order. Its map task's goroutine owns it.
type chain struct {
	of     partitionKey
	offset int64 // of the record in the chain
	stages []*stage
	sink   func(*Record) error // takes what the last map emits
	err    error               // the first failure of a map or of sink; nothing is emitted after it
}

// stage is one map of a chain with its input. The input is a copy that lives as long as the chain: so a map may change
// the record that it got without changing its neighbours', and emitting allocates nothing.
type stage struct {
	chain    *chain
	position int // in the configuration, from 0
	kind     string
	m        Map
	in       Record
	next     *stage // nil: the last
	emit     func(*Record) error
	emitted  int64  // records, ever
	dropped  *int64 // records for which the map at this position emitted nothing; the map task's, for all its partitions
}

// newChain makes the instances of all configured maps for one source partition. There is at least one. dropped has one
// counter for each.
func newChain(of partitionKey, maps []MapOptions, registry Registry, dropped []int64, sink func(*Record) error) (*chain, error) {
	c := &chain{of: of, sink: sink, stages: make([]*stage, len(maps))}
	var next *stage
	for i := len(maps) - 1; i >= 0; i-- {
		m, err := registry.make(i, maps[i])
		if err != nil {
			return nil, err
		}
		s := &stage{chain: c, position: i, kind: maps[i].Kind, m: m, next: next, dropped: &dropped[i]}
		s.emit = s.forward
		c.stages[i], next = s, s
	}
	return c, nil
}

// make is one instance of the map at position i.
func (r Registry) make(i int, o MapOptions) (Map, error) {
	factory := r[o.Kind]
	if factory == nil {
		return nil, semantics.Misconfigured("make map", "map %d: unknown kind %q", i+1, o.Kind)
	}
	m, err := factory(o.Settings)
	if err != nil {
		return nil, semantics.Misconfigured("make map", "map %d %q: %w", i+1, o.Kind, err)
	}
	if m == nil {
		return nil, semantics.Misconfigured("make map", "map %d %q: its factory made nothing", i+1, o.Kind)
	}
	return m, nil
}

// checkMaps makes each map once, so that unknown kinds and wrong settings are found before anything runs.
func checkMaps(maps []MapOptions, registry Registry) []error {
	var errs []error
	for i, o := range maps {
		if _, err := registry.make(i, o); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// run takes one record through all maps.
func (c *chain) run(r *batch.Record) error {
	first := c.stages[0]
	c.offset = r.Offset
	first.in = Record{Source: c.of.source, Topic: c.of.topic, Partition: c.of.partition, Offset: r.Offset, Timestamp: r.Timestamp,
		Key: r.Key, Value: r.Value, Headers: r.Headers}
	return first.run()
}

// run calls the map. Whatever the map makes of an error that emit answered, the chain remembers it: a map that swallows
// it would lose the record.
func (s *stage) run() error {
	before := s.emitted
	if err := s.m.Map(&s.in, s.emit); err != nil && s.chain.err == nil {
		s.chain.err = semantics.Refuse("map", "map %d %q: %s offset %d: %w; a replay would fail again: mend the map or its settings",
			s.position+1, s.kind, s.chain.of, s.chain.offset, err)
	}
	if s.emitted == before && s.chain.err == nil {
		*s.dropped++
	}
	return s.chain.err
}

// forward is what the map calls as emit.
func (s *stage) forward(r *Record) error {
	if s.chain.err != nil {
		return s.chain.err
	}
	s.emitted++
	if s.next == nil {
		s.chain.err = s.chain.sink(r)
		return s.chain.err
	}
	in := &s.next.in
	*in = *r
	// Where a record comes from is not a map's to say, and one that emits a Record of its own need not repeat it.
	of := &s.chain.of
	in.Source, in.Topic, in.Partition, in.Offset = of.source, of.topic, of.partition, s.chain.offset
	return s.next.run()
}

// restore gives the stateful maps what they had at the positions that the run goes on from.
func (c *chain) restore(state mapState) error {
	for _, s := range c.stages {
		m, ok := s.m.(Stateful)
		if !ok {
			continue
		}
		saved, ok := state.get(s.key())
		if !ok {
			continue
		}
		if err := m.Restore(saved); err != nil {
			return semantics.Refuse("restore map state", "map %d %q: %s: %w", s.position+1, s.kind, c.of, err)
		}
	}
	return nil
}

// snapshot puts the state of the stateful maps into state.
func (c *chain) snapshot(state mapState) error {
	for _, s := range c.stages {
		m, ok := s.m.(Stateful)
		if !ok {
			continue
		}
		b, err := m.Snapshot()
		if err != nil {
			return fmt.Errorf("snapshot map state: map %d %q: %s: %w", s.position+1, s.kind, c.of, err)
		}
		state.set(s.key(), b)
	}
	return nil
}

// key is where the state of the stage belongs.
func (s *stage) key() stateKey {
	of := &s.chain.of
	return stateKey{position: s.position, kind: s.kind, source: of.source, topic: of.topic, partition: of.partition}
}
