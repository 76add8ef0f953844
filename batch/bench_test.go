package batch

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// jsonBatch is a batch of n records of about 181 bytes, as in the measurements of the design.
func jsonBatch(tb testing.TB, n int, codec Codec) []byte {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var b Builder
	for i := range n {
		value := fmt.Sprintf(`{"id":%d,"user":"user-%06d","action":"%s","amount":%d.%02d,"ts":%d,"session":"%016x","note":"the quick brown fox %d"}`,
			1_000_000+i, rng.IntN(1_000_000), []string{"click", "view", "buy", "login"}[rng.IntN(4)], rng.IntN(1000), rng.IntN(100),
			1_700_000_000_000+i, rng.Uint64(), rng.IntN(100))
		rec := Record{Key: fmt.Appendf(nil, "user-%06d", rng.IntN(1_000_000)), Value: []byte(value), Timestamp: 1_700_000_000_000 + int64(i)}
		if err := b.Append(&rec); err != nil {
			tb.Fatal(err)
		}
	}
	raw, err := b.Finish(nil, new(Compressor), codec)
	if err != nil {
		tb.Fatal(err)
	}
	Stamp(raw, -1, -1, -1, false)
	return raw
}

const benchRecords = 5000

// pipeline is the state of one map task that adds a header.
type pipeline struct {
	dec     *Decoder
	reader  Reader
	headers HeadersBuffer
	builder Builder
	comp    Compressor
	out     []byte
}

func (p *pipeline) run(raw []byte, codec Codec) error {
	h, raw, _, err := Next(raw)
	if err != nil {
		return err
	}
	payload, err := p.dec.Payload(raw, h)
	if err != nil {
		return err
	}
	key, value := []byte("bridge"), []byte("b1")
	var rec Record
	for p.reader.Reset(h, payload); p.reader.Next(&rec); {
		p.headers.Reset()
		p.headers.AddAll(rec.Headers)
		p.headers.Add(key, value)
		rec.Headers = p.headers.Headers()
		if err := p.builder.Append(&rec); err != nil {
			return err
		}
	}
	if err := p.reader.Err(); err != nil {
		return err
	}
	if p.out, err = p.builder.Finish(p.out[:0], &p.comp, codec); err != nil {
		return err
	}
	Stamp(p.out, 1, 2, 3, true)
	return nil
}

// perRecord reports the time of one record beside that of one batch.
func perRecord(b *testing.B, bytes int) {
	b.SetBytes(int64(bytes))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

func BenchmarkWalk(b *testing.B) {
	raw := jsonBatch(b, benchRecords, None)
	h, err := ParseHeader(raw)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := 0
	var r Reader
	var rec Record
	for b.Loop() {
		for r.Reset(h, raw[HeaderSize:]); r.Next(&rec); {
			n += len(rec.Value)
		}
		if r.Err() != nil {
			b.Fatal(r.Err())
		}
	}
	perRecord(b, len(raw))
}

func BenchmarkDecode(b *testing.B) {
	for codec := Gzip; codec <= Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			raw := jsonBatch(b, benchRecords, codec)
			h, err := ParseHeader(raw)
			if err != nil {
				b.Fatal(err)
			}
			dec := NewDecoder(DefaultDecompressedLimit)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dec.Payload(raw, h); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, len(raw))
		})
	}
}

// BenchmarkAddHeader is the whole way of a batch through a map task: decode, add a header, encode, stamp.
func BenchmarkAddHeader(b *testing.B) {
	for codec := None; codec <= Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			raw := jsonBatch(b, benchRecords, codec)
			p := pipeline{dec: NewDecoder(DefaultDecompressedLimit)}
			b.ReportAllocs()
			for b.Loop() {
				if err := p.run(raw, codec); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, len(raw))
		})
	}
}

// BenchmarkStamp is what a batch costs that goes on untouched, beside CheckCRC of what was fetched.
func BenchmarkStamp(b *testing.B) {
	raw := jsonBatch(b, benchRecords, Lz4)
	b.ReportAllocs()
	for b.Loop() {
		Stamp(raw, 1, 2, 3, true)
	}
	perRecord(b, len(raw))
}
