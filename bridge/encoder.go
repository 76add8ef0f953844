package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// targetBytes is the uncompressed size at which a batch is closed, where the sink topic's limit is not lower. By
// BenchmarkEncodeTarget larger batches compress at most 1 % better and are slower (they leave the caches), smaller than
// 64 KiB ones cost more of everything, also of the broker.
const targetBytes = 256 << 10

// scratchLimit is what is kept of the memory for compressing, in bytes.
const scratchLimit = 8 * targetBytes

// idleBuilders is how many builders are kept, each of at most about twice targetBytes.
const idleBuilders = 16

// recordOverhead is the most that a record has around key, value and headers: length, attributes, timestamp, offset and
// three counts as varints.
const recordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5

// encoder is the way to one sink partition from one map task, with or without an open batch.
type encoder struct {
	sink      *sinkTopic
	partition int32
	builder   *batch.Builder // nil: no batch is open
	codec     batch.Codec    // of the open batch
	deadline  time.Time      // when linger has passed since the open batch's first record
	first     *sourcePartition
	from, to  int64    // source offsets of first's records in the open batch
	origins   []origin // of the open batch's records; nil when nobody will ask
}

// target is the uncompressed size that the open batch may reach. It leaves room for what the codec adds to
// incompressible records (see [batch.Builder.Size]): a batch over the limit would be refused for ever.
func (s *sinkTopic) target(codec batch.Codec) int {
	room := s.limit
	switch codec {
	case batch.None:
	case batch.Snappy:
		room -= s.limit/6 + 128
	case batch.Gzip, batch.Lz4, batch.Zstd:
		room -= s.limit/100 + 128
	default:
		room = 0
	}
	return min(room, s.preferred)
}

// encoders are the open batches of one map task and what is needed to finish them.
type encoders struct {
	ctx        context.Context // of the one run that the map task serves
	w          Writer
	tracks     bool // a refusal of the sink is traced back to source records
	linger     time.Duration
	openLimit  int // bytes in open batches; beyond it the oldest is closed early
	compressor batch.Compressor
	scratch    []byte // where batches are compressed
	buffers    buffers
	idle       []*batch.Builder
	open       []*encoder // oldest first
	openBytes  int
	out        counts
}

// append encodes o, from the record at offset of source partition p, into e's open batch and closes batches that are full. An
// isolated one gets a batch of its own.
func (x *encoders) append(e *encoder, codec batch.Codec, p *sourcePartition, offset int64, o *output, isolated bool) error {
	size := sizeOf(&o.record)
	target := e.sink.target(codec)
	if e.builder != nil && (isolated || e.codec != codec || e.builder.Size()+size > target) {
		if err := x.close(e); err != nil {
			return err
		}
	}
	if o.single != nil || batch.HeaderSize+size > target {
		return x.alone(e, codec, p, offset, o)
	}
	if e.builder == nil {
		if err := x.openBatch(e, codec, p, offset); err != nil {
			return err
		}
	}
	before := e.builder.Size()
	if err := e.builder.Append(&o.record); err != nil {
		return fmt.Errorf("encode %s offset %d: %w", p, offset, err)
	}
	x.openBytes += e.builder.Size() - before
	if p == e.first {
		e.to = offset
	}
	x.track(e, p, offset)
	if isolated {
		return x.close(e)
	}
	return nil
}

// sizeOf is the most that r takes in a batch, uncompressed, without the batch's header.
func sizeOf(r *batch.Record) int {
	return recordOverhead + len(r.Key) + len(r.Value) + len(r.Headers.Raw())
}

// track notes where the last record of the open batch, or the only one of the next, comes from. Dead letters have no origin:
// one that is refused has nowhere else to go.
func (x *encoders) track(e *encoder, p *sourcePartition, offset int64) {
	if x.tracks && !e.sink.dead {
		e.origins = append(e.origins, origin{of: p, offset: offset})
	}
}

// openBatch opens a batch whose first record is p's at offset.
func (x *encoders) openBatch(e *encoder, codec batch.Codec, p *sourcePartition, offset int64) error {
	for len(x.open) > 0 && x.openBytes > x.openLimit {
		if err := x.close(x.open[0]); err != nil {
			return err
		}
	}
	if n := len(x.idle); n > 0 {
		e.builder = x.idle[n-1]
		x.idle = x.idle[:n-1]
	} else {
		e.builder = new(batch.Builder)
	}
	e.codec, e.first, e.from, e.to = codec, p, offset, offset
	e.deadline = time.Now().Add(x.linger)
	x.open = append(x.open, e)
	x.openBytes += e.builder.Size()
	return nil
}

// close finishes the open batch of e and writes it.
func (x *encoders) close(e *encoder) error {
	records, size := e.builder.Count(), e.builder.Size()
	b, err := x.finish(e.builder, e.codec)
	if err != nil {
		return fmt.Errorf("encode batch from %s offsets %d to %d: %w", e.first, e.from, e.to, err)
	}
	if len(b.raw) > e.sink.limit {
		defer x.buffers.put(b)
		return fmt.Errorf("encode batch from %s offsets %d to %d: %s made %d bytes of %d, the limit is %d",
			e.first, e.from, e.to, e.codec, len(b.raw), size, e.sink.limit)
	}
	x.openBytes -= size
	i := slices.Index(x.open, e)
	x.open = slices.Delete(x.open, i, i+1)
	if len(x.idle) < idleBuilders {
		x.idle = append(x.idle, e.builder)
	}
	e.builder = nil
	return x.write(e, b, records)
}

// closeAll closes every open batch, oldest first.
func (x *encoders) closeAll() error {
	for len(x.open) > 0 {
		if err := x.close(x.open[0]); err != nil {
			return err
		}
	}
	return nil
}

// closeDue closes the batches whose linger has passed.
func (x *encoders) closeDue(now time.Time) error {
	for len(x.open) > 0 && !x.open[0].deadline.After(now) {
		if err := x.close(x.open[0]); err != nil {
			return err
		}
	}
	return nil
}

// alone writes a record that is larger than the target as a batch of its own. No batch of e is open.
func (x *encoders) alone(e *encoder, codec batch.Codec, p *sourcePartition, offset int64, o *output) error {
	b := o.single
	if o.single = nil; b == nil {
		var err error
		if b, err = x.single(e.sink, codec, &o.record); errors.Is(err, errTooLarge) {
			return semantics.Refuse("encode record", "%s offset %d: %w", p, offset, err)
		} else if err != nil {
			return fmt.Errorf("encode %s offset %d: %w", p, offset, err)
		}
	}
	e.first, e.from, e.to = p, offset, offset
	x.track(e, p, offset)
	return x.write(e, b, 1)
}

// errTooLarge is wrapped by the error of a record that no batch can bring into its sink topic.
var errTooLarge = errors.New("too large")

// single makes a batch of one record in a buffer that the caller owns, in codec or, where that makes it larger, in none. The
// error wraps errTooLarge when the sink topic does not take it: what counts is the size after compression, as the broker measures it.
// max_message_bytes does not bound it: Kafka's own default for a topic is 12 bytes above 1 MiB, and refusing what source and
// sink both take would stop the bridge for nothing.
func (x *encoders) single(s *sinkTopic, codec batch.Codec, r *batch.Record) (*buffer, error) {
	var builder batch.Builder // not one of the idle ones: its memory is not worth keeping
	var smallest int
	for _, c := range [...]batch.Codec{codec, batch.None} {
		if err := builder.Append(r); err != nil {
			return nil, err
		}
		b, err := x.finish(&builder, c)
		if err != nil {
			return nil, err
		}
		if len(b.raw) <= s.most {
			return b, nil
		}
		if smallest == 0 || len(b.raw) < smallest {
			smallest = len(b.raw)
		}
		x.buffers.put(b)
	}
	return nil, fmt.Errorf("%w: the record needs a batch of %d bytes, more than the %d that sink topic %q "+
		"may get (%s); raise that limit, or drop the record with a map", errTooLarge, smallest, s.most, s.name, s.limitedBy)
}

// finish turns the builder's records into a batch in a buffer that the caller owns.
//
// Codecs need room for the uncompressed size. It is lent from scratch, and the buffer gets what came out: Writers bound
// the bytes of batches, so small batches in big buffers would hold memory that nobody bounds.
func (x *encoders) finish(builder *batch.Builder, codec batch.Codec) (*buffer, error) {
	if codec == batch.None {
		b := x.buffers.get(builder.Size())
		raw, err := builder.Finish(b.raw, &x.compressor, codec)
		if err != nil {
			x.buffers.put(b)
			return nil, err
		}
		b.raw = raw
		return b, nil
	}
	raw, err := builder.Finish(x.scratch[:0], &x.compressor, codec)
	if err != nil {
		return nil, err
	}
	if x.scratch = raw; cap(raw) > scratchLimit {
		x.scratch = nil // one huge record must not stay in memory
	}
	b := x.buffers.get(len(raw))
	b.raw = append(b.raw, raw...)
	return b, nil
}

// write hands a finished batch to the Writer, which owns the buffer from then on.
func (x *encoders) write(e *encoder, b *buffer, records int) error {
	out := batch.Outbound{Topic: e.sink.name, Partition: e.partition, Raw: b.raw, Records: int32(records), Release: b.release,
		SourceTopic: e.first.topic, SourcePartition: e.first.partition, FirstOffset: e.from, LastOffset: e.to}
	if e.origins != nil {
		out.Origins = &origins{own: e.sink.own, records: e.origins}
		e.origins = nil // the batch may be asked about for as long as it is on its way
	}
	return x.send(out)
}

// handOn writes a source batch of p as it is, behind what is open for the same sink partition: otherwise later records would
// overtake earlier ones. The Writer owns the batch from then on.
func (x *encoders) handOn(e *encoder, p *sourcePartition, b *sourceBatch) error {
	if e.builder != nil {
		if err := x.close(e); err != nil {
			b.release()
			return err
		}
	}
	out := batch.Outbound{Topic: e.sink.name, Partition: e.partition, Raw: b.raw, Records: b.header.NumRecords, Release: b.release,
		SourceTopic: b.topic, SourcePartition: b.partition, FirstOffset: b.header.FirstOffset, LastOffset: b.header.LastOffset()}
	if x.tracks {
		out.Origins = &origins{own: e.sink.own, first: origin{of: p, offset: b.header.FirstOffset}}
	}
	return x.send(out)
}

func (x *encoders) send(b batch.Outbound) error {
	size := len(b.Raw) // before Write: Raw is the Writer's from then on
	if err := x.w.Write(x.ctx, b); err != nil {
		return fmt.Errorf("write source topic %s partition %d offsets %d to %d to sink topic %s partition %d: %w",
			b.SourceTopic, b.SourcePartition, b.FirstOffset, b.LastOffset, b.Topic, b.Partition, err)
	}
	x.out.batches++
	x.out.records += int64(b.Records)
	x.out.bytes += int64(size)
	return nil
}
