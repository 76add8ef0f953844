package batch

import (
	"fmt"
	"strings"
)

// Codec is the compression of a batch's payload, as numbered in the lowest three bits of its attributes.
type Codec uint8

// The codecs of Kafka.
const (
	None Codec = iota
	Gzip
	Snappy
	Lz4
	Zstd
)

// String returns Kafka's name of the codec, as in the topic setting compression.type.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case Lz4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// Valid says whether c is one of Kafka's five codecs.
func (c Codec) Valid() bool { return c <= Zstd }

// ParseCodec is the inverse of [Codec.String]; case does not matter, and "uncompressed" (a value of the topic setting
// compression.type) is none.
func ParseCodec(s string) (Codec, error) {
	switch strings.ToLower(s) {
	case "none", "uncompressed":
		return None, nil
	case "gzip":
		return Gzip, nil
	case "snappy":
		return Snappy, nil
	case "lz4":
		return Lz4, nil
	case "zstd":
		return Zstd, nil
	}
	return None, fmt.Errorf("unknown compression codec %q: want none, gzip, snappy, lz4 or zstd", s)
}
