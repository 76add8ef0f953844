package bridge

import (
	"kafkabridge/batch"
)

// outputs are what the chain has emitted for the record being read. They are kept until all maps have succeeded and the
// sink is known to take each of them: of one source record either all outputs go out or none. Writing them at once and
// taking them back was rejected: they lie in several open batches, some of which may have been sent meanwhile.
type outputs struct {
	list  []output
	bytes []byte // what maps made anew; a map may use its own memory again as soon as emit returns
}

// output is one record on its way to the sink.
type output struct {
	record batch.Record // its bytes are the source batch's or lie in outputs.bytes
	topic  string       // that a map named; "": the sink block's
	sink   *sinkTopic
	single *buffer // the record as a batch of its own, where its size had to be measured; nil otherwise
}

// reset forgets the outputs of the record before.
func (o *outputs) reset() {
	o.list = o.list[:0]
	if o.bytes = o.bytes[:0]; cap(o.bytes) > scratchLimit {
		o.bytes = nil // one huge record must not stay in memory
	}
}

// add keeps r, emitted for source.
func (o *outputs) add(r *Record, source *batch.Record) {
	o.list = append(o.list, output{topic: r.SinkTopic, record: batch.Record{
		Key: o.keep(r.Key, source.Key), Value: o.keep(r.Value, source.Value), Headers: o.keepHeaders(r.Headers, source.Headers),
		Timestamp: r.Timestamp, Attributes: source.Attributes,
	}})
}

// keep copies b, unless it is the source's: those bytes stay as long as the batch is being read. When bytes has to grow,
// what was kept before stays valid in the old array.
func (o *outputs) keep(b, source []byte) []byte {
	if len(b) == 0 || sameBytes(b, source) {
		return b
	}
	n := len(o.bytes)
	o.bytes = append(o.bytes, b...)
	return o.bytes[n:len(o.bytes):len(o.bytes)]
}

func (o *outputs) keepHeaders(h, source batch.Headers) batch.Headers {
	if len(h.Raw()) == 0 || sameBytes(h.Raw(), source.Raw()) && h.Len() == source.Len() {
		return h
	}
	h, o.bytes = h.Copy(o.bytes)
	return h
}

// sameBytes says whether a and b are the same piece of memory, or both nothing.
func sameBytes(a, b []byte) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0]
}
