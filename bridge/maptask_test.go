package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// awkward are records that a careless copy changes.
func awkward() []plain {
	return consecutive(
		plain{Key: nil, Value: nil, Timestamp: 1_700_000_000_000},
		plain{Key: []byte{}, Value: []byte{}, Timestamp: 1_700_000_000_000 - 5_000},
		plain{Key: []byte("k"), Value: nil, Timestamp: -1},
		plain{Key: nil, Value: []byte("v"), Timestamp: 253_402_300_800_000, Headers: []kmsg.Header{
			{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{}}, {Key: "a", Value: []byte("2")}, {Key: "c", Value: nil}, {Key: "", Value: []byte("x")}}},
		plain{Key: []byte{0xff, 0xfe, 0}, Value: bytes.Repeat([]byte("long "), 3_000), Timestamp: 0,
			Headers: []kmsg.Header{{Key: "\xff\xfe", Value: []byte{0xff, 0}}}},
	)
}

// same compares what a reader of the sink sees with what a test expects; offset deltas are the sink's own.
func same(tb testing.TB, got, want []plain) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		g.Delta, w.Delta = 0, 0
		if len(g.Headers) == 0 && len(w.Headers) == 0 {
			g.Headers, w.Headers = nil, nil
		}
		if !reflect.DeepEqual(g, w) {
			tb.Fatalf("record %d:\n got %+v\nwant %+v", i, g, w)
		}
	}
}

var allCodecs = []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.Lz4, batch.Zstd}

func TestUntouchedBatchKeepsItsBytes(t *testing.T) {
	for _, codec := range allCodecs {
		sink := &fakeSink{}
		r := startTask(t, 1, mapConfig{}, sink, nil)
		raw := encodeSource(t, 500, codec, awkward(), nil)
		want := bytes.Clone(raw)
		var released atomic.Int32
		b := fromSource(t, "in", 3, raw)
		b.release = func() { released.Add(1) }
		r.send(b)
		r.barrier(1)
		got := sink.taken()
		if len(got) != 1 || !bytes.Equal(got[0].raw, want) {
			t.Fatalf("%s: %d batches, or bytes that differ", codec, len(got))
		}
		w := got[0]
		w.Raw, w.Release = nil, nil
		if !reflect.DeepEqual(w.Outbound, batch.Outbound{Topic: "out", Partition: 3, Records: 5, SourceTopic: "in", SourcePartition: 3,
			FirstOffset: 500, LastOffset: 504}) {
			t.Errorf("%s: %+v", codec, w.Outbound)
		}
		if n := released.Load(); n != 1 {
			t.Errorf("%s: released %d times", codec, n)
		}
		if s := r.task.stats(); s.Untouched != 1 || len(s.Reencoded) != 0 || s.RecordsIn != 5 || s.RecordsOut != 5 || s.BatchesOut != 1 {
			t.Errorf("%s: %+v", codec, s)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// Each row is a batch that must not be handed on, and what a reader must find instead.
func TestReencodedWhereUntouchedWouldBeWrong(t *testing.T) {
	gaps := []plain{text("a", "1"), text("b", "2"), text("c", "3")}
	gaps[1].Delta, gaps[2].Delta = 4, 9
	appended := consecutive(text("a", "1"), text("b", "2"))
	atAppend := consecutive(text("a", "1"), text("b", "2"))
	for i := range atAppend {
		atAppend[i].Timestamp = 1_800_000_000_000
	}
	big := consecutive(text("a", strings.Repeat("x", 600)), text("b", strings.Repeat("y", 600)))
	set := func(f func(*SinkOptions)) func(*mapConfig) { return func(c *mapConfig) { f(&c.sink) } }
	for _, row := range []struct {
		reason  string
		codec   batch.Codec
		records []plain
		want    []plain
		edit    func(*kmsg.RecordBatch)
		from    int64
		config  func(*mapConfig)
		topic   batch.SinkTopic
		into    batch.Codec
	}{
		{reason: "gaps", codec: batch.Lz4, records: gaps, want: gaps, into: batch.Lz4},
		{reason: "gaps", codec: batch.None, records: appended, want: appended, into: batch.None,
			edit: func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 7 }},
		{reason: "log_append_time", codec: batch.Zstd, records: appended, want: atAppend, into: batch.Zstd,
			edit: func(b *kmsg.RecordBatch) { b.Attributes |= 8; b.MaxTimestamp = 1_800_000_000_000 }},
		{reason: "cut", codec: batch.Snappy, records: awkward(), want: awkward()[2:], from: 502, into: batch.Snappy},
		{reason: "codec", codec: batch.Snappy, records: awkward(), want: awkward(), into: batch.Zstd,
			config: set(func(o *SinkOptions) { o.Compression = "zstd" })},
		{reason: "codec", codec: batch.Gzip, records: awkward(), want: awkward(), into: batch.None,
			config: set(func(o *SinkOptions) { o.Compression = "none" })},
		{reason: "codec", codec: batch.Snappy, records: awkward(), want: awkward(), into: batch.Lz4,
			topic: batch.SinkTopic{Compression: "lz4"}},
		{reason: "codec", codec: batch.Zstd, records: awkward(), want: awkward(), into: batch.None,
			topic: batch.SinkTopic{Compression: "uncompressed"}},
		{reason: "size", codec: batch.None, records: big, want: big, topic: batch.SinkTopic{MaxMessageBytes: 1_000}},
		{reason: "size", codec: batch.None, records: big, want: big, config: set(func(o *SinkOptions) { o.MaxMessageBytes = 1_000 })},
		{reason: "key", codec: batch.Lz4, records: appended, want: appended, into: batch.Lz4,
			config: set(func(o *SinkOptions) { o.PartitionByKey = true }), topic: batch.SinkTopic{Partitions: 1}},
		{reason: "map", codec: batch.Lz4, records: awkward(), want: awkward(), into: batch.Lz4, config: func(c *mapConfig) {
			c.maps, c.registry = []MapOptions{{Kind: "headers", Settings: HeadersOptions{Remove: []string{"nobody"}}}}, Maps()
		}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			cfg := mapConfig{sink: sinkOptions()}
			if row.config != nil {
				row.config(&cfg)
			}
			sink := &fakeSink{topic: row.topic}
			r := startTask(t, 1, cfg, sink, nil)
			var released atomic.Int32
			b := fromSource(t, "in", 0, encodeSource(t, 500, row.codec, row.records, row.edit))
			b.release = func() { released.Add(1) }
			b.from = max(b.from, row.from)
			r.send(b)
			r.barrier(1)
			same(t, sink.records(t, "out", 0), row.want)
			for _, w := range sink.taken() {
				if codec, _ := decodeSink(t, w.raw); codec != row.into {
					t.Errorf("codec %s, want %s", codec, row.into)
				}
				if row.reason == "size" && len(w.raw) > 1_000 {
					t.Errorf("a batch of %d bytes", len(w.raw))
				}
				if row.reason == "cut" && (w.FirstOffset != 502 || w.LastOffset != 504) {
					t.Errorf("offsets %d to %d", w.FirstOffset, w.LastOffset)
				}
			}
			if s := r.task.stats(); s.Untouched != 0 || s.Reencoded[row.reason] != 1 || s.RecordsOut != int64(len(row.want)) {
				t.Errorf("%+v", s)
			}
			if n := released.Load(); n != 1 {
				t.Errorf("released %d times", n)
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The codecs that the sink is to have anyway do not cost a new encoding.
func TestUntouchedInTheWantedCodec(t *testing.T) {
	for _, topic := range []string{"lz4", "producer", ""} {
		cfg := mapConfig{sink: sinkOptions()}
		cfg.sink.Compression = "lz4"
		sink := &fakeSink{topic: batch.SinkTopic{Compression: topic}}
		r := startTask(t, 1, cfg, sink, nil)
		r.send(fromSource(t, "in", 0, encodeSource(t, 0, batch.Lz4, awkward(), nil)))
		r.barrier(1)
		if s := r.task.stats(); s.Untouched != 1 {
			t.Errorf("%q: %+v", topic, s)
		}
		r.stop()
	}
}

func TestOrderWithUntouchedAndReencodedMixed(t *testing.T) {
	sink := &fakeSink{}
	cfg := mapConfig{sink: sinkOptions()}
	cfg.sink.Linger = 1e12 // only order may close batches here
	r := startTask(t, 1, cfg, sink, nil)
	rnd := rand.New(rand.NewPCG(3, 4))
	offset := int64(0)
	want := map[int32][]plain{}
	for range 200 {
		p := int32(rnd.IntN(3))
		var records []plain
		for range 1 + rnd.IntN(4) {
			records = append(records, text("k", fmt.Sprint(len(want[p])+len(records))))
		}
		consecutive(records...)
		if rnd.IntN(2) == 0 { // a gap, so it is encoded anew
			records[len(records)-1].Delta += 3
		}
		r.send(fromSource(t, "in", p, encodeSource(t, offset, allCodecs[rnd.IntN(3)], records, nil)))
		want[p] = append(want[p], records...)
		offset += 10
	}
	r.barrier(1)
	for p, records := range want {
		same(t, sink.records(t, "out", p), records)
	}
	if s := r.task.stats(); s.Untouched == 0 || s.Reencoded["gaps"] == 0 {
		t.Errorf("%+v", s)
	}
	r.stop()
}

// A release that comes too early gives a buffer to two owners: the batches that the Writer still holds change.
func TestBuffersHaveOneOwner(t *testing.T) {
	sink := &fakeSink{hold: true}
	cfg := mapConfig{sink: sinkOptions()}
	cfg.sink.PartitionByKey = true
	r := startTask(t, 1, cfg, sink, nil)
	rnd := rand.New(rand.NewPCG(5, 6))
	sink.onWrite = func(w written) {
		if rnd.IntN(2) == 0 {
			return
		}
		i := rnd.IntN(len(sink.batches))
		if held := &sink.batches[i]; held.Release != nil {
			if !bytes.Equal(held.Raw, held.raw) {
				t.Errorf("batch %d changed while the Writer had it", i)
			}
			held.Release()
			held.Release = nil
		}
	}
	for i := range 300 {
		r.send(fromSource(t, "in", int32(i%3), encodeSource(t, int64(i)*100, allCodecs[i%5], consecutive(text("a", fmt.Sprint(i)), text("b", "x"), text("c", "y")), nil)))
	}
	r.barrier(1)
	for i, w := range sink.taken() {
		if w.Release != nil && !bytes.Equal(w.Raw, w.raw) {
			t.Errorf("batch %d changed while the Writer had it", i)
		}
	}
	r.stop()
}

func TestBatchesStayBelowTheLimit(t *testing.T) {
	rnd := rand.NewChaCha8([32]byte{1})
	for _, codec := range allCodecs {
		for _, limit := range []int32{2_000, 40_000, 250_000} {
			cfg := mapConfig{sink: sinkOptions()}
			cfg.sink.Compression = codec.String()
			cfg.sink.MaxMessageBytes = limit
			cfg.sink.Linger = 1e12
			sink := &fakeSink{}
			r := startTask(t, 1, cfg, sink, nil)
			var want []plain
			for i := range 3 {
				var records []plain
				for n := range 300 {
					value := make([]byte, 1+n*7%1_500) // so that some batch ends close to the limit
					rnd.Read(value)
					records = append(records, plain{Value: value, Timestamp: int64(i)})
				}
				consecutive(records...)
				records[299].Delta++ // a gap, so that it is encoded anew in any codec
				r.send(fromSource(t, "in", 0, encodeSource(t, int64(i)*1000, batch.None, records, nil)))
				want = append(want, records...)
			}
			r.barrier(1)
			same(t, sink.records(t, "out", 0), want)
			for _, w := range sink.taken() {
				if len(w.raw) > int(limit) {
					t.Errorf("%s: a batch of %d bytes, the limit is %d", codec, len(w.raw), limit)
				}
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLargeRecordWithinTheTopicsLimit: max_message_bytes bounds batches, which can be split; what a single record needs only the topic
// bounds.
func TestLargeRecordWithinTheTopicsLimit(t *testing.T) {
	cfg := mapConfig{sink: sinkOptions()}
	cfg.sink.MaxMessageBytes = 2_000
	sink := &fakeSink{topic: batch.SinkTopic{MaxMessageBytes: 4_000}}
	r := startTask(t, 1, cfg, sink, nil)
	records := consecutive(text("before", "1"), plain{Value: make([]byte, 3_000)}, text("after", "2"))
	r.send(fromSource(t, "in", 0, encodeSource(t, 0, batch.None, records, nil)))
	r.barrier(1)
	same(t, sink.records(t, "out", 0), records)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

func TestTooLargeRecords(t *testing.T) {
	random := make([]byte, 3_000)
	rand.NewChaCha8([32]byte{2}).Read(random)
	run := func(codec batch.Codec, limit int32, value []byte) (*fakeSink, error) {
		cfg := mapConfig{sink: sinkOptions(), maps: []MapOptions{{Kind: "headers", Settings: HeadersOptions{}}}, registry: Maps()}
		sink := &fakeSink{topic: batch.SinkTopic{MaxMessageBytes: limit}}
		r := startTask(t, 1, cfg, sink, nil)
		records := consecutive(text("before", "1"), plain{Value: value}, text("after", "2"))
		if r.send(fromSource(t, "in", 2, encodeSource(t, 700, codec, records, nil))) && r.sendTo(0, delivery{barrier: 1}) {
			select {
			case <-r.aligned:
				same(t, sink.records(t, "out", 2), records)
			case err := <-r.result:
				return sink, err
			}
			return sink, r.stop()
		}
		return sink, r.failure()
	}
	for _, codec := range allCodecs {
		_, err := run(codec, 2_000, random)
		var e *semantics.Error
		if !errors.As(err, &e) || e.Class != semantics.Fatal || e.Exit != semantics.ExitRefused {
			t.Fatalf("%s: %v", codec, err)
		}
		for _, part := range []string{"src", "topic in", "partition 2", "offset 701", "2000", `"out"`, "max.message.bytes"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is missing in: %v", codec, part, err)
			}
		}
		// As large as a batch may be: room for a codec to make it larger must not refuse it.
		if _, err := run(codec, 3_000+61+12, random); err != nil {
			t.Errorf("%s: a record that just fits: %v", codec, err)
		}
	}
	// The source took it compressed, so the sink can.
	for _, codec := range allCodecs[1:] {
		if _, err := run(codec, 2_000, bytes.Repeat([]byte("z"), 20_000)); err != nil {
			t.Errorf("%s: compressible: %v", codec, err)
		}
	}
}

func TestCorruptBatchIsNotWritten(t *testing.T) {
	for _, at := range []int{22, 61, 70} {
		sink := &fakeSink{}
		r := startTask(t, 1, mapConfig{}, sink, nil)
		raw := encodeSource(t, 900, batch.None, awkward(), nil)
		var released atomic.Int32
		b := fromSource(t, "in", 4, raw)
		b.release = func() { released.Add(1) }
		b.raw[at] ^= 0x10
		r.send(b)
		err := r.failure()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Class != semantics.Unknown || !errors.Is(err, batch.ErrCorrupt) {
			t.Fatalf("%v", err)
		}
		for _, part := range []string{"topic in", "partition 4", "offset 900"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is missing in: %v", part, err)
			}
		}
		if len(sink.taken()) != 0 || released.Load() != 1 {
			t.Errorf("%d batches written, released %d times", len(sink.taken()), released.Load())
		}
	}
}

// Records that cannot be decoded although the CRC is right were written like that: reading them again is no way out.
func TestUndecodableBatchIsRefused(t *testing.T) {
	cfg := mapConfig{maps: []MapOptions{{Kind: "headers", Settings: HeadersOptions{}}}, registry: Maps()}
	r := startTask(t, 1, cfg, &fakeSink{}, nil)
	raw := encodeSource(t, 900, batch.None, awkward(), nil)
	raw[61+1+3] = 0x7f // the key's length
	sumCRC(raw)
	r.send(fromSource(t, "in", 4, raw))
	var e *semantics.Error
	if err := r.failure(); !errors.As(err, &e) || e.Exit != semantics.ExitRefused || !strings.Contains(err.Error(), "topic in partition 4 offset 900") {
		t.Fatalf("%v", err)
	}
}

func TestControlBatchIsNeverRecords(t *testing.T) {
	cfg := mapConfig{maps: []MapOptions{{Kind: "headers", Settings: HeadersOptions{}}}, registry: Maps()}
	sink := &fakeSink{}
	r := startTask(t, 1, cfg, sink, nil)
	r.send(fromSource(t, "in", 0, encodeSource(t, 0, batch.None, consecutive(text("\x00\x00\x00\x01", "m")), func(b *kmsg.RecordBatch) { b.Attributes |= 0x30 })))
	if err := r.failure(); err == nil || len(sink.taken()) != 0 {
		t.Fatal("a transaction marker was taken for a record")
	}
}

func TestBatchWithoutRecords(t *testing.T) {
	sink := &fakeSink{}
	r := startTask(t, 1, mapConfig{}, sink, nil)
	var released atomic.Int32
	b := fromSource(t, "in", 0, encodeSource(t, 5, batch.None, consecutive(text("a", "b")), func(b *kmsg.RecordBatch) {
		b.NumRecords, b.Records = 0, nil
	}))
	b.release = func() { released.Add(1) }
	r.send(b)
	r.barrier(1)
	if len(sink.taken()) != 0 || len(sink.ensured) != 0 || released.Load() != 1 {
		t.Errorf("%d batches, released %d times, asked for sink topics %v", len(sink.taken()), released.Load(), sink.ensured)
	}
	r.stop()
}

func TestWriteErrorEndsTheRun(t *testing.T) {
	sink := &fakeSink{fail: &semantics.Error{Class: semantics.Unknown, Fenced: true, Op: "produce", Err: errors.New("boom")}}
	r := startTask(t, 1, mapConfig{}, sink, nil)
	r.send(fromSource(t, "in", 1, encodeSource(t, 40, batch.None, awkward(), nil)))
	err := r.failure()
	if !semantics.IsFenced(err) || !strings.Contains(err.Error(), "topic in partition 1 offsets 40 to 44") {
		t.Fatalf("%v", err)
	}
}

func TestTimestampsFarApart(t *testing.T) {
	records := consecutive(plain{Timestamp: 0}, plain{Timestamp: math.MaxInt64}, plain{Timestamp: 1})
	sink := &fakeSink{}
	r := startTask(t, 1, mapConfig{maps: []MapOptions{{Kind: "headers", Settings: HeadersOptions{}}}, registry: Maps()}, sink, nil)
	r.send(fromSource(t, "in", 0, encodeSource(t, 0, batch.Lz4, records, nil)))
	r.barrier(1)
	same(t, sink.records(t, "out", 0), records)
	r.stop()
}
