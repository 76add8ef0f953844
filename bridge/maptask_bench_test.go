package bridge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/batch"
)

// nullWriter acknowledges at once and counts.
type nullWriter struct {
	fakeSink
	batches, bytes int
}

func (w *nullWriter) Write(_ context.Context, b batch.Outbound) error {
	batch.Stamp(b.Raw, 1, 1, 1, true)
	w.batches++
	w.bytes += len(b.Raw)
	b.Release()
	return nil
}

// orders are records of about 181 bytes that look like JSON orders.
func orders(n int) []plain {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]plain, n)
	for i := range out {
		user := r.IntN(100_000)
		out[i] = text(fmt.Sprintf("user-%d", user), fmt.Sprintf(
			`{"seq":%d,"ts":%d,"user":"user-%d","session":"%016x","action":"purchase","amount":%d.%d,"currency":"EUR","country":"%s","mobile":%t}`,
			i, 1_700_000_000_000+i, user, r.Uint64(), r.IntN(100_000), 10+r.IntN(90), []string{"DE", "FR", "US", "GB"}[r.IntN(4)], r.IntN(2) == 0))
		out[i].Timestamp += int64(i / 10)
	}
	return consecutive(out...)
}

// benchTask measures one map task without its channels; an operation is a record.
func benchTask(b *testing.B, cfg mapConfig, codec batch.Codec, perBatch, target int) {
	cfg.tasks = 1
	cfg.maxInFlight = 64 << 20
	w := &nullWriter{}
	t := newMapTask(0, cfg, w, w, nil, hclog.NewNullLogger())
	ctx := context.Background()
	t.encoders.ctx = ctx
	raw := encodeSource(b, 1000, codec, orders(perBatch), nil)
	original := append([]byte(nil), raw...)
	src := fromSource(b, "in", 0, raw)
	if target > 0 {
		s, err := t.router.sinkOf(ctx, "in", 8)
		if err != nil {
			b.Fatal(err)
		}
		s.preferred, s.limit = target, 2*target
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%perBatch == 0 {
			copy(raw, original[:batch.HeaderSize]) // Stamp wrote there
			if err := t.batch(ctx, &src); err != nil {
				b.Fatal(err)
			}
		}
		n++
	}
	b.ReportMetric(float64(w.bytes)/float64(n), "outbytes/op")
	b.ReportMetric(float64(n)/float64(max(w.batches, 1)), "records/batch")
}

func BenchmarkUntouched(b *testing.B) {
	for _, perBatch := range []int{1, 100, 4000} {
		b.Run(fmt.Sprintf("records=%d", perBatch), func(b *testing.B) {
			benchTask(b, mapConfig{sink: sinkOptions()}, batch.Lz4, perBatch, 0)
		})
	}
}

func BenchmarkHeaders(b *testing.B) {
	maps := []MapOptions{{Kind: "headers", Settings: HeadersOptions{Set: map[string]string{"x-origin": "east"}}}}
	for _, codec := range []batch.Codec{batch.None, batch.Lz4, batch.Snappy, batch.Zstd, batch.Gzip} {
		for _, perBatch := range []int{1, 4000} {
			b.Run(fmt.Sprintf("codec=%s/records=%d", codec, perBatch), func(b *testing.B) {
				benchTask(b, mapConfig{sink: sinkOptions(), maps: maps, registry: Maps()}, codec, perBatch, 0)
			})
		}
	}
}

// What targetBytes rests on: time, bytes and batches by uncompressed size.
func BenchmarkEncodeTarget(b *testing.B) {
	for _, codec := range []batch.Codec{batch.Lz4, batch.Zstd} {
		for kib := 16; kib <= 1024; kib *= 2 {
			b.Run(fmt.Sprintf("codec=%s/target=%dKiB", codec, kib), func(b *testing.B) {
				cfg := mapConfig{sink: sinkOptions(), maps: chainOf("headers"), registry: Maps()}
				benchTask(b, cfg, codec, 4000, kib<<10)
			})
		}
	}
}
