package batch

import "encoding/binary"

// Murmur2 returns the hash that Kafka's Java client takes of a key (org.apache.kafka.common.utils.Utils.murmur2,
// seed 0x9747b28c), as the unsigned view of Java's int.
func Murmur2(key []byte) uint32 {
	const m, r = 0x5bd1e995, 24
	h := 0x9747b28c ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	if len(key) > 0 {
		for i, c := range key {
			h ^= uint32(c) << (8 * i)
		}
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// PartitionForKey returns the partition of a topic with n partitions (n > 0) to which Kafka's Java client and
// franz-go send a record with this key by default: toPositive(murmur2(key)) % n. A null key has no such partition; an
// empty one does.
func PartitionForKey(key []byte, n int32) int32 {
	return int32(Murmur2(key)&0x7fffffff) % n
}
