package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	sink  *sinkTopic // the sink block's
	chain *chain     // nil: no map, so the batches need not be decoded
	noted map[int64]note
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

	reasonReject = "reject" // it has records that the sink refuses, or may have
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
	t.now, t.source = time.Now(), max(b.partitions, b.partition+1)
	sink, drop, reason, err := t.decide(ctx, p, b)
	switch {
	case err != nil:
		return false, err
	case drop != nil:
		t.dropBatch(drop, b)
		return false, nil
	case reason == "":
		reason = t.whyNot(p, sink, b)
	}
	if reason != "" {
		t.counters.reencode(reason)
		return false, t.decode(ctx, p, b)
	}
	t.counters.records.untouched++
	return true, t.encoders.handOn(sink.encoders[p.partition], p, b)
}

// decide asks the chain about all of b: where it goes, or the map that drops it. A reason says that the records must be seen.
func (t *mapTask) decide(ctx context.Context, p *sourcePartition, b *sourceBatch) (sink *sinkTopic, drop *stage, reason string, err error) {
	if p.chain == nil {
		return p.sink, nil, "", nil
	}
	common := Common{Source: p.partitionKey.source, Topic: p.topic, Partition: p.partition}
	if common.SameTimestamp = b.header.LogAppendTime(); common.SameTimestamp {
		common.Timestamp = b.header.MaxTimestamp
	}
	topic, drop, decided := p.chain.batch(common)
	switch {
	case !decided:
		return nil, nil, reasonMap, nil
	case drop != nil || topic == "":
		return p.sink, drop, "", nil
	}
	sink, refused, err := t.router.routed(ctx, topic, t.source)
	if err == nil && refused != nil { // which records are to blame is found one by one
		reason = reasonReject
	}
	return sink, nil, reason, err
}

// dropBatch counts the records of a batch that a map drops whole.
func (t *mapTask) dropBatch(drop *stage, b *sourceBatch) {
	n := int64(b.header.NumRecords)
	if b.from > b.header.FirstOffset {
		wanted := max(0, min(n, b.header.NextOffset()-b.from)) // with gaps that may be more than there are
		t.counters.records.cut += n - wanted
		n = wanted
	}
	*drop.dropped += n
	t.counters.records.dropped += n
}

// whyNot says why a batch that no map needs may not go on untouched to sink; "" when it may.
func (t *mapTask) whyNot(p *sourcePartition, sink *sinkTopic, b *sourceBatch) (reason string) {
	if t.cfg.sink.PartitionByKey {
		return reasonKey
	}
	if reason, ok := b.header.HandOn(); !ok {
		return reason
	}
	switch {
	case b.from > b.header.FirstOffset:
		return reasonCut
	case b.header.Codec() != sink.wanted(b.header.Codec()):
		return reasonCodec
	case len(b.raw) > sink.limit:
		return reasonSize
	case sink.takes.suspicious(b.header, t.now) || p.hasNotes(b.header):
		return reasonReject
	}
	return ""
}

// hasNotes says whether a broker has refused a record of the batch, and forgets the notes before it: offsets only rise.
func (p *sourcePartition) hasNotes(h batch.Header) bool {
	for offset := range p.noted {
		if offset < h.FirstOffset {
			delete(p.noted, offset)
		} else if offset <= h.LastOffset() {
			return true
		}
	}
	return false
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
	if t.dead.sink == nil && t.cfg.sink.DeadLetterTopic != "" {
		// Before it is needed: that it cannot be written to should be found at the start, not with the first bad record.
		if t.dead.sink, err = t.router.deadLetters(ctx, t.cfg.partitions); err != nil {
			return nil, err
		}
	}
	p := &sourcePartition{partitionKey: key, sink: sink, noted: t.cfg.noted[key]}
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
func (t *mapTask) decode(ctx context.Context, p *sourcePartition, b *sourceBatch) error {
	payload, err := t.decoder.Payload(b.raw, b.header)
	if err != nil {
		return undecodable(p, b.header.FirstOffset, err)
	}
	t.codec = b.header.Codec()
	for t.reader.Reset(b.header, payload); t.reader.Next(&t.record); {
		if t.record.Offset < b.from {
			t.counters.records.cut++
			continue
		}
		if err := t.take(ctx, p); err != nil {
			return err
		}
	}
	if err := t.reader.Err(); err != nil {
		return undecodable(p, b.header.FirstOffset, err)
	}
	return nil
}

// emit is the end of the chain of the record being read. Source partition and offset are the record's own, whatever a
// map made of those fields: order and messages rest on them.
func (t *mapTask) emit(r *Record) { t.outputs.add(r, &t.record) }

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
