package bridge

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/batch"
)

// Neither way may cost an allocation per record, or per batch beyond what the test itself makes.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, maps := range map[string][]MapOptions{"untouched": nil, "headers": chainOf("headers", "headers")} {
		w := &nullWriter{}
		task := newMapTask(0, mapConfig{tasks: 1, sink: sinkOptions(), maps: maps, registry: Maps(), maxInFlight: 64 << 20}, w, w, nil, hclog.NewNullLogger())
		task.encoders.ctx = context.Background()
		raw := encodeSource(t, 1000, batch.Lz4, orders(100), nil)
		original := append([]byte(nil), raw...)
		b := fromSource(t, "in", 0, raw)
		once := func() {
			copy(raw, original)
			if err := task.batch(task.encoders.ctx, &b); err != nil {
				t.Fatal(err)
			}
		}
		for range 30 {
			once()
		}
		if n := testing.AllocsPerRun(100, once); n >= 1 {
			t.Errorf("%s: %.1f allocations per batch of 100 records", name, n)
		}
	}
}

// Open batches are memory that no Writer counts: with many sink partitions and a long linger they must still be bounded.
func TestOpenBatchesAreBounded(t *testing.T) {
	cfg := mapConfig{tasks: 1, sink: sinkOptions(), maps: chainOf("headers"), registry: Maps(), maxInFlight: 4 << 20}
	cfg.sink.Linger = 1e15
	sink := &fakeSink{}
	task := newMapTask(0, cfg, sink, sink, nil, hclog.NewNullLogger())
	task.encoders.ctx = context.Background()
	want := map[int32]string{}
	most := 0
	for i := range 400 {
		p := int32(i % 100)
		value := fmt.Sprint(i, strings.Repeat("x", 50_000))
		b := fromSource(t, "in", p, encodeSource(t, int64(i), batch.None, consecutive(text("k", value)), nil))
		b.partitions = 100
		if err := task.batch(task.encoders.ctx, &b); err != nil {
			t.Fatal(err)
		}
		want[p] += value
		sum := 0
		for _, e := range task.encoders.open {
			sum += e.builder.Size()
		}
		if sum != task.encoders.openBytes {
			t.Fatalf("counted %d bytes, open are %d", task.encoders.openBytes, sum)
		}
		most = max(most, sum)
	}
	if limit := 1<<20 + targetBytes; most > limit || most < 1<<20 {
		t.Errorf("up to %d bytes were open, the limit is %d", most, limit)
	}
	if err := task.encoders.closeAll(); err != nil {
		t.Fatal(err)
	}
	for p := range want {
		if got := strings.ReplaceAll(sink.values(t, p), " ", ""); got != strings.ReplaceAll(want[p], " ", "") {
			t.Errorf("partition %d differs", p)
		}
	}
	if task.encoders.openBytes != 0 || len(task.encoders.open) != 0 {
		t.Errorf("%d bytes in %d batches are open", task.encoders.openBytes, len(task.encoders.open))
	}
}

// A new codec of the source closes the open batch, so that each record goes on in the codec that it came in.
func TestOpenBatchHasOneCodec(t *testing.T) {
	sink := &fakeSink{}
	cfg := mapConfig{sink: sinkOptions(), maps: chainOf("headers"), registry: Maps()}
	cfg.sink.Linger = 1e15
	r := startTask(t, 1, cfg, sink, nil)
	var want []string
	for i, codec := range []batch.Codec{batch.Lz4, batch.Lz4, batch.Zstd, batch.None, batch.None, batch.Lz4} {
		value := strings.Repeat(codec.String(), 100)
		r.send(fromSource(t, "in", 0, encodeSource(t, int64(i), codec, consecutive(text("k", value)), nil)))
		want = append(want, value)
	}
	r.barrier(1)
	if got := sink.values(t, 0); got != strings.Join(want, " ") {
		t.Errorf("%q", got)
	}
	if got := len(sink.taken()); got != 4 {
		t.Errorf("%d batches, want lz4, zstd, none, lz4", got)
	}
	for _, w := range sink.taken() {
		codec, records := decodeSink(t, w.raw)
		for _, rec := range records {
			if !strings.HasPrefix(string(rec.Value), codec.String()) {
				t.Errorf("%.8s is in a %s batch", rec.Value, codec)
			}
		}
	}
	r.stop()
}

func TestBuffersKeepLittle(t *testing.T) {
	var p buffers
	var lent []*buffer
	for range 40 {
		lent = append(lent, p.get(1<<20))
	}
	for _, b := range lent {
		b.release()
	}
	if p.bytes > freeBuffersLimit {
		t.Errorf("%d bytes are kept", p.bytes)
	}
	for size := range 1 << 13 {
		b := p.get(size)
		if cap(b.raw) < size || len(b.raw) != 0 || cap(b.raw) > max(2*size, 1<<smallestBuffer) {
			t.Fatalf("%d bytes asked for, got room for %d with %d in it", size, cap(b.raw), len(b.raw))
		}
		b.raw = append(b.raw, make([]byte, size*3/2)...) // a caller may outgrow it
		b.release()
	}
	if b := p.get(100 << 20); cap(b.raw) < 100<<20 {
		t.Error("too small")
	} else {
		b.release()
	}
	kept := 0
	for _, class := range p.free {
		for _, b := range class {
			kept += cap(b.raw)
		}
	}
	if kept != p.bytes || kept > freeBuffersLimit {
		t.Errorf("%d bytes are kept, %d counted", kept, p.bytes)
	}
}

// stats may be asked for while the task runs.
func TestStatsFromOutside(t *testing.T) {
	r, _ := runChain(t, testRegistry(), "headers")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			r.task.stats()
		}
	}()
	for i := range 50 {
		r.send(fromSource(t, "in", 0, encodeSource(t, int64(i), batch.None, consecutive(text("k", "v")), nil)))
	}
	<-done
	r.barrier(1)
	if s := r.task.stats(); s.RecordsIn != 50 || s.RecordsOut != 50 || s.Reencoded["map"] != 50 {
		t.Errorf("%+v", s)
	}
	r.stop()
}

// What a codec may add at most: snappy 32 + n/6 (its MaxCompressedLength), the others less than n/100 + 100.
func TestTargetLeavesRoomForTheCodec(t *testing.T) {
	for _, limit := range []int{100, 1_000, 40_000, 200_000, 1 << 20, 100 << 20} {
		s := &sinkTopic{limit: limit, preferred: 256 << 10}
		for codec, added := range map[batch.Codec]func(n int) int{
			batch.None:   func(int) int { return 0 },
			batch.Snappy: func(n int) int { return 32 + n/6 },
			batch.Gzip:   func(n int) int { return n/100 + 100 },
			batch.Lz4:    func(n int) int { return n/100 + 100 },
			batch.Zstd:   func(n int) int { return n/100 + 100 },
		} {
			if n := s.target(codec); n > 0 && n+added(n) > limit {
				t.Errorf("%s: a batch of %d bytes may become %d, the limit is %d", codec, n, n+added(n), limit)
			}
		}
		if limit >= 1<<20 && s.target(batch.Snappy) != 256<<10 {
			t.Errorf("limit %d: target %d", limit, s.target(batch.Snappy))
		}
	}
}
