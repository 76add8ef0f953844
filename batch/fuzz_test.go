package batch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime/metrics"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// fuzzLimit is small, so that a decoder that forgets it is noticed.
const fuzzLimit = 1 << 20

// fuzzSlack is what one payload may allocate beyond its own size, in bytes: the buffer in the steps in which it grows to the
// limit, and the largest block of an lz4 frame. A claim of 32 MiB that is believed exceeds it.
const fuzzSlack = 24 << 20

// fuzzTools are used again and again, as the bridge does: a codec's state is far larger than a batch.
type fuzzTools struct {
	decoder *Decoder // of fuzzLimit
	wide    *Decoder // of what is encoded here
	builder Builder
	comp    Compressor
}

// newFuzzTools warms the codecs up, so that what they allocate once does not count as a payload's.
func newFuzzTools(f *testing.F) *fuzzTools {
	tools := &fuzzTools{decoder: NewDecoder(fuzzLimit), wide: NewDecoder(64 << 20)}
	for codec := None; codec <= Zstd; codec++ {
		checkRoundTrip(f, &tools.builder, &tools.comp, tools.decoder, []plainRecord{{value: make([]byte, 1000)}}, codec)
	}
	return tools
}

// allocated is what the process has allocated so far, in bytes, large objects exactly.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// FuzzBatches walks hostile bytes to their end: no panic, nothing beyond the limit, and every answer is a record or
// one of the errors that are promised. What decodes without an error survives being encoded anew, and
// what may be handed on keeps its payload.
func FuzzBatches(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(b)
	}
	tools := newFuzzTools(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for {
			h, raw, rest, err := Next(b)
			if err != nil {
				checkErr(t, err)
				return
			}
			if h.Size() != len(raw) || len(raw)+len(rest) != len(b) || h.LastOffset() < h.FirstOffset || h.NextOffset() <= h.LastOffset() {
				t.Fatalf("%+v of %d bytes", h, len(b))
			}
			if _, ok := h.HandOn(); ok {
				fuzzStamp(t, h, raw)
			}
			tools.payload(t, h, raw)
			b = rest
		}
	})
}

// fuzzStamp: a batch that is handed on gets the sender's fields and a CRC, and nothing else of it changes.
func fuzzStamp(t *testing.T, h Header, raw []byte) {
	b := bytes.Clone(raw)
	Stamp(b, 4001, 17, 5, true)
	got, whole, rest, err := Next(b)
	if err != nil || len(rest) != 0 || CheckCRC(whole) != nil || !bytes.Equal(b[HeaderSize:], raw[HeaderSize:]) {
		t.Fatalf("stamped: %v, %d bytes left, %v", err, len(rest), CheckCRC(whole))
	}
	want := h
	want.FirstOffset, want.PartitionLeaderEpoch, want.CRC = 0, -1, got.CRC
	want.ProducerID, want.ProducerEpoch, want.FirstSequence = 4001, 17, 5
	want.Attributes = h.Attributes&^0x78 | 0x10
	if got != want {
		t.Fatalf("stamped\n%+v\nwant\n%+v", got, want)
	}
}

func (f *fuzzTools) payload(t *testing.T, h Header, raw []byte) {
	before := allocated()
	payload, err := f.decoder.Payload(raw, h)
	if n := allocated() - before; n > fuzzSlack+8*uint64(len(raw)) {
		t.Fatalf("%s of %d bytes allocates %d (%v)", h.Codec(), len(raw), n, err)
	}
	if err != nil {
		checkErr(t, err)
		return
	}
	if len(payload) > fuzzLimit && h.Codec() != None {
		t.Fatalf("%d bytes", len(payload))
	}
	var r Reader
	var rec Record
	var records []plainRecord
	last := h.FirstOffset - 1
	for r.Reset(h, payload); r.Next(&rec); last = rec.Offset {
		if rec.Offset <= last || rec.Offset > h.LastOffset() {
			t.Fatalf("offset %d behind %d in %+v", rec.Offset, last, h)
		}
		headers := rec.Headers.AppendTo(nil)
		if len(headers) != rec.Headers.Len() {
			t.Fatalf("%d of %d headers", len(headers), rec.Headers.Len())
		}
		records = append(records, plainRecord{rec.Key, rec.Value, headers, rec.Timestamp, rec.Attributes})
	}
	if r.Err() != nil {
		checkErr(t, r.Err())
		return
	}
	if len(records) != int(h.NumRecords) {
		t.Fatalf("%d of %d records and no error", len(records), h.NumRecords)
	}
	if len(records) == 0 {
		return
	}
	// Two codecs at a time, or compressing would be all that a fuzzer does.
	for _, codec := range []Codec{h.Codec(), Codec(len(payload) % 5)} {
		checkRoundTrip(t, &f.builder, &f.comp, f.wide, records, codec)
	}
}

func checkErr(t *testing.T, err error) {
	var magic *UnsupportedMagicError
	var size *DecompressedSizeError
	if err != io.EOF && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrCorrupt) && !errors.As(err, &magic) && !errors.As(err, &size) {
		t.Fatalf("an error that is not promised: %v", err)
	}
	if len(err.Error()) > 1000 {
		t.Fatalf("an error of %d bytes", len(err.Error()))
	}
}

// FuzzPayload gives hostile bytes to one codec or, as records, to the reader.
func FuzzPayload(f *testing.F) {
	for _, e := range encodings([]byte("a payload that is repeated, a payload that is repeated, a payload that is repeated")) {
		f.Add(uint8(e.codec), e.b)
	}
	for _, e := range bombs(f) {
		f.Add(uint8(e.codec), e.b)
	}
	f.Add(uint8(None), []byte(oneRecord))
	tools := newFuzzTools(f)
	f.Fuzz(func(t *testing.T, codec uint8, b []byte) {
		if c := Codec(codec % 5); len(b) >= minRecord || c != None && len(b) > 0 {
			h, raw := wrap(b, c)
			tools.payload(t, h, raw)
		}
	})
}

type bomb struct {
	codec Codec
	b     []byte
}

// bombs are payloads of a few bytes that hold, or claim to hold, 32 MiB and more, made by other writers than ours.
func bombs(f *testing.F) []bomb {
	const size = 32 << 20
	zeros := make([]byte, size)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(zeros); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	defer enc.Close()
	z := enc.EncodeAll(zeros, nil)
	return []bomb{
		{Gzip, zipped.Bytes()},
		{Zstd, z},
		{Zstd, bytes.Repeat(enc.EncodeAll(zeros[:256<<10], nil), 200)},                     // many frames, each below the limit
		{Zstd, []byte("\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00")}, // claims 4 GiB, holds nothing
		{Snappy, s2.EncodeSnappy(nil, zeros)},
		{Snappy, binary.AppendUvarint(nil, 1<<32-1)}, // claims 4 GiB, holds nothing
		{Lz4, lz4Bomb()},
	}
}

// lz4Bomb is 8 blocks of 4 MiB zeros each, of which only a few bytes are there: literal 0, then one match that reaches to the end.
func lz4Bomb() []byte {
	block := append([]byte{0x1f, 0, 1, 0}, bytes.Repeat([]byte{255}, 16<<10)...)
	block = append(block, 0)
	b := []byte("\x04\x22\x4d\x18\x60\x70\x73")
	for range 8 {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(block)))
		b = append(b, block...)
	}
	return append(b, 0, 0, 0, 0)
}

// FuzzRoundTrip builds what the fuzzer says and reads it back, uncompressed and with each codec.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), []byte("header"), int64(-1), int64(1_700_000_000_000), uint8(0), uint16(3))
	f.Add([]byte{}, []byte{0xff, 0xfe}, []byte{}, int64(1)<<62, int64(-1)<<62, uint8(0xff), uint16(1000))
	tools := newFuzzTools(f)
	f.Fuzz(func(t *testing.T, key, value, header []byte, t1, t2 int64, bits uint8, n uint16) {
		first := plainRecord{key: key, value: value, timestamp: t1, attributes: int8(bits)}
		if bits&1 != 0 {
			first.key = nil
		}
		if bits&2 != 0 {
			first.value = nil
		}
		rng := rand.New(rand.NewPCG(uint64(bits), uint64(n)))
		for range n % 1500 {
			h := RecordHeader{Key: append([]byte{}, header...), Value: value}
			if rng.IntN(3) == 0 {
				h.Value = nil
			}
			first.headers = append(first.headers, h)
		}
		records := []plainRecord{first, {key: key, value: bytes.Repeat(key, int(n%300)), timestamp: t2}, first}
		for codec := None; codec <= Zstd; codec++ {
			checkRoundTrip(t, &tools.builder, &tools.comp, tools.wide, records, codec)
		}
	})
}
