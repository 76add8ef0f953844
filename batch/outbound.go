package batch

// Outbound is one complete record batch on its way to a sink partition. Its producer fields are not set yet: the sender
// stamps them once and then sends the same bytes until they are acknowledged.
type Outbound struct {
	Topic     string // sink topic
	Partition int32  // sink partition
	Raw       []byte // the whole batch, format v2; owned by the receiver until Release
	Records   int32
	Release   func() // called exactly once when Raw is no longer needed; never nil

	// Where the records come from, for messages about them.
	SourceTopic     string
	SourcePartition int32
	FirstOffset     int64 // source offset of the first record
	LastOffset      int64
	// Origins is what whoever made the batch needs to find the source record of each of its records; nil when nobody will
	// ask. It comes back in a [Refused] and is not looked at on the way.
	Origins any
}

// SinkTopic is what the sink cluster says about one of its topics.
type SinkTopic struct {
	Partitions      int32
	MaxMessageBytes int32  // the topic's max.message.bytes
	Compression     string // the topic's compression.type; "producer" keeps what comes
	LogAppendTime   bool   // the topic overwrites timestamps
	Compacted       bool   // cleanup.policy has compact: a record without a key is refused
	// MaxAge and MaxAhead, in milliseconds, are how far a timestamp may lie before and behind the broker's clock
	// (message.timestamp.before.max.ms, message.timestamp.after.max.ms); 0: no limit is known.
	MaxAge, MaxAhead int64
}
