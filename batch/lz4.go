package batch

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/pierrec/lz4/v4"
)

// The lz4 frame format (github.com/lz4/lz4, doc/lz4_Frame_format.md), little endian: magic, flags, block descriptor,
// perhaps content size and dictionary id, header checksum; then blocks of size, data and perhaps a checksum; a size of
// 0 ends the frame, perhaps with a checksum of the content.
//
// The frame is walked here and only the blocks are left to the library: its stream reader copies every byte once more
// and cannot write into a buffer of ours. The checksums are not looked at (Kafka's Java client does not look at that
// of the content either); the batch's CRC covers the same bytes.
const (
	lz4Magic = 0x184D2204

	lz4Version         = 0x40 // in the two highest bits of the flags
	lz4VersionMask     = 0xC0
	lz4Independent     = 0x20
	lz4BlockChecksum   = 0x10
	lz4ContentSize     = 0x08
	lz4ContentChecksum = 0x04
	lz4Dictionary      = 0x01

	lz4Stored = 1 << 31 // in a block's size: its data is not compressed

	lz4Window = 64 << 10 // how far back a block can refer
)

var errLz4Frame = errors.New("lz4 frame is malformed or ends too early")

// lz4Frame is what the header of a frame says about its blocks.
type lz4Frame struct {
	flags    byte
	maxBlock int // decompressed bytes of a block
}

// unlz4 appends all frames of src, decompressed, to dst.
func unlz4(dst, src []byte, limit int) ([]byte, error) {
	for {
		frame, rest, err := parseLz4Header(src)
		if err != nil {
			return nil, err
		}
		dst, src, err = frame.decode(dst, rest, limit)
		if err != nil || len(src) == 0 {
			return dst, err
		}
	}
}

// parseLz4Header splits the header of a frame off src.
func parseLz4Header(src []byte) (lz4Frame, []byte, error) {
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return lz4Frame{}, nil, errLz4Frame
	}
	frame := lz4Frame{flags: src[4]}
	blockSize := src[5] >> 4 & 7
	if frame.flags&lz4VersionMask != lz4Version || frame.flags&lz4Dictionary != 0 || blockSize < 4 {
		return lz4Frame{}, nil, errLz4Frame
	}
	frame.maxBlock = 1 << (8 + 2*blockSize) // 64 KiB, 256 KiB, 1 MiB, 4 MiB
	size := 7
	if frame.flags&lz4ContentSize != 0 {
		size += 8
	}
	if len(src) < size {
		return lz4Frame{}, nil, errLz4Frame
	}
	return frame, src[size:], nil
}

// decode appends the blocks of the frame that src begins with behind its header, and returns what follows the frame.
func (f lz4Frame) decode(dst, src []byte, limit int) (out, rest []byte, err error) {
	start := len(dst)
	for {
		if len(src) < 4 {
			return nil, nil, errLz4Frame
		}
		size := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if size == 0 {
			if src, err = f.skip(src, lz4ContentChecksum); err != nil {
				return nil, nil, err
			}
			return dst, src, nil
		}
		n := int(size &^ lz4Stored)
		if n > len(src) || n > lz4.CompressBlockBound(f.maxBlock) {
			return nil, nil, errLz4Frame
		}
		if dst, err = f.block(dst, start, src[:n], size&lz4Stored != 0); err != nil {
			return nil, nil, err
		}
		if len(dst) > limit {
			return nil, nil, errLimit
		}
		if src, err = f.skip(src[n:], lz4BlockChecksum); err != nil {
			return nil, nil, err
		}
	}
}

// block appends one block, which may refer to what its frame, beginning at start, has decompressed to so far.
func (f lz4Frame) block(dst []byte, start int, block []byte, stored bool) ([]byte, error) {
	if stored {
		if len(block) > f.maxBlock {
			return nil, errLz4Frame
		}
		return append(dst, block...), nil
	}
	room := min(f.maxBlock, 255*len(block)) // a byte of lz4 cannot say more than 255
	dst = slices.Grow(dst, room)
	var window []byte
	if f.flags&lz4Independent == 0 {
		window = dst[max(start, len(dst)-lz4Window):]
	}
	n, err := lz4.UncompressBlockWithDict(block, dst[len(dst):len(dst)+room], window)
	if err != nil {
		return nil, err
	}
	return dst[:len(dst)+n], nil
}

// skip skips a checksum that is there if the flag is set.
func (f lz4Frame) skip(src []byte, flag byte) ([]byte, error) {
	if f.flags&flag == 0 {
		return src, nil
	}
	if len(src) < 4 {
		return nil, errLz4Frame
	}
	return src[4:], nil
}
