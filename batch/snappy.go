package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/s2"
)

// xerialHeaderSize is the size of what snappy-java, and so Kafka's Java client, writes before its blocks: eight bytes
// of magic, a version and the least compatible version. Other clients write one bare block.
const xerialHeaderSize = 16

var errXerial = errors.New("xerial framing is malformed")

// unsnappy appends src, decompressed, to dst. Every block says its size first, so nothing is allocated for a payload
// that claims more than the limit.
func unsnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, []byte("\x82SNAPPY\x00")) {
		return snappyBlock(dst, src, limit)
	}
	if len(src) < xerialHeaderSize {
		return nil, errXerial
	}
	var err error
	for src = src[xerialHeaderSize:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, errXerial
		}
		size := uint64(binary.BigEndian.Uint32(src))
		if src = src[4:]; size > uint64(len(src)) {
			return nil, errXerial
		}
		if dst, err = snappyBlock(dst, src[:size], limit); err != nil {
			return nil, err
		}
		src = src[size:]
	}
	return dst, nil
}

// snappyBlock appends one block, decompressed, to dst.
func snappyBlock(dst, block []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	switch {
	case err != nil:
		return nil, err
	case n > limit-len(dst):
		return nil, errLimit
	}
	dst = slices.Grow(dst, n)
	end := len(dst) + n
	if _, err := s2.Decode(dst[len(dst):end:end], block); err != nil {
		return nil, err
	}
	return dst[:end], nil
}
