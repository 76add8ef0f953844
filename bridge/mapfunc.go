package bridge

import "kafkabridge/batch"

// Record is one record on its way through the maps. Key, Value and Headers are views into the batch that was read:
// they are valid during the call of Map only, and must not be written to; a map that wants other bytes sets other slices,
// which must stay unchanged until the emit call returns. A nil Key or Value is Kafka's null.
type Record struct {
	Source    string
	Topic     string // of the source
	Partition int32
	Offset    int64
	Timestamp int64 // Unix milliseconds, as stored
	Key       []byte
	Value     []byte
	Headers   batch.Headers
	// SinkTopic is where a map wants the record to go; "" is the sink block's topic.
	SinkTopic string
	// Parsed is what a map of the chain made of Value, for the maps after it, so that a value is parsed once. It belongs to
	// exactly these bytes: the chain clears it when a map emits another Value.
	Parsed any
}

// Map is a map function. One instance serves one source partition, so calls never overlap and come in the
// partition's order. It must be deterministic in its input and state: a replay must produce the same output.
type Map interface {
	// Map calls emit zero or more times; emit copies what it needs before it returns. An error stops the bridge (or
	// follows on_error), naming topic, partition and offset. It may hold at most a short excerpt of the record (200 bytes), and
	// no secret: it goes into logs and into the headers of dead letters. Of one source record all outputs go out, or none: when
	// a map of the chain fails, or the sink refuses one of the outputs, what was emitted before is thrown away. An error that
	// emit returns is that of a later map: return it.
	//
	// A panic is an error, too, and names the function; it follows on_error, so a Stateful map must be as it was, or the same after
	// each replay. What Go cannot recover from (memory that is used up, a goroutine of the map's own that panics) ends the process.
	// r and what it points to belong to the batch: a map that keeps them, writes into them, or calls emit after it has returned
	// changes other records, and dead letters as well.
	Map(r *Record, emit func(*Record) error) error
}

// Common is what all records of a batch have in common.
type Common struct {
	Source    string
	Topic     string // of the source
	Partition int32
	// Timestamp is every record's, Unix milliseconds, when SameTimestamp: in a batch that the broker stamped.
	Timestamp     int64
	SameTimestamp bool
}

// Decision is what a BatchMap decides for all records of a batch.
type Decision struct {
	Drop      bool   // no record goes on
	SinkTopic string // where they go; "" leaves it as it was
}

// BatchMap is a Map that can sometimes decide from what the records of a batch have in common. When every map of a chain
// decides so, the batch goes on untouched, or is dropped whole, without being decoded.
type BatchMap interface {
	Map
	// Batch returns decided = false when it must see the records; Map is then called for each of them. An error is that of
	// every record and follows on_error, so it is the same as decided = false.
	Batch(c Common) (d Decision, decided bool, err error)
}

// Stateful is a Map whose state belongs into the checkpoint. Snapshot is called when the barrier has reached the map
// task, Restore before the first record, with what Snapshot returned at the positions that the bridge goes on from.
//
// Nothing is rolled back when a map fails for a record, or the sink refuses it: the state is whatever the map has made of its
// calls. A map that must not keep a record for which a later map fails sees that in the error of its emit. Either way a replay
// calls it with the same records in the same order and with the same answers, so it comes to the same state. (To roll back was
// rejected: each map would need a snapshot for each record.)
type Stateful interface {
	Map
	Snapshot() ([]byte, error)
	Restore(state []byte) error
}

// Factory makes the instance of one source partition from the kind's settings.
type Factory func(settings any) (Map, error)

// Registry knows map kinds by name. It is read only once a bridge is built.
type Registry map[string]Factory
