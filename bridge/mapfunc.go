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
}

// Map is a map function. One instance serves one source partition, so calls never overlap and come in the
// partition's order. It must be deterministic in its input and state: a replay must produce the same output.
type Map interface {
	// Map calls emit zero or more times; emit copies what it needs before it returns. An error stops the bridge (or
	// follows on_error), naming topic, partition and offset.
	Map(r *Record, emit func(*Record) error) error
}

// Stateful is a Map whose state belongs into the checkpoint. Snapshot is called when the barrier has reached the map
// task, Restore before the first record, with what Snapshot returned at the positions that the bridge goes on from.
type Stateful interface {
	Map
	Snapshot() ([]byte, error)
	Restore(state []byte) error
}

// Factory makes the instance of one source partition from the kind's settings.
type Factory func(settings any) (Map, error)

// Registry knows map kinds by name. It is read only once a bridge is built.
type Registry map[string]Factory
