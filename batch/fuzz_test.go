package batch

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// fuzzLimit is small, so that a decoder that forgets it is noticed.
const fuzzLimit = 1 << 20

// FuzzBatches walks hostile bytes to their end: no panic, nothing beyond the limit, and every answer is a record or
// one of the errors that are promised. What decodes without an error must survive being encoded anew.
func FuzzBatches(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(b)
	}
	d := NewDecoder(fuzzLimit)
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
			fuzzPayload(t, d, h, raw)
			b = rest
		}
	})
}

func fuzzPayload(t *testing.T, d *Decoder, h Header, raw []byte) {
	payload, err := d.Payload(raw, h)
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
	if len(records) > 0 {
		checkRoundTrip(t, new(Builder), new(Compressor), NewDecoder(2*fuzzLimit+len(payload)), records, Snappy)
	}
}

func checkErr(t *testing.T, err error) {
	var magic *UnsupportedMagicError
	var size *DecompressedSizeError
	if err != io.EOF && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrCorrupt) && !errors.As(err, &magic) && !errors.As(err, &size) {
		t.Fatalf("an error that is not promised: %v", err)
	}
}

// FuzzPayload gives hostile bytes to one codec or, as records, to the reader.
func FuzzPayload(f *testing.F) {
	for _, e := range encodings([]byte("a payload that is repeated, a payload that is repeated, a payload that is repeated")) {
		f.Add(uint8(e.codec), e.b)
	}
	f.Add(uint8(None), []byte(oneRecord))
	d := NewDecoder(fuzzLimit)
	f.Fuzz(func(t *testing.T, codec uint8, b []byte) {
		if c := Codec(codec % 5); len(b) >= minRecord || c != None && len(b) > 0 {
			h, raw := wrap(b, c)
			fuzzPayload(t, d, h, raw)
		}
	})
}

// FuzzRoundTrip builds what the fuzzer says and reads it back, uncompressed and with each codec.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), []byte("header"), int64(-1), int64(1_700_000_000_000), uint8(0), uint16(3))
	f.Add([]byte{}, []byte{0xff, 0xfe}, []byte{}, int64(1)<<62, int64(-1)<<62, uint8(0xff), uint16(1000))
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
		records := []plainRecord{first, {key: value, value: bytes.Repeat(key, int(n%300)), timestamp: t2}, first}
		for codec := None; codec <= Zstd; codec++ {
			checkRoundTrip(t, new(Builder), new(Compressor), NewDecoder(64<<20), records, codec)
		}
	})
}
