package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// plainRecord is a record held without any of the package's encodings: what a round trip must give back.
type plainRecord struct {
	key, value []byte
	headers    []RecordHeader
	timestamp  int64
	attributes int8
}

// equalBytes tells null from empty.
func equalBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func (p plainRecord) equal(rec *Record) error {
	got := rec.Headers.AppendTo(nil)
	switch {
	case !equalBytes(p.key, rec.Key):
		return fmt.Errorf("key %#v, want %#v", rec.Key, p.key)
	case !equalBytes(p.value, rec.Value):
		return fmt.Errorf("value %#v, want %#v", rec.Value, p.value)
	case p.timestamp != rec.Timestamp || p.attributes != rec.Attributes:
		return fmt.Errorf("timestamp %d, attributes %d, want %d, %d", rec.Timestamp, rec.Attributes, p.timestamp, p.attributes)
	case len(got) != len(p.headers) || rec.Headers.Len() != len(p.headers):
		return fmt.Errorf("%d headers, want %d", len(got), len(p.headers))
	}
	for i, h := range p.headers {
		if !bytes.Equal(h.Key, got[i].Key) || got[i].Key == nil || !equalBytes(h.Value, got[i].Value) {
			return fmt.Errorf("header %d is %#v, want %#v", i, got[i], h)
		}
	}
	return nil
}

func (p plainRecord) record() *Record {
	var hb HeadersBuffer
	for _, h := range p.headers {
		hb.Add(h.Key, h.Value)
	}
	return &Record{Key: p.key, Value: p.value, Headers: hb.Headers(), Timestamp: p.timestamp, Attributes: p.attributes}
}

// build encodes records and checks what the builder says of itself on the way.
func build(t testing.TB, b *Builder, c *Compressor, records []plainRecord, codec Codec) []byte {
	t.Helper()
	maxTimestamp := int64(math.MinInt64)
	for i, p := range records {
		rec := p.record()
		size := b.SizeWith(rec)
		if err := b.Append(rec); err != nil {
			t.Fatal(err)
		}
		maxTimestamp = max(maxTimestamp, p.timestamp)
		if b.Size() != size || b.Count() != i+1 || b.MaxTimestamp() != maxTimestamp {
			t.Fatalf("record %d: size %d, foretold %d; count %d; max timestamp %d, want %d",
				i, b.Size(), size, b.Count(), b.MaxTimestamp(), maxTimestamp)
		}
	}
	size := b.Size()
	raw, err := b.Finish([]byte("before"), c, codec)
	if err != nil {
		t.Fatal(err)
	}
	if b.Count() != 0 || b.Size() != HeaderSize || b.MaxTimestamp() != -1 || string(raw[:6]) != "before" {
		t.Fatal("Finish did not empty the builder, or did not append")
	}
	if raw = raw[6:]; codec == None && len(raw) != size {
		t.Fatalf("%d bytes, foretold %d", len(raw), size)
	}
	return raw
}

// checkRoundTrip builds a batch and reads it back.
func checkRoundTrip(t testing.TB, b *Builder, c *Compressor, d *Decoder, records []plainRecord, codec Codec) {
	t.Helper()
	raw := build(t, b, c, records, codec)
	Stamp(raw, 9, 1, 5, true)
	h, whole, rest, err := Next(raw)
	if err != nil || len(rest) != 0 || CheckCRC(whole) != nil {
		t.Fatalf("%v, %d bytes left, %v", err, len(rest), CheckCRC(whole))
	}
	if h.Codec() != codec || !h.Gapless() || int(h.NumRecords) != len(records) || h.FirstOffset != 0 || h.ProducerID != 9 {
		t.Fatalf("%+v", h)
	}
	if _, ok := h.HandOn(); !ok {
		t.Fatal("what was built cannot be handed on")
	}
	payload, err := d.Payload(whole, h)
	if err != nil {
		t.Fatal(err)
	}
	var r Reader
	var rec Record
	n := 0
	for r.Reset(h, payload); r.Next(&rec); n++ {
		if err := records[n].equal(&rec); err != nil || rec.Offset != int64(n) {
			t.Fatalf("%s, record %d, offset %d: %v", codec, n, rec.Offset, err)
		}
	}
	if r.Err() != nil || n != len(records) {
		t.Fatalf("%s: %d of %d records, %v", codec, n, len(records), r.Err())
	}
}

// oddBytes returns null, empty, or random bytes, which are seldom UTF-8.
func oddBytes(rng *rand.Rand, most int) []byte {
	switch rng.IntN(5) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, rng.IntN(most))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func oddRecord(rng *rand.Rand) plainRecord {
	timestamps := []int64{-1, 0, 1_700_000_000_000, 1_700_000_000_001, math.MaxInt64, math.MinInt64, 1 << 53, -2}
	p := plainRecord{
		key: oddBytes(rng, 70), value: oddBytes(rng, 300), attributes: int8(rng.Uint32()),
		timestamp: timestamps[rng.IntN(len(timestamps))],
	}
	for range rng.IntN(4) * rng.IntN(4) {
		key := oddBytes(rng, 4) // short, so that duplicates come
		p.headers = append(p.headers, RecordHeader{Key: append([]byte{}, key...), Value: oddBytes(rng, 90)})
	}
	return p
}

// Whatever a record may hold survives each codec, through buffers that are used again and again.
func TestRoundTripRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var b Builder
	var c Compressor
	d := NewDecoder(testLimit)
	for round := range 150 {
		records := make([]plainRecord, 1+rng.IntN(1+round*3))
		for i := range records {
			records[i] = oddRecord(rng)
		}
		for codec := None; codec <= Zstd; codec++ {
			checkRoundTrip(t, &b, &c, d, records, codec)
		}
	}
}

func TestRoundTripEdges(t *testing.T) {
	many := plainRecord{key: []byte("k")}
	for i := range 1000 {
		many.headers = append(many.headers, RecordHeader{Key: []byte{byte(i % 3)}, Value: fmt.Append(nil, i)})
	}
	batches := map[string][]plainRecord{
		"all null":       {{}},
		"all empty":      {{key: []byte{}, value: []byte{}}},
		"1000 headers":   {many, {}, many},
		"no timestamps":  {{timestamp: -1}, {timestamp: -1}},
		"time goes back": {{timestamp: math.MaxInt64}, {timestamp: math.MinInt64}, {timestamp: 0}},
		"5000 records":   make([]plainRecord, 5000),
		"1 MiB":          {{value: bytes.Repeat([]byte("0123456789abcdef"), 1<<16)}},
	}
	random := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, 1<<20+17) // no codec makes it smaller: stored blocks
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	batches["noise"] = []plainRecord{{value: noise}}
	for size := lz4BlockSize - 20; size < lz4BlockSize+4; size++ { // around the edge of a block
		batches[fmt.Sprint("noise of ", size)] = []plainRecord{{value: noise[:size]}}
	}
	for length := 62; length < 66; length++ { // around the edge of a one-byte length
		batches[fmt.Sprint("length ", length)] = []plainRecord{{key: noise[:length], value: noise[:length*128]}}
	}
	for name, records := range batches {
		for codec := None; codec <= Zstd; codec++ {
			t.Run(name+"/"+codec.String(), func(t *testing.T) {
				checkRoundTrip(t, new(Builder), new(Compressor), NewDecoder(testLimit), records, codec)
			})
		}
	}
}

// What lz4 cannot make smaller is stored: Kafka's Java client refuses a compressed block that is larger than the
// frame's block size.
func TestLz4StoresNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	noise := make([]byte, 3*lz4BlockSize+5)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	frame, _, err := new(Compressor).compress(nil, noise, Lz4)
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for rest := frame[7:]; ; blocks++ { // behind the header
		size := binary.LittleEndian.Uint32(rest) &^ (1 << 31)
		if size == 0 {
			break
		}
		if size > 64<<10 {
			t.Errorf("block %d has %d bytes", blocks, size)
		}
		rest = rest[4+size:]
	}
	if blocks != 4 {
		t.Errorf("%d blocks, want 4", blocks)
	}
}

// LogAppendTime is the broker's time for every record, whatever the record holds.
func TestLogAppendTime(t *testing.T) {
	raw := build(t, new(Builder), new(Compressor), []plainRecord{{timestamp: 5}, {timestamp: 7}}, None)
	raw = patch(patch(raw, 21, int16(attrLogAppendTime)), 35, int64(99))
	h, err := ParseHeader(raw)
	if err != nil {
		t.Fatal(err)
	}
	var r Reader
	var rec Record
	for r.Reset(h, raw[HeaderSize:]); r.Next(&rec); {
		if rec.Timestamp != 99 {
			t.Errorf("record %d has timestamp %d, want the batch's 99", rec.Offset, rec.Timestamp)
		}
	}
	if reason, ok := h.HandOn(); ok || reason != "log_append_time" {
		t.Errorf("%q, %t", reason, ok)
	}
}

func TestFinishRefuses(t *testing.T) {
	var b Builder
	if _, err := b.Finish(nil, new(Compressor), None); err == nil {
		t.Error("a batch without records was finished")
	}
	if err := b.Append(&Record{Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Finish(nil, new(Compressor), Codec(5)); err == nil || b.Count() != 1 {
		t.Errorf("codec 5: %v, %d records kept", err, b.Count())
	}
	b.Reset()
	if b.Count() != 0 || b.Size() != HeaderSize {
		t.Error("Reset keeps records")
	}
}

func TestHeadersBuffer(t *testing.T) {
	var a, b HeadersBuffer
	a.Add([]byte("x"), nil)
	a.Add([]byte{}, []byte{})
	b.Add([]byte("first"), []byte("1"))
	b.AddAll(a.Headers())
	b.Add([]byte("x"), []byte("last"))
	want := plainRecord{headers: []RecordHeader{{[]byte("first"), []byte("1")}, {[]byte("x"), nil}, {[]byte{}, []byte{}}, {[]byte("x"), []byte("last")}}}
	if err := want.equal(&Record{Headers: b.Headers()}); err != nil {
		t.Error(err)
	}
	b.Reset()
	if b.Headers().Len() != 0 || len(b.Headers().Raw()) != 0 {
		t.Error("Reset keeps headers")
	}
}
