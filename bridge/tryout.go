package bridge

import (
	"slices"

	"kafkabridge/batch"
)

// Tryout runs the maps of a bridge on single records, without Kafka, exactly as a map task does: each source partition has
// maps of its own, and records of one partition go through in the order of the calls. For one goroutine.
type Tryout struct {
	maps     []MapOptions
	registry Registry
	chains   map[partitionKey]*chain
	dropped  []int64
	outputs  []TryoutOutput // of the call under way
}

// TryoutOutput is one record that a chain made. Its bytes are its own.
type TryoutOutput struct {
	SinkTopic string // that a map chose; "": the sink block's
	Timestamp int64  // Unix milliseconds
	Key       []byte
	Value     []byte
	Headers   batch.Headers
}

// TryoutResult says what became of one record.
type TryoutResult struct {
	Outputs []TryoutOutput
	// Map is the position and kind of the map that dropped the record, or failed for it: "2 filter". "" when there are Outputs.
	Map string
	Err error // of the map that failed; nil: the record was dropped, or has Outputs
	// Policy is the failed map's on_error.
	Policy Policy
}

// NewTryout checks that every map can be made. Its error is that of New.
func NewTryout(maps []MapOptions, registry Registry) (*Tryout, error) {
	for _, err := range checkMaps(maps, registry) {
		return nil, err
	}
	return &Tryout{maps: maps, registry: registry, chains: map[partitionKey]*chain{}, dropped: make([]int64, len(maps))}, nil
}

// Run takes a source record through the maps. Nothing of r is kept.
func (t *Tryout) Run(r *Record) (TryoutResult, error) {
	t.outputs = nil
	if len(t.maps) == 0 {
		t.keep(r)
		return TryoutResult{Outputs: t.outputs}, nil
	}
	key := partitionKey{source: r.Source, topic: r.Topic, partition: r.Partition}
	c := t.chains[key]
	if c == nil {
		var err error
		if c, err = newChain(key, t.maps, t.registry, t.dropped, t.keep); err != nil {
			return TryoutResult{}, err
		}
		t.chains[key] = c
	}
	failed := c.run(&batch.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, Offset: r.Offset})
	switch {
	case failed != nil:
		return TryoutResult{Map: failed.place(), Err: failed.err, Policy: failed.stage.onError}, nil
	case len(t.outputs) == 0:
		return TryoutResult{Map: c.drops[len(c.drops)-1].place()}, nil
	}
	return TryoutResult{Outputs: t.outputs}, nil
}

func (t *Tryout) keep(r *Record) {
	out := TryoutOutput{SinkTopic: r.SinkTopic, Timestamp: r.Timestamp, Key: cloned(r.Key), Value: cloned(r.Value)}
	out.Headers, _ = r.Headers.Copy(nil)
	t.outputs = append(t.outputs, out)
}

// cloned keeps null and empty apart.
func cloned(b []byte) []byte {
	if b == nil {
		return nil
	}
	return slices.Clone(b[:len(b):len(b)])
}
