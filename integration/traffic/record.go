package traffic

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

const filler = "the quick brown fox jumps over the lazy dog and back again; "

// Record makes the record of a sequence number in a partition. An aborted one says so: it must never arrive.
func (p *Plan) Record(partition int32, seq int, aborted bool) *kgo.Record {
	id := fmt.Sprintf("%s/%d/%d", p.Source, partition, seq)
	if aborted {
		id = "ABORTED/" + id
	}
	sum := sha256.Sum256([]byte(id))
	text := fmt.Sprintf("%s %x ", id, sum[:8])
	if rest := p.ValueBytes - len(text); rest > 0 {
		text += strings.Repeat(filler, rest/len(filler)+1)[:rest]
	}
	r := &kgo.Record{Topic: p.Topic, Partition: partition, Key: []byte(p.key(id, seq)), Value: []byte(text)}
	r.Timestamp = p.timestamp(partition, seq)
	if p.Shape == Odd {
		p.makeOdd(r, id, seq)
		return r
	}
	r.Headers = []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}
	return r
}

func (p *Plan) key(id string, seq int) string {
	if p.Keys == 0 {
		return "key " + id
	}
	return fmt.Sprintf("key %s %d", p.Source, seq%p.Keys)
}

// makeOdd: even a record with neither key nor value nor header is told apart by its timestamp.
func (p *Plan) makeOdd(r *kgo.Record, id string, seq int) {
	switch seq % 10 {
	case 0: // as it is
	case 1:
		r.Key = nil
	case 2: // a tombstone
		r.Value = nil
	case 3:
		r.Key, r.Value = []byte{}, []byte{}
	case 4:
		r.Key, r.Value = nil, nil
	case 5:
		r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{}},
			{Key: "a", Value: []byte("2")}, {Key: "c", Value: nil}, {Key: "", Value: []byte("no name")}, {Key: "a", Value: []byte("1")}}
	case 6:
		r.Key = append([]byte{0, 0xff, 0xfe, '\n', '\r', 0x1f}, id...)
		r.Value = append([]byte{0x80, 0xc3, 0x28, 0}, id...)
		r.Headers = []kgo.RecordHeader{{Key: "binary", Value: []byte{0, 0xff, 0x80}}}
	case 7:
		for i := range 1 + seq%300 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprintf("h%d", i%7), Value: []byte(fmt.Sprint(i))})
		}
	case 8:
		r.Value = []byte(strings.Repeat(id+" ", 200))
	case 9:
		r.Key, r.Value = nil, nil
		r.Headers = []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}
	}
}
