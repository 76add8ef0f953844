package batch

import (
	"errors"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"
)

// zstdMaxBlock is what a block can decompress to at most (RFC 8878, 3.1.1.2.4).
const zstdMaxBlock = 128 << 10

// zstdDecoders are two, because the library's bound on the decompressed size also refuses frames whose window is
// larger than the bound, and at Kafka's level 22 the smallest batch declares a window of 128 MiB. A window costs no
// memory where the output is in one piece, so what cannot exceed the limit is decoded without a bound, and only the
// rest with one. Both are made when they are first needed. The price: a payload that comes close to the limit and
// declares a window beyond it is refused as well.
type zstdDecoders struct {
	open, bounded *zstd.Decoder
}

// decompress appends all frames of src, decompressed, to dst, which is empty.
func (z *zstdDecoders) decompress(dst, src []byte, limit int) ([]byte, error) {
	use, bound := &z.bounded, limit
	if zstdBound(src) <= limit {
		use, bound = &z.open, math.MaxInt32
	}
	if *use == nil {
		// With one decoder and no stream the library starts no goroutine, so there is nothing to close.
		dec, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(bound)))
		if err != nil {
			return nil, fmt.Errorf("make a decoder: %w", err)
		}
		*use = dec
	}
	out, err := (*use).DecodeAll(src, dst)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, errLimit
	}
	return out, err
}

// zstdBound returns what src decompresses to at most, from the sizes that its frames declare, which the library holds
// them to, and from its blocks. It is the largest int when src cannot be followed to its end.
func zstdBound(src []byte) int {
	total := 0
	for len(src) > 0 {
		var h zstd.Header
		if h.Decode(src) != nil || h.HeaderSize > len(src) || total > math.MaxInt32 {
			return math.MaxInt
		}
		src = src[h.HeaderSize:]
		if h.Skippable {
			if int64(h.SkippableSize) > int64(len(src)) {
				return math.MaxInt
			}
			src = src[h.SkippableSize:]
			continue
		}
		size, rest, ok := zstdBlocks(src)
		if h.HasCheckSum {
			ok = ok && len(rest) >= 4
		}
		if !ok {
			return math.MaxInt
		}
		if src = rest; h.HasCheckSum {
			src = rest[4:]
		}
		if h.HasFCS && h.FrameContentSize < uint64(size) {
			size = int(h.FrameContentSize)
		}
		total += size
	}
	return total
}

// zstdBlocks returns what the blocks of a frame decompress to at most, from src, which begins behind the frame's
// header, and what follows the blocks.
func zstdBlocks(src []byte) (bound int, rest []byte, ok bool) {
	for {
		if len(src) < 3 {
			return 0, nil, false
		}
		header := uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
		last, kind, size := header&1 != 0, header>>1&3, int(header>>3)
		switch kind {
		case 0: // stored
			bound += size
		case 1: // one byte, repeated
			bound += size
			size = 1
		default:
			bound += zstdMaxBlock
		}
		if src = src[3:]; size > len(src) {
			return 0, nil, false
		}
		src = src[size:]
		if last {
			return bound, src, true
		}
	}
}
