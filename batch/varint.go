package batch

import "math/bits"

// Kafka's varints are protobuf's: seven bits a byte, lowest first, zigzag. An int32 has at most 5 bytes, an int64 10.

// uvarint decodes an unsigned varint of at most limit bits. n is 0 when b ends within it or it does not fit.
func uvarint(b []byte, limit int) (v uint64, n int) {
	var shift uint
	for i, c := range b {
		if shift+7 > uint(limit) && uint64(c)>>(uint(limit)-shift) != 0 {
			return 0, 0 // the last byte has bits beyond the limit, or goes on
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, i + 1
		}
		shift += 7
	}
	return 0, 0
}

// varint decodes an int32. n is 0 when b holds none.
func varint(b []byte) (v int32, n int) {
	if len(b) > 0 && b[0] < 0x80 { // nearly all lengths and deltas of real records have one or two bytes
		u := uint32(b[0])
		return int32(u>>1) ^ -int32(u&1), 1
	}
	if len(b) > 1 && b[1] < 0x80 {
		u := uint32(b[0]&0x7f) | uint32(b[1])<<7
		return int32(u>>1) ^ -int32(u&1), 2
	}
	u, n := uvarint(b, 32)
	return int32(uint32(u)>>1) ^ -int32(u&1), n
}

// varlong decodes an int64. n is 0 when b holds none.
func varlong(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		u := int64(b[0])
		return u>>1 ^ -(u & 1), 1
	}
	u, n := uvarint(b, 64)
	return int64(u>>1) ^ -int64(u&1), n
}

func zigzag32(v int32) uint32 { return uint32(v)<<1 ^ uint32(v>>31) }
func zigzag64(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

// sizeUvarint returns how many bytes u has as a varint.
func sizeUvarint(u uint64) int { return (bits.Len64(u|1) + 6) / 7 }

func sizeVarint(v int) int { return sizeUvarint(uint64(zigzag32(int32(v)))) }

// appendUvarint is binary.AppendUvarint with the one-byte case first, which the compiler can inline.
func appendUvarint(b []byte, u uint64) []byte {
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

func appendVarint(b []byte, v int) []byte { return appendUvarint(b, uint64(zigzag32(int32(v)))) }
