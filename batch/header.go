package batch

import (
	"encoding/binary"
	"io"
	"math"
)

// HeaderSize is the size in bytes of a batch without its records.
const HeaderSize = 61

const (
	lengthEnd = 12 // Length counts what follows it
	crcStart  = 17
	crcEnd    = 21 // the CRC covers everything from here

	minLength = HeaderSize - lengthEnd

	// minRecord is the size of the smallest record: seven varints or bytes of one byte each.
	minRecord = 7

	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// Header is the header of a batch. It is a plain value and holds nothing of the bytes that it was parsed from.
type Header struct {
	FirstOffset          int64
	Length               int32 // bytes after the length field
	PartitionLeaderEpoch int32
	Magic                int8
	CRC                  uint32 // as stored; see [CheckCRC]
	Attributes           int16
	LastOffsetDelta      int32
	FirstTimestamp       int64 // milliseconds; base of the records' timestamp deltas, also when HasDeleteHorizon
	MaxTimestamp         int64 // milliseconds
	ProducerID           int64 // -1: none
	ProducerEpoch        int16 // -1: none
	FirstSequence        int32 // -1: none
	NumRecords           int32 // 0 in a batch that compaction emptied
}

// ParseHeader parses the header of the batch that b begins with. Bytes after that batch are not looked at.
//
// It answers [ErrTruncated] when b ends before the batch does, an [*UnsupportedMagicError] for magic 0 and 1, and an
// error that wraps [ErrCorrupt] when lengths, counts or offsets contradict each other. It does not check the CRC.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < crcStart {
		return Header{}, ErrTruncated
	}
	h := Header{
		FirstOffset: int64(binary.BigEndian.Uint64(b)),
		Length:      int32(binary.BigEndian.Uint32(b[8:])),
		Magic:       int8(b[16]),
	}
	switch {
	case h.Magic == 0 || h.Magic == 1:
		return Header{}, &UnsupportedMagicError{Magic: h.Magic, Offset: h.FirstOffset}
	case h.Magic != 2:
		return Header{}, corruptf(h.FirstOffset, "magic %d", h.Magic)
	case h.Length < minLength:
		return Header{}, corruptf(h.FirstOffset, "length %d is less than the %d of an empty batch", h.Length, minLength)
	case len(b)-lengthEnd < int(h.Length):
		return Header{}, ErrTruncated
	}
	h.parseFields((*[HeaderSize]byte)(b))
	return h, h.check()
}

// parseFields fills what ParseHeader did not need to decide that all of the batch is there.
func (h *Header) parseFields(b *[HeaderSize]byte) {
	h.PartitionLeaderEpoch = int32(binary.BigEndian.Uint32(b[12:]))
	h.CRC = binary.BigEndian.Uint32(b[17:])
	h.Attributes = int16(binary.BigEndian.Uint16(b[21:]))
	h.LastOffsetDelta = int32(binary.BigEndian.Uint32(b[23:]))
	h.FirstTimestamp = int64(binary.BigEndian.Uint64(b[27:]))
	h.MaxTimestamp = int64(binary.BigEndian.Uint64(b[35:]))
	h.ProducerID = int64(binary.BigEndian.Uint64(b[43:]))
	h.ProducerEpoch = int16(binary.BigEndian.Uint16(b[51:]))
	h.FirstSequence = int32(binary.BigEndian.Uint32(b[53:]))
	h.NumRecords = int32(binary.BigEndian.Uint32(b[57:]))
}

// check refuses fields that contradict each other, so that nobody computes with an offset that overflowed.
func (h Header) check() error {
	payload := int64(h.Size() - HeaderSize)
	switch {
	case h.FirstOffset < 0 || h.LastOffsetDelta < 0 || h.FirstOffset > math.MaxInt64-int64(h.LastOffsetDelta)-1:
		return corruptf(h.FirstOffset, "last offset delta %d gives no valid offset", h.LastOffsetDelta)
	case h.NumRecords < 0 || int64(h.NumRecords) > int64(h.LastOffsetDelta)+1:
		return corruptf(h.FirstOffset, "%d records with a last offset delta of %d", h.NumRecords, h.LastOffsetDelta)
	case !h.Codec().Valid():
		return corruptf(h.FirstOffset, "unknown compression codec %d", h.Codec())
	case h.NumRecords > 0 && payload == 0:
		return corruptf(h.FirstOffset, "%d records without a payload", h.NumRecords)
	case h.Codec() == None && payload < minRecord*int64(h.NumRecords):
		return corruptf(h.FirstOffset, "%d records in %d bytes", h.NumRecords, payload)
	}
	return nil
}

// Next splits the first batch off b, which is the record bytes of a fetch response for one partition. raw is that
// batch, rest what follows it; both alias b.
//
// At the end of b it answers [io.EOF], and [ErrTruncated] when what is left is a part of a batch, which in a fetch
// response is the ordinary end as well. Any other error is one of [ParseHeader].
func Next(b []byte) (h Header, raw, rest []byte, err error) {
	if len(b) == 0 {
		return Header{}, nil, nil, io.EOF
	}
	h, err = ParseHeader(b)
	if err != nil {
		return Header{}, nil, b, err
	}
	n := h.Size()
	return h, b[:n:n], b[n:], nil
}

// Size returns the size of the whole batch in bytes.
func (h Header) Size() int { return lengthEnd + int(h.Length) }

// Codec returns the compression of the payload.
func (h Header) Codec() Codec { return Codec(h.Attributes & attrCodec) }

// LogAppendTime says that the broker's clock at the append, MaxTimestamp, is the timestamp of every record, whatever
// the records hold.
func (h Header) LogAppendTime() bool { return h.Attributes&attrLogAppendTime != 0 }

// IsTransactional says that the batch belongs to a transaction of ProducerID.
func (h Header) IsTransactional() bool { return h.Attributes&attrTransactional != 0 }

// IsControl says that the batch holds a transaction marker and no records for users.
func (h Header) IsControl() bool { return h.Attributes&attrControl != 0 }

// HasDeleteHorizon says that the log cleaner wrote into FirstTimestamp when tombstones of the batch may go. The
// records' deltas count from it then.
func (h Header) HasDeleteHorizon() bool { return h.Attributes&attrDeleteHorizon != 0 }

// LastOffset returns the last offset that the batch covers. Its last record may have a lower one: compaction keeps
// the range of a batch when it drops records.
func (h Header) LastOffset() int64 { return h.FirstOffset + int64(h.LastOffsetDelta) }

// NextOffset returns the offset to read after the batch.
func (h Header) NextOffset() int64 { return h.LastOffset() + 1 }

// Gapless says whether every offset that the batch covers has a record.
func (h Header) Gapless() bool { return h.NumRecords == h.LastOffsetDelta+1 }

// HandOn says whether the batch, wanted whole, may be produced with its payload untouched after [Stamp]; if not, why.
// The reasons are constants, fit for counting. Otherwise decode the batch and encode its records.
func (h Header) HandOn() (reason string, ok bool) {
	switch {
	case h.Magic != 2:
		return "magic", false
	case h.IsControl():
		return "control", false
	case !h.Gapless():
		// The broker refuses gaps, and a delta faked to hide them loses the next batch's first records for
		// readers when the payload is uncompressed.
		return "gaps", false
	case h.LogAppendTime():
		// The records hold the producer's time and readers saw the broker's; without the bit they would see
		// the former.
		return "log_append_time", false
	}
	return "", true
}
