package snapshot

import (
	"bytes"
	"math"

	"kafkabridge/semantics"
)

// The shortest element of each list; it bounds what a damaged count can make the decoder allocate.
const (
	minTopicBytes     = 1 + 1 + 16 + 1
	minPartitionBytes = 3
	minStateBytes     = 2
)

func (d *decoder) positions(present bool) semantics.Positions {
	n := d.count(minTopicBytes)
	if !present {
		if n > 0 {
			d.fail("positions without their flag")
		}
		return nil
	}
	p := make(semantics.Positions, n)
	var last semantics.SourceTopic
	for i := range n {
		key := semantics.SourceTopic{Source: d.string(), Topic: d.string()}
		if d.err == nil && i > 0 && (key.Source < last.Source || key.Source == last.Source && key.Topic <= last.Topic) {
			d.fail("topic %q of source %q is out of order", key.Topic, key.Source)
		}
		var t semantics.TopicPositions
		copy(t.ID[:], d.take(len(t.ID)))
		t.Partitions = d.partitions()
		if d.err != nil {
			return nil
		}
		p[key], last = t, key
	}
	return p
}

func (d *decoder) partitions() map[int32]semantics.Position {
	n := d.count(minPartitionBytes)
	m := make(map[int32]semantics.Position, n)
	last := int64(math.MinInt64)
	for range n {
		partition := d.within("partition", math.MinInt32, math.MaxInt32)
		if d.err == nil && partition <= last {
			d.fail("partition %d is out of order", partition)
		}
		pos := semantics.Position{Offset: d.varint(), LeaderEpoch: int32(d.within("leader epoch", math.MinInt32, math.MaxInt32))}
		if d.err != nil {
			return nil
		}
		m[int32(partition)], last = pos, partition
	}
	return m
}

func (d *decoder) state(present bool) map[string][]byte {
	n := d.count(minStateBytes)
	if !present {
		if n > 0 {
			d.fail("map state without its flag")
		}
		return nil
	}
	m := make(map[string][]byte, n)
	var last string
	for i := range n {
		key := d.string()
		if d.err == nil && i > 0 && key <= last {
			d.fail("state key %q is out of order", key)
		}
		v := bytes.Clone(d.take(d.count(1)))
		if d.err != nil {
			return nil
		}
		m[key], last = v, key
	}
	return m
}
