package bridge

import (
	"cmp"
	"fmt"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// chain is the map functions of one source partition, in order. Its map task's goroutine owns it.
type chain struct {
	of     partitionKey
	offset int64 // of the record in the chain
	stages []*stage
	sink   func(*Record) // takes what the last map emits
	failed *mapError     // the first failure of a map for this record; nothing is emitted after it
	drops  []*stage      // that have counted a drop for this record
}

// mapError is the failure of a map for one record.
type mapError struct {
	stage *stage
	err   error
}

// Error names the map.
func (e *mapError) Error() string {
	return fmt.Sprintf("map %d %q: %v", e.stage.position+1, e.stage.kind, e.err)
}

// place is the map as the header of a dead letter names it.
func (e *mapError) place() string { return e.stage.place() }

// Unwrap is the map's own error.
func (e *mapError) Unwrap() error { return e.err }

// stage is one map of a chain with its input. The input is a copy that lives as long as the chain: so a map may change
// the record that it got without changing its neighbours', and emitting allocates nothing.
type stage struct {
	chain    *chain
	position int // in the configuration, from 0
	kind     string
	m        Map
	in       Record
	given    []byte // in.Value as the map got it
	onError  Policy
	next     *stage // nil: the last
	emit     func(*Record) error
	emitted  int64  // records, ever
	dropped  *int64 // records for which the map at this position emitted nothing; the map task's, for all its partitions
}

// place is the map as the configuration has it: position and kind.
func (s *stage) place() string { return fmt.Sprintf("%d %s", s.position+1, s.kind) }

// newChain makes the instances of all configured maps for one source partition. There is at least one. dropped has one
// counter for each.
func newChain(of partitionKey, maps []MapOptions, registry Registry, dropped []int64, sink func(*Record)) (*chain, error) {
	c := &chain{of: of, sink: sink, stages: make([]*stage, len(maps))}
	var next *stage
	for i := len(maps) - 1; i >= 0; i-- {
		m, err := registry.make(i, maps[i])
		if err != nil {
			return nil, err
		}
		s := &stage{chain: c, position: i, kind: maps[i].Kind, onError: cmp.Or(maps[i].OnError, DefaultOnError), m: m, next: next, dropped: &dropped[i]}
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
	m, err := made(factory, o.Settings)
	if err != nil {
		return nil, semantics.Misconfigured("make map", "map %d %q: %w", i+1, o.Kind, err)
	}
	if m == nil {
		return nil, semantics.Misconfigured("make map", "map %d %q: its factory made nothing", i+1, o.Kind)
	}
	return m, nil
}

func made(factory Factory, settings any) (m Map, err error) {
	defer recovered(&err)
	return factory(settings)
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

// run takes one record through all maps. nil: what they made of it went to sink. Otherwise the record has no outputs at all,
// whatever went to sink before the failure.
func (c *chain) run(r *batch.Record) *mapError {
	first := c.stages[0]
	c.offset, c.failed, c.drops = r.Offset, nil, c.drops[:0]
	first.in = Record{Source: c.of.source, Topic: c.of.topic, Partition: c.of.partition, Offset: r.Offset, Timestamp: r.Timestamp,
		Key: r.Key, Value: r.Value, Headers: r.Headers}
	first.run()
	if c.failed != nil {
		for _, s := range c.drops {
			*s.dropped-- // it is counted as a failure, and once
		}
	}
	return c.failed
}

// run calls the map. Whatever the map makes of an error that emit answered, the chain remembers it: a map that swallows
// it would lose the record.
func (s *stage) run() {
	before := s.emitted
	s.given = s.in.Value
	if err := s.call(); err != nil && s.chain.failed == nil {
		s.chain.failed = &mapError{stage: s, err: err}
	}
	if s.emitted == before && s.chain.failed == nil {
		*s.dropped++
		s.chain.drops = append(s.chain.drops, s)
	}
}

// call makes a panic of the map its failure for this record, which follows on_error like any other. One of a map behind it
// has become an error of emit before it gets here.
func (s *stage) call() (err error) {
	defer recovered(&err)
	return s.m.Map(&s.in, s.emit)
}

// decide is the map's decision for a whole batch.
func (s *stage) decide(m BatchMap, of Common) (d Decision, decided bool, err error) {
	defer recovered(&err)
	return m.Batch(of)
}

// forward is what the map calls as emit.
func (s *stage) forward(r *Record) error {
	if s.chain.failed != nil {
		return s.chain.failed
	}
	s.emitted++
	if s.next == nil {
		s.chain.sink(r)
		return nil
	}
	in := &s.next.in
	*in = *r
	// Where a record comes from is not a map's to say, and one that emits a Record of its own need not repeat it.
	of := &s.chain.of
	in.Source, in.Topic, in.Partition, in.Offset = of.source, of.topic, of.partition, s.chain.offset
	if !sameBytes(r.Value, s.given) {
		in.Parsed = nil // of another value: a map that copied its input may have kept it
	}
	s.next.run()
	if s.chain.failed != nil {
		return s.chain.failed
	}
	return nil
}

// batch asks the maps to decide for a whole batch, in order. decided is false when one of them must see the records. drop is
// the map that lets none of them through; nil: they go on, to the topic, or where the sink block says when it is "".
func (c *chain) batch(of Common) (topic string, drop *stage, decided bool) {
	for _, s := range c.stages {
		m, ok := s.m.(BatchMap)
		if !ok {
			return "", nil, false
		}
		d, decided, err := s.decide(m, of)
		switch {
		case err != nil || !decided: // the error comes again for each record, which has the offset for the message
			return "", nil, false
		case d.Drop:
			return "", s, true
		case d.SinkTopic != "":
			topic = d.SinkTopic
		}
	}
	return topic, nil, true
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
		if err := restored(m, saved); err != nil {
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
		b, err := snapshotOf(m)
		if err != nil {
			return fmt.Errorf("snapshot map state: map %d %q: %s: %w", s.position+1, s.kind, c.of, err)
		}
		state.set(s.key(), b)
	}
	return nil
}

func restored(m Stateful, state []byte) (err error) {
	defer recovered(&err)
	return m.Restore(state)
}

func snapshotOf(m Stateful) (state []byte, err error) {
	defer recovered(&err)
	return m.Snapshot()
}

// key is where the state of the stage belongs.
func (s *stage) key() stateKey {
	of := &s.chain.of
	return stateKey{position: s.position, kind: s.kind, source: of.source, topic: of.topic, partition: of.partition}
}
