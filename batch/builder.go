package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Builder encodes records into an open batch. The zero value is an empty batch; after Finish it is empty again and its
// memory is used for the next one. Not safe for concurrent use.
type Builder struct {
	payload        []byte
	count          int32
	firstTimestamp int64
	maxTimestamp   int64
}

// Count returns the number of records in the open batch.
func (b *Builder) Count() int { return int(b.count) }

// Size returns the bytes of the batch so far, uncompressed. Incompressible records can make a batch slightly larger
// when compressed (by less than 1 % and 100 bytes for all codecs but snappy, which may add a sixth).
func (b *Builder) Size() int { return HeaderSize + len(b.payload) }

// SizeWith returns what Size would be after appending r: to close the batch before it exceeds a limit.
func (b *Builder) SizeWith(r *Record) int {
	body := b.bodySize(r)
	return b.Size() + sizeVarint(body) + body
}

// MaxTimestamp returns the largest timestamp in the open batch in milliseconds; -1 when it is empty.
func (b *Builder) MaxTimestamp() int64 {
	if b.count == 0 {
		return -1
	}
	return b.maxTimestamp
}

// Reset drops the records of the open batch.
func (b *Builder) Reset() { b.payload, b.count = b.payload[:0], 0 }

// Append encodes r behind the records of the open batch. It copies key, value and headers; r.Offset is ignored, the
// records get consecutive offsets. An error means that the batch would exceed what its length field can say, and
// leaves it as it was.
func (b *Builder) Append(r *Record) error {
	if b.count == 0 {
		b.firstTimestamp, b.maxTimestamp = r.Timestamp, r.Timestamp
	}
	body := b.bodySize(r)
	if b.count == math.MaxInt32 || body > math.MaxInt32-HeaderSize-5-len(b.payload) {
		return fmt.Errorf("append a record of %d bytes: a batch of %d records and %d bytes cannot hold it",
			body, b.count, b.Size())
	}
	p := slices.Grow(b.payload, body+5)
	p = appendVarint(p, body)
	p = append(p, byte(r.Attributes))
	p = appendUvarint(p, zigzag64(r.Timestamp-b.firstTimestamp))
	p = appendVarint(p, int(b.count))
	p = appendBytes(p, r.Key)
	p = appendBytes(p, r.Value)
	p = appendVarint(p, int(r.Headers.count))
	b.payload = append(p, r.Headers.raw...)
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
	b.count++
	return nil
}

// bodySize returns the size of r in the open batch without its length.
func (b *Builder) bodySize(r *Record) int {
	delta := int64(0)
	if b.count > 0 {
		delta = r.Timestamp - b.firstTimestamp
	}
	return 1 + sizeUvarint(zigzag64(delta)) + sizeVarint(int(b.count)) + sizeBytes(r.Key) + sizeBytes(r.Value) +
		sizeVarint(int(r.Headers.count)) + len(r.Headers.raw)
}

// Finish appends the batch to dst, compressed with codec by c, and empties the builder. The header has no producer
// fields and no CRC yet: [Stamp] completes it when the batch is sent. The attributes name the codec that was really
// used. On an error the records are still in the builder. A batch without records is an error: brokers refuse it.
func (b *Builder) Finish(dst []byte, c *Compressor, codec Codec) ([]byte, error) {
	if b.count == 0 {
		return nil, errors.New("finish a batch: it has no records")
	}
	start := len(dst)
	out := append(slices.Grow(dst, b.Size()), make([]byte, HeaderSize)...)
	out, codec, err := c.compress(out, b.payload, codec)
	if err != nil {
		return nil, fmt.Errorf("finish a batch of %d records: %w", b.count, err)
	}
	length := len(out) - start - lengthEnd
	if length > math.MaxInt32 {
		return nil, fmt.Errorf("finish a batch of %d records: %d bytes exceed its length field", b.count, length)
	}
	b.putHeader((*[HeaderSize]byte)(out[start:]), length, codec)
	b.Reset()
	return out, nil
}

// putHeader writes into h, which is zero, what is known of the batch before it is sent.
func (b *Builder) putHeader(h *[HeaderSize]byte, length int, codec Codec) {
	binary.BigEndian.PutUint32(h[8:], uint32(length))
	binary.BigEndian.PutUint32(h[12:], ^uint32(0)) // leader epoch -1
	h[16] = 2
	h[22] = byte(codec)
	binary.BigEndian.PutUint32(h[23:], uint32(b.count-1))
	binary.BigEndian.PutUint64(h[27:], uint64(b.firstTimestamp))
	binary.BigEndian.PutUint64(h[35:], uint64(b.maxTimestamp))
	binary.BigEndian.PutUint32(h[57:], uint32(b.count))
}
