package maps

import (
	"encoding/binary"
	"errors"
	"fmt"

	"kafkabridge/maps/expr"
)

// stateVersion is the first byte of a state; see STATE.md.
const stateVersion = 1

// What positions are.
const (
	stateTimestamps = 0
	stateCounts     = 1
)

var errState = errors.New("the state of dedupe is damaged")

// Snapshot implements bridge.Stateful.
func (m *dedupe) Snapshot() ([]byte, error) {
	m.expire()
	unit := byte(stateTimestamps)
	if m.records {
		unit = stateCounts
	}
	b := make([]byte, 0, 32+m.queue.len()*(len(expr.ID{})+3))
	b = append(b, stateVersion, unit)
	b = binary.AppendVarint(b, m.clock)
	b = binary.AppendUvarint(b, uint64(m.queue.len()))
	before := m.clock
	for i := range m.queue.len() {
		p := m.queue.at(i)
		b = append(b, p.id[:]...)
		b = binary.AppendVarint(b, p.at-before) // wraps round, as Restore does
		before = p.at
	}
	return b, nil
}

// Restore implements bridge.Stateful. A state of the other unit, from before window was changed to records or back, says
// nothing about this one: the map begins anew.
func (m *dedupe) Restore(state []byte) error {
	m.forget()
	if len(state) < 2 {
		return errState
	}
	if state[0] != stateVersion {
		return fmt.Errorf("the state of dedupe has version %d, which this program does not know", state[0])
	}
	if state[1] > stateCounts {
		return errState
	}
	if (state[1] == stateCounts) != m.records {
		return nil
	}
	r := stateReader{rest: state[2:]}
	clock, n := r.varint(), r.uvarint()
	if n > uint64(len(r.rest))/uint64(len(expr.ID{})+1) {
		return errState // before anything is allocated for it
	}
	at := clock
	for range n {
		var id expr.ID
		copy(id[:], r.bytes(len(id)))
		at += r.varint()
		m.seen[id] = at
		m.queue.push(passed{id, at})
	}
	if r.bad || len(r.rest) > 0 {
		m.forget()
		return errState
	}
	m.clock = clock
	return nil
}

type stateReader struct {
	rest []byte
	bad  bool
}

func (r *stateReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *stateReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *stateReader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.bad = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *stateReader) skip(n int) {
	if n <= 0 {
		r.bad = true
		return
	}
	r.rest = r.rest[n:]
}
