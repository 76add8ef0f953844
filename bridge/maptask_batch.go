package bridge

import (
	"context"
	"errors"
	"fmt"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// partitionKey names a source partition.
type partitionKey struct {
	source    string
	topic     string
	partition int32
}

// sourcePartition is a source partition as its map task sees it.
type sourcePartition struct {
	partitionKey
	sink  *sinkTopic
	chain *chain // nil: no map, so the batches need not be decoded
}

// String is how messages name it.
func (k partitionKey) String() string {
	return fmt.Sprintf("source %s topic %s partition %d", k.source, k.topic, k.partition)
}

// Reasons for decoding a batch, beside those of [batch.Header.HandOn].
const (
	reasonMap   = "map"   // a map needs its records
	reasonKey   = "key"   // its records go to different sink partitions
	reasonCut   = "cut"   // it begins before the wanted offset
	reasonCodec = "codec" // it is to go on in another codec
	reasonSize  = "size"  // it is larger than the sink topic takes
)

// batch takes one source batch to the sink, and releases it or hands it to the Writer.
func (t *mapTask) batch(ctx context.Context, b *sourceBatch) error {
	handedOn, err := t.process(ctx, b)
	if !handedOn {
		b.release()
	}
	return err
}

// process is batch without the release; handedOn says that the Writer owns b.
func (t *mapTask) process(ctx context.Context, b *sourceBatch) (handedOn bool, err error) {
	// Writing a new CRC would hide for ever what a disk or a wire has changed.
	if err := batch.CheckCRC(b.raw); err != nil {
		return false, &semantics.Error{Class: semantics.Unknown, Op: "verify record batch", Err: fmt.Errorf(
			"source %s topic %s partition %d offset %d: %w", b.source, b.topic, b.partition, b.header.FirstOffset, err)}
	}
	if b.header.IsControl() {
		return false, fmt.Errorf("source %s topic %s partition %d offset %d: a transaction marker came as a batch of records",
			b.source, b.topic, b.partition, b.header.FirstOffset)
	}
	if b.header.NumRecords == 0 {
		return false, nil // compaction leaves these
	}
	p, err := t.partition(ctx, b)
	if err != nil {
		return false, err
	}
	t.counters.records.in += int64(b.header.NumRecords)
	t.counters.records.bytesIn += int64(len(b.raw))
	reason, ok := t.handOn(p, b)
	if !ok {
		t.counters.reencode(reason)
		return false, t.decode(p, b)
	}
	t.counters.records.untouched++
	return true, t.encoders.handOn(p.sink.encoders[p.partition], b)
}

// handOn says whether the batch may go on untouched, and why not.
func (t *mapTask) handOn(p *sourcePartition, b *sourceBatch) (reason string, ok bool) {
	if p.chain != nil {
		return reasonMap, false
	}
	if t.cfg.sink.PartitionByKey {
		return reasonKey, false
	}
	if reason, ok := b.header.HandOn(); !ok {
		return reason, false
	}
	switch {
	case b.from > b.header.FirstOffset:
		return reasonCut, false
	case b.header.Codec() != p.sink.wanted(b.header.Codec()):
		return reasonCodec, false
	case len(b.raw) > p.sink.limit:
		return reasonSize, false
	}
	return "", true
}

// partition finds what is known of b's source partition and makes it when b is its first batch.
func (t *mapTask) partition(ctx context.Context, b *sourceBatch) (*sourcePartition, error) {
	key := partitionKey{source: b.source, topic: b.topic, partition: b.partition}
	if p := t.partitions[key]; p != nil {
		return p, nil
	}
	sink, err := t.router.sinkOf(ctx, b.topic, max(b.partitions, b.partition+1))
	if err != nil {
		return nil, err
	}
	p := &sourcePartition{partitionKey: key, sink: sink}
	if len(t.cfg.maps) > 0 {
		if p.chain, err = newChain(key, t.cfg.maps, t.cfg.registry, t.counters.dropped, t.emit); err != nil {
			return nil, err
		}
		if err := p.chain.restore(t.state); err != nil {
			return nil, err
		}
	}
	t.partitions[key] = p
	t.log.Debug("source partition began", "source", b.source, "topic", b.topic, "partition", b.partition, "sink_topic", sink.name, "map_task", t.index)
	return p, nil
}

// decode takes the wanted records of b one by one.
func (t *mapTask) decode(p *sourcePartition, b *sourceBatch) error {
	payload, err := t.decoder.Payload(b.raw, b.header)
	if err != nil {
		return undecodable(p, b.header.FirstOffset, err)
	}
	t.current = p
	t.codec = p.sink.wanted(b.header.Codec())
	for t.reader.Reset(b.header, payload); t.reader.Next(&t.record); {
		if t.record.Offset < b.from {
			t.counters.records.cut++
			continue
		}
		before := t.counters.records.emitted
		if err := t.take(p); err != nil {
			return err
		}
		if before == t.counters.records.emitted {
			t.counters.records.dropped++
		}
	}
	if err := t.reader.Err(); err != nil {
		return undecodable(p, b.header.FirstOffset, err)
	}
	return nil
}

// take brings the record being read through the chain, if there is one, into an open batch.
func (t *mapTask) take(p *sourcePartition) error {
	if p.chain == nil {
		return t.encode(&t.record)
	}
	return p.chain.run(&t.record)
}

// emit is the end of the chain of the record being read. Source partition and offset are the record's own, whatever a
// map made of those fields: order and messages rest on them.
func (t *mapTask) emit(r *Record) error {
	t.outcome = batch.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, Attributes: t.record.Attributes}
	return t.encode(&t.outcome)
}

// encode appends r to the open batch of its sink partition.
func (t *mapTask) encode(r *batch.Record) error {
	t.counters.records.emitted++
	e := t.router.encoderOf(t.current.sink, r.Key, t.current.partition)
	return t.encoders.append(e, t.codec, t.current, t.record.Offset, r)
}

// undecodable is the error for a batch whose CRC is right and whose bytes are not: it was written like that, so reading
// it again cannot help.
func undecodable(p *sourcePartition, offset int64, err error) error {
	var size *batch.DecompressedSizeError
	if errors.As(err, &size) || errors.Is(err, batch.ErrCorrupt) {
		return semantics.Refuse("decode record batch", "%s offset %d: %w; the batch was written like this: "+
			"delete it from the source, or let the bridge start behind it", p, offset, err)
	}
	return fmt.Errorf("decode record batch: %s offset %d: %w", p, offset, err)
}
