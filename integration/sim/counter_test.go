package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"kafkabridge/bridge"
	"kafkabridge/integration/oracle"
)

// counterMap is a map with state: it stamps into each record how many of its source partition came before it and a checksum over all
// of their values, and lets every seventh record go. A record that is missing, doubled or moved on its way in changes all stamps after it.
type counterMap struct {
	n   uint64
	sum uint32
	buf bridge.Record
}

func newCounterMap(any) (bridge.Map, error) { return &counterMap{}, nil }

func (m *counterMap) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	m.n++
	m.sum = crc32.Update(m.sum, crc32.IEEETable, r.Value)
	if m.n%7 == 0 {
		return nil
	}
	m.buf = *r
	m.buf.Key = fmt.Appendf(nil, "%d/%08x/%s", m.n, m.sum, r.Key)
	return emit(&m.buf)
}

func (m *counterMap) Snapshot() ([]byte, error) {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, m.n), m.sum), nil
}

func (m *counterMap) Restore(state []byte) error {
	if len(state) != 12 {
		return fmt.Errorf("the state has %d bytes", len(state))
	}
	m.n, m.sum = binary.BigEndian.Uint64(state), binary.BigEndian.Uint32(state[8:])
	return nil
}

// stamped is the oracle's own idea of the same: what becomes of the records of one partition, in the order of its log.
func stamped(in []oracle.Record) []oracle.Record {
	var out []oracle.Record
	var values []byte
	for i, r := range in {
		values = append(values, r.Value...)
		if (i+1)%7 == 0 {
			continue
		}
		key := slices.Clone([]byte(fmt.Sprint(i+1, "/")))
		key = append(key, fmt.Sprintf("%08x/", crc32.ChecksumIEEE(values))...)
		r.Key = append(key, r.Key...)
		out = append(out, r)
	}
	return out
}
