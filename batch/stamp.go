package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// CheckCRC compares the stored CRC-32C of a whole raw batch with its bytes. The error wraps [ErrCorrupt].
func CheckCRC(raw []byte) error {
	if len(raw) < HeaderSize {
		return ErrTruncated
	}
	stored, computed := binary.BigEndian.Uint32(raw[crcStart:]), checksum(raw)
	if stored != computed {
		return corruptf(int64(binary.BigEndian.Uint64(raw)), "CRC is %08x, stored %08x", computed, stored)
	}
	return nil
}

// checksum returns the CRC-32C of what the CRC field covers. MakeTable returns the one table of the standard library
// that has hardware support.
func checksum(raw []byte) uint32 {
	return crc32.Checksum(raw[crcEnd:], crc32.MakeTable(crc32.Castagnoli))
}

// Stamp rewrites in place the header of raw, a whole batch, for producing: first offset 0, no leader epoch, the given
// producer fields, the transactional bit as given, the bits of LogAppendTime and delete horizon off, and the CRC
// computed anew. Codec bits, timestamps, counts and payload stay. It is for batches that are handed on untouched and
// for those of a [Builder] alike; without an idempotent producer all three producer fields are -1.
//
// Stamp a batch once, when it is first sent. A resend must carry the identical bytes: with another sequence the
// broker would take the batch for a new one and append it twice.
//
// The caller has asked [Header.HandOn]. The control bit is left alone on purpose: without it a marker that got here by
// mistake would become a record, with it the broker refuses the batch.
func Stamp(raw []byte, producerID int64, producerEpoch int16, firstSequence int32, transactional bool) {
	b := (*[HeaderSize]byte)(raw)
	binary.BigEndian.PutUint64(b[0:], 0)
	binary.BigEndian.PutUint32(b[12:], ^uint32(0))
	attributes := binary.BigEndian.Uint16(b[21:]) &^ (attrLogAppendTime | attrDeleteHorizon | attrTransactional)
	if transactional {
		attributes |= attrTransactional
	}
	binary.BigEndian.PutUint16(b[21:], attributes)
	binary.BigEndian.PutUint64(b[43:], uint64(producerID))
	binary.BigEndian.PutUint16(b[51:], uint16(producerEpoch))
	binary.BigEndian.PutUint32(b[53:], uint32(firstSequence))
	binary.BigEndian.PutUint32(b[crcStart:], checksum(raw))
}
