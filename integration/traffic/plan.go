// Package traffic fills source topics for tests. Every record is unique and says where it belongs: its payload
// carries source, partition, sequence and a hash, and its timestamp is its own. A producer is no oracle: what a
// topic really holds is read back with package oracle.
package traffic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Codecs are all compression codecs of Kafka.
func Codecs() []kgo.CompressionCodec {
	return []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression()}
}

// Shape decides what a record looks like.
type Shape int

const (
	// Text: a text key, a text value and one header, so that the console consumer can show it.
	Text Shape = iota
	// Odd: in turn null and empty keys and values, tombstones, binary bytes, header lists with duplicates, nulls
	// and hundreds of entries.
	Odd
)

// Plan of the records for one topic.
type Plan struct {
	Bootstrap  []string
	Topic      string
	Source     string // goes into every payload; tells apart the topics that feed one sink
	Partitions []int32
	// Records per partition.
	Records int
	// First is the sequence number of the first record of each partition, for a plan that goes on after another.
	First int
	// Batches are the sizes of the record batches, used in turn; default 500 records.
	Batches []int
	// Codecs are used in turn, one for a run of batches; default none.
	Codecs []kgo.CompressionCodec
	Shape  Shape
	// ValueBytes is the size of a text value in bytes; default 100.
	ValueBytes int
	// Keys is the number of different keys for compacted topics; 0: every key is different.
	Keys int
	// TransactionRecords per partition in one transaction; 0: no transactions.
	TransactionRecords int
	// AbortEvery n-th transaction; 0: none.
	AbortEvery int
	// PerSecond bounds the records per second over all partitions; 0: as fast as it goes.
	PerSecond int
	// Epoch is the timestamp of sequence 0 of partition 0. Two topics that feed one sink need different ones
	// only when their Source is equal.
	Epoch time.Time
}

// defaultEpoch is far from now on purpose: timestamps are handed on, not made.
func defaultEpoch() int64 { return time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC).UnixMilli() }

func (p *Plan) ensureDefaults() {
	if len(p.Batches) == 0 {
		p.Batches = []int{500}
	}
	if len(p.Codecs) == 0 {
		p.Codecs = []kgo.CompressionCodec{kgo.NoCompression()}
	}
	if p.ValueBytes == 0 {
		p.ValueBytes = 100
	}
	if p.Source == "" {
		p.Source = p.Topic
	}
}

// Count of what was produced, over all partitions.
type Count struct {
	Committed int
	Aborted   int
	Batches   int
}

// Range lists partitions 0 to n-1.
func Range(n int32) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}
