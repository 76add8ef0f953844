package oracle

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
)

// Header is a record header. A nil Value is null, an empty one is empty.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record as Kafka's consumer saw it. A nil Key or Value is null, an empty one is empty.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp in milliseconds since 1970, as stored.
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
	// KeyHash is the murmur2 of the key as Kafka's own Java partitioner computes it, made positive; -1 without a
	// key. Only Read fills it.
	KeyHash int32
}

// String is short: it is for the examples in a failure message.
func (r Record) String() string {
	return fmt.Sprintf("%s/%d@%d ts=%d key=%s value=%s headers=%d", r.Topic, r.Partition, r.Offset, r.Timestamp,
		short(r.Key), short(r.Value), len(r.Headers))
}

func short(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 48:
		return fmt.Sprintf("%q…(%d bytes)", b[:48], len(b))
	default:
		return fmt.Sprintf("%q", b)
	}
}

// fingerprint is a hash over all that must arrive byte for byte: timestamp, key, value, headers in order,
// each with its length, null apart from empty.
type fingerprint [16]byte

// fingerprinter reuses its hash; not for concurrent use.
type fingerprinter struct{ h hash.Hash }

func newFingerprinter() *fingerprinter { return &fingerprinter{h: sha256.New()} }

func (f *fingerprinter) of(r Record) fingerprint {
	f.h.Reset()
	f.number(r.Timestamp)
	f.bytes(r.Key)
	f.bytes(r.Value)
	f.number(int64(len(r.Headers)))
	for _, h := range r.Headers {
		f.bytes([]byte(h.Key))
		f.bytes(h.Value)
	}
	var sum [sha256.Size]byte
	return fingerprint(f.h.Sum(sum[:0])[:16])
}

func (f *fingerprinter) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	f.h.Write(b[:])
}

func (f *fingerprinter) bytes(b []byte) {
	if b == nil {
		f.number(-1)
		return
	}
	f.number(int64(len(b)))
	f.h.Write(b)
}
