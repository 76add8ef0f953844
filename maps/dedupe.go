package maps

import (
	"errors"
	"fmt"
	"math"
	"time"

	"kafkabridge/bridge"
	"kafkabridge/maps/expr"
)

// DefaultDedupeLimit is the default of DedupeOptions.Limit.
const DefaultDedupeLimit = 100_000

// MaxDedupe bounds DedupeOptions.Limit and DedupeOptions.Records.
const MaxDedupe = 10_000_000

// DedupeOptions are the settings of the map kind "dedupe": it drops a record when one with the same identity has gone on
// before it in the same source partition, within Window or Records. A record whose identity is null always goes on.
//
// With Window the distance between two records is that of their timestamps, whichever comes first. The clock of a partition is its
// highest timestamp so far; what went on more than Window before it is forgotten. A record that is itself that late goes on
// unless it is near enough to one that is still remembered, and is not remembered. So a record that is out of order by less
// than Window counts like any other, and one with a timestamp far in the future makes the map forget early: duplicates may
// go on then, and nothing is lost.
//
// With Records the distance is the number of records that have come to this map, duplicates and nulls included.
//
// A record that went on starts the window, its duplicates do not prolong it.
//
// What counts is that a record went on to the next map: one for which a later map failed is not remembered, one that only the sink
// refused is, and so is one that a map before made beside another that failed. Encoding and meaning of the state are in STATE.md.
//
// The state is at most Limit or Records identities of 128 bits for each source partition, about 100 bytes of memory and 18 of
// the checkpoint each; see expr.ID for how improbable it is that two values are taken for one.
type DedupeOptions struct {
	By      string        // CEL that gives the identity: text, a number, a list of them, …
	Window  time.Duration // of record time, whole milliseconds; 0: Records counts
	Records int           // how many records back; 0: Window counts
	Limit   int           // with Window: identities in it. One more fails; default 100 000
}

// EnsureDefaults fills in what is zero.
func (o *DedupeOptions) EnsureDefaults() {
	if o.Limit == 0 {
		o.Limit = DefaultDedupeLimit
	}
}

// Validate says what is wrong with the options.
func (o DedupeOptions) Validate() error {
	switch {
	case (o.Window == 0) == (o.Records == 0):
		return errors.New("exactly one of window and records is needed")
	case o.Window < 0 || o.Window%time.Millisecond != 0:
		return fmt.Errorf("window: %v is not a positive number of milliseconds", o.Window)
	case o.Records < 0 || o.Records > MaxDedupe:
		return fmt.Errorf("records: must be from 1 to %d", MaxDedupe)
	case o.Limit < 0 || o.Limit > MaxDedupe:
		return fmt.Errorf("limit: must be from 1 to %d", MaxDedupe)
	}
	return nil
}

// dedupe is the map and its state.
type dedupe struct {
	by       *expr.Program
	in       expr.Input
	records  bool  // positions are counts of records, not timestamps
	distance int64 // the window, in positions
	limit    int

	clock int64             // the highest position so far
	seen  map[expr.ID]int64 // position of the latest record with that ID that went on
	queue queue             // the same in the order of going on, and what has been replaced since
}

func newDedupe(c *compiler, o DedupeOptions) (*dedupe, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	by, err := c.expr("by", o.By, expr.Any)
	if err != nil {
		return nil, err
	}
	m := &dedupe{by: by, records: o.Records > 0, distance: o.Window.Milliseconds(), limit: o.Limit}
	if m.records {
		m.distance, m.limit = int64(o.Records), o.Records+1
	}
	m.forget()
	return m, nil
}

// forget is the state at the beginning.
func (m *dedupe) forget() {
	m.clock, m.seen, m.queue = math.MinInt64, map[expr.ID]int64{}, queue{}
	if m.records {
		m.clock = 0
	}
}

// Map implements bridge.Map.
func (m *dedupe) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	at := r.Timestamp
	if m.records {
		at = m.clock + 1
	}
	m.clock = max(m.clock, at)
	m.expire()
	id, known, err := m.by.Identity(&m.in, r)
	if err != nil {
		return err
	}
	if !known {
		return emit(r)
	}
	if before, ok := m.seen[id]; ok && !m.expired(before) && distance(at, before) <= uint64(m.distance) {
		return nil
	}
	if m.queue.len() >= m.limit {
		return fmt.Errorf("more than limit = %d identities in the window of %v: raise limit or shorten window", m.limit,
			time.Duration(m.distance)*time.Millisecond)
	}
	if err := emit(r); err != nil {
		return err // it has not gone on
	}
	m.remember(id, at)
	return nil
}

func (m *dedupe) remember(id expr.ID, at int64) {
	if before, ok := m.seen[id]; m.expired(at) || ok && before >= at && !m.expired(before) {
		return
	}
	m.seen[id] = at
	m.queue.push(passed{id, at})
}

// expired says whether a position is too far back from the clock. It decides alone what counts: expire only frees memory.
func (m *dedupe) expired(at int64) bool {
	return at < m.clock && distance(at, m.clock) > uint64(m.distance)
}

// distance cannot overflow: timestamps are whatever a producer wrote.
func distance(a, b int64) uint64 {
	if a < b {
		a, b = b, a
	}
	return uint64(a) - uint64(b)
}

// expire forgets from the front of the queue, so that each record is looked at twice. One that is out of order waits for
// those before it, at most for another window.
func (m *dedupe) expire() {
	for {
		first, ok := m.queue.first()
		if !ok || !m.expired(first.at) {
			return
		}
		if m.seen[first.id] == first.at {
			delete(m.seen, first.id)
		}
		m.queue.pop()
	}
}

// passed is a record that went on.
type passed struct {
	id expr.ID
	at int64
}

// queue is a first-in, first-out ring.
type queue struct {
	ring  []passed
	front int
	count int
}

func (q *queue) len() int { return q.count }

func (q *queue) first() (passed, bool) {
	if q.count == 0 {
		return passed{}, false
	}
	return q.ring[q.front], true
}

func (q *queue) at(i int) passed { return q.ring[(q.front+i)%len(q.ring)] }

func (q *queue) pop() {
	q.front = (q.front + 1) % len(q.ring)
	if q.count--; q.count < len(q.ring)/8 {
		q.resize(len(q.ring) / 4) // a burst must not keep its memory for ever
	}
}

func (q *queue) push(p passed) {
	if q.count == len(q.ring) {
		q.resize(max(16, 2*q.count))
	}
	q.ring[(q.front+q.count)%len(q.ring)] = p
	q.count++
}

func (q *queue) resize(n int) {
	ring := make([]passed, max(n, 16))
	for i := range q.count {
		ring[i] = q.at(i)
	}
	q.ring, q.front = ring, 0
}
