package snapshot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"kafkabridge/semantics"
)

// Versions of the durable bytes; FORMAT.md says what each means. They are appended to, never changed.
const (
	storeFormat = 1 // of the directory as a whole: which keys there are
	valueFormat = 1 // of one checkpoint's value
)

// Limits of what is written and believed. maxValueBytes is far below Pebble's 4 GiB a batch, and bounds what
// a damaged length can make the decoder allocate.
const (
	maxValueBytes = 512 << 20
	maxNameBytes  = 255
)

// Offsets of the two bytes that are read without decoding the rest.
const (
	formatAt = 0
	statusAt = 1
)

const crcBytes = 4

// metaKey sorts before every checkpoint key and is read first, whatever the format.
const metaKey = "bridge"

// checkpointPrefix is followed by the epoch, big endian, so that Pebble's order is the order of epochs.
const checkpointPrefix = "c\x01"

func checkpointKey(e semantics.Epoch) []byte {
	return binary.BigEndian.AppendUint64([]byte(checkpointPrefix), uint64(e))
}

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// seal appends the CRC-32C of everything before it. Pebble's own checksums cover its blocks; this one covers the
// way through memory and a value that was cut or mixed up by a restored directory.
func seal(b []byte) []byte { return binary.BigEndian.AppendUint32(b, castagnoli(b)) }

// encodeMeta is the value of metaKey.
func encodeMeta(bridge string, format uint64) []byte {
	return seal(appendString(binary.AppendUvarint(nil, format), bridge))
}

// encode is the value of one checkpoint. Equal checkpoints have equal bytes: maps are written in order.
func encode(c semantics.Checkpoint) ([]byte, error) {
	if c.Epoch < 1 {
		return nil, fmt.Errorf("checkpoint of epoch %d: epochs are numbered from 1", c.Epoch)
	}
	if c.Status < semantics.Proposed || c.Status > semantics.Aborted {
		return nil, fmt.Errorf("checkpoint of epoch %d: %v is no status", c.Epoch, c.Status)
	}
	if c.Semantic < semantics.None || c.Semantic > semantics.ExactlyOnce {
		return nil, fmt.Errorf("checkpoint of epoch %d: %v is no semantic", c.Epoch, c.Semantic)
	}
	b := []byte{valueFormat, byte(c.Status), byte(c.Semantic), flags(c)}
	b = binary.AppendVarint(b, int64(c.Epoch))
	b = appendString(b, c.Incarnation)
	b = appendTransaction(b, c.Transaction)
	b = appendTransaction(b, c.Follows)
	b = append(b, c.LedgerTopicID[:]...)
	b = binary.AppendVarint(b, c.StartedMs)
	b = binary.AppendVarint(b, c.TimeoutMs)
	b = binary.AppendVarint(b, c.SavedMs)
	b = appendPositions(b, c.Positions)
	b = appendState(b, c.State)
	if len(b) > maxValueBytes {
		return nil, fmt.Errorf("checkpoint of epoch %d has %d bytes, more than the limit of %d: its map state is too big", c.Epoch, len(b), maxValueBytes)
	}
	return seal(b), nil
}

// Flags of a checkpoint. State and positions distinguish nil from empty so that what is loaded is what was saved.
const (
	flagEmpty     = 1 << 0
	flagState     = 1 << 1
	flagPositions = 1 << 2
	flagsKnown    = flagEmpty | flagState | flagPositions
)

func flags(c semantics.Checkpoint) byte {
	var f byte
	if c.Empty {
		f |= flagEmpty
	}
	if c.State != nil {
		f |= flagState
	}
	if c.Positions != nil {
		f |= flagPositions
	}
	return f
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTransaction(b []byte, t semantics.Transaction) []byte {
	b = appendString(b, t.ID)
	b = binary.AppendVarint(b, t.ProducerID)
	b = binary.AppendVarint(b, int64(t.ProducerEpoch))
	return binary.AppendVarint(b, int64(t.EndTxnVersion))
}

func appendPositions(b []byte, p semantics.Positions) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	for _, topic := range p.Topics() {
		t := p[topic]
		b = appendString(b, topic.Source)
		b = appendString(b, topic.Topic)
		b = append(b, t.ID[:]...)
		b = binary.AppendUvarint(b, uint64(len(t.Partitions)))
		for _, partition := range slices.Sorted(maps.Keys(t.Partitions)) {
			pos := t.Partitions[partition]
			b = binary.AppendVarint(b, int64(partition))
			b = binary.AppendVarint(b, pos.Offset)
			b = binary.AppendVarint(b, int64(pos.LeaderEpoch))
		}
	}
	return b
}

func appendState(b []byte, state map[string][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(state)))
	for _, key := range slices.Sorted(maps.Keys(state)) {
		b = appendString(b, key)
		v := state[key]
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
	}
	return b
}

// withStatus is value with another status; everything else stays as it was saved.
func withStatus(value []byte, status semantics.Status) []byte {
	b := slices.Clone(value[:len(value)-crcBytes])
	b[statusAt] = byte(status)
	return seal(b)
}
