package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// rejects remember, in memory only, what the sink's brokers have refused, so that with on_reject = "dead_letter" the same
// records are not sent to them again. Safe from any goroutine.
//
// Most refusals are foreseen by the map task (see take and check): the size is measured, topic settings are known. What a
// broker refuses all the same (its clock, settings that may not be read or were changed) is answered behind the batch's
// neighbours, when other outputs of the same source record may have been acknowledged already. So nothing is mended in
// place:
//
//  1. The answer names the batch and, for timestamps and keys, its records. Nothing of that batch was appended, which does
//     not matter here: the run fails, and its transaction is aborted as after any other failure (without EXACTLY_ONCE:
//     records are read again from the last checkpoint).
//  2. Before the failure is told to anybody, note maps the named records to source partition and offset, by the origins
//     that the map task gave the batch.
//  3. The next run reads the range again. Each map task has a copy of the notes: a noted source record runs through its
//     maps, so that their state is what it would be otherwise, and its outputs are thrown away for the dead letter; no
//     batch that holds one is handed on untouched. All this is in the transaction that holds the neighbours, in order.
//
// It ends: every refusal makes a note that the next run obeys before it sends. A noted record is not sent again; a batch
// that was refused whole comes back as batches of one source record, or of half the size; a range of timestamps that a
// broker told, a missing key and a refused topic are remembered for all records. It needs no durable memory: after a crash
// the broker refuses again, and the note is made again. A record that is no longer refused then (a timestamp ahead of the
// clock, a mended topic) goes to the sink, once: the dead letter was in the transaction that was aborted.
//
// A refusal of a dead letter itself is noted nowhere and stops the bridge.
type rejects struct {
	mu      sync.Mutex
	records map[partitionKey]map[int64]note // by source offset; those of decided epochs are forgotten
	topics  map[string]lesson               // by sink topic
}

// note is what is known of one source record.
type note struct {
	reason string
	single bool // its batch was refused and nobody said for which record: each of its outputs goes in a batch of its own
}

// lesson is what a sink topic was found to refuse.
type lesson struct {
	nothing string // why it takes no record; "": it does
	batch   int    // bytes that a batch may have; 0: not known
	single  int    // bytes that a batch of one record may have; 0: not known
	nullKey bool
	span    *span
}

// origins are the source records of a batch, by index.
type origins struct {
	own     bool     // the sink block names the topic
	first   origin   // of a batch that was handed on: its records are consecutive
	records []origin // of a batch that was encoded
}

type origin struct {
	of     *sourcePartition
	offset int64
}

func (o *origins) at(index int32) origin {
	if o.records == nil {
		return origin{of: o.first.of, offset: o.first.offset + int64(index)}
	}
	if int(index) >= len(o.records) {
		return origin{}
	}
	return o.records[index]
}

func newRejects() *rejects {
	return &rejects{records: map[partitionKey]map[int64]note{}, topics: map[string]lesson{}}
}

// learn notes a refusal. It is false when the run must not be repeated for it: nobody knows which source records are to blame,
// or it is the configuration. Called again with the same refusal it changes nothing.
func (r *rejects) learn(f *batch.Refused) bool {
	o, ok := f.Origins.(*origins)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.topics[f.Topic]
	switch {
	case f.Why == batch.RefusedTopic && o.own:
		return false
	case f.Why == batch.RefusedTopic:
		l.nothing = f.Error()
	case f.Why == batch.RefusedSize && f.Count > 1:
		l.batch = atMost(l.batch, f.Bytes/2)
	case f.Why == batch.RefusedSize:
		l.single = atMost(l.single, f.Bytes-1)
		r.mark(o.at(0), note{reason: f.Error()})
	case len(f.Records) == 0:
		for i := range f.Count {
			r.mark(o.at(i), note{reason: f.Error(), single: f.Count > 1})
		}
	default:
		for _, bad := range f.Records {
			l.nullKey = l.nullKey || bad.NullKey
			r.mark(o.at(bad.Index), note{reason: fmt.Sprintf("sink %s/%d: %s", f.Topic, f.Partition, cmp.Or(bad.Reason, f.Error()))})
		}
		if f.HasRange && (l.span == nil || l.span.earliest != f.Earliest || l.span.latest != f.Latest) {
			l.span = &span{earliest: f.Earliest, latest: f.Latest, at: time.Now()}
		}
	}
	r.topics[f.Topic] = l
	return true
}

func atMost(known, bytes int) int {
	if known == 0 {
		return bytes
	}
	return min(known, bytes)
}

// mark notes a source record. That it alone is to blame is never taken back. The caller holds mu.
func (r *rejects) mark(at origin, n note) {
	if at.of == nil {
		return
	}
	key := at.of.partitionKey
	if r.records[key] == nil {
		r.records[key] = map[int64]note{}
	}
	if old, ok := r.records[key][at.offset]; ok && !old.single {
		return
	}
	n.reason = bounded(n.reason, errorLimit)
	r.records[key][at.offset] = n
}

// forget drops the notes of records that are decided.
func (r *rejects) forget(decided semantics.Positions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, notes := range r.records {
		at, ok := decided.Get(semantics.SourceTopic{Source: key.source, Topic: key.topic}, key.partition)
		if !ok {
			continue
		}
		maps.DeleteFunc(notes, func(offset int64, _ note) bool { return offset < at.Offset })
		if len(notes) == 0 {
			delete(r.records, key)
		}
	}
}

// notes are a copy of what is noted, for one run.
func (r *rejects) notes() (records map[partitionKey]map[int64]note, topics map[string]lesson) {
	r.mu.Lock()
	defer r.mu.Unlock()
	records = map[partitionKey]map[int64]note{}
	for key, notes := range r.records {
		records[key] = maps.Clone(notes)
	}
	return records, maps.Clone(r.topics)
}

// rejectWriter makes a refusal that was noted a failure that passes by reading again.
type rejectWriter struct {
	Writer
	rejects *rejects
}

// Write is the Writer's.
func (w *rejectWriter) Write(ctx context.Context, b batch.Outbound) error {
	return w.judge(w.Writer.Write(ctx, b))
}

// Flush is the Writer's.
func (w *rejectWriter) Flush(ctx context.Context) (sent bool, err error) {
	sent, err = w.Writer.Flush(ctx)
	return sent, w.judge(err)
}

func (w *rejectWriter) judge(err error) error {
	var refused *batch.Refused
	if !errors.As(err, &refused) || !w.rejects.learn(refused) {
		return err
	}
	return &semantics.Error{Class: semantics.Unknown, Op: "write to the sink",
		Err: fmt.Errorf("%w; on_reject = %q: the range is read again without it", err, DeadLetter)}
}
