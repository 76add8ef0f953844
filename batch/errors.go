package batch

import (
	"errors"
	"fmt"
)

// ErrTruncated says that the bytes end before the batch does. In a fetch response it is no fault: brokers cut their
// answer by size, and the partial batch at the end is to be fetched again.
var ErrTruncated = errors.New("record batch is truncated")

// ErrCorrupt is wrapped by every error that says that bytes are not what a record batch may be. It is never
// transient: the same bytes give the same error.
var ErrCorrupt = errors.New("record batch is corrupt")

// UnsupportedMagicError says that a batch has the format of Kafka before 0.11 (magic 0 or 1), which has neither
// headers nor producer ids.
type UnsupportedMagicError struct {
	Magic  int8
	Offset int64 // the offset that the message set begins with (of its last record, when it is compressed)
}

// Error implements error.
func (e *UnsupportedMagicError) Error() string {
	return fmt.Sprintf("message set at offset %d has magic %d (written by or for Kafka before 0.11), only magic 2 is supported",
		e.Offset, e.Magic)
}

// DecompressedSizeError says that the payload of a batch is larger than the limit of the [Decoder] when decompressed.
type DecompressedSizeError struct {
	Offset int64 // FirstOffset of the batch
	Codec  Codec
	Size   int // bytes of the compressed payload
	Limit  int // bytes that it may have decompressed
}

// Error implements error.
func (e *DecompressedSizeError) Error() string {
	return fmt.Sprintf("record batch at offset %d: %d bytes of %s decompress to more than the limit of %d bytes",
		e.Offset, e.Size, e.Codec, e.Limit)
}

// corruptf returns an error that wraps ErrCorrupt and names the batch by its first offset.
func corruptf(firstOffset int64, format string, args ...any) error {
	return fmt.Errorf("%w: batch at offset %d: %s", ErrCorrupt, firstOffset, fmt.Sprintf(format, args...))
}
