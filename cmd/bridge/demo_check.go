package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// demoResult is what a reader of the copy found.
type demoResult struct{ seen, lost, doubled, reordered, changed int }

// read reads orders-copy from its start to its end with kgo's consumer, which shares no code with the bridge's data
// path.
func (d *demo) read(ctx context.Context) (r demoResult, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.brokers...), kgo.ConsumeTopics("orders-copy"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		return r, fmt.Errorf("reader: %w", err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, "orders-copy")
	if err != nil {
		return r, fmt.Errorf("ends of orders-copy: %w", err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	count := make([]uint8, d.n)
	last := map[int32]int{}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return r, fmt.Errorf("read orders-copy: %w", err)
		}
		for _, rec := range fetches.Records() {
			if end, ok := left[rec.Partition]; ok && rec.Offset+1 >= end {
				delete(left, rec.Partition)
			}
			if !rec.Attrs.IsControl() {
				r.take(rec, count, last)
			}
		}
	}
	for _, c := range count {
		if c == 0 {
			r.lost++
		}
	}
	return r, nil
}

func (r *demoResult) take(rec *kgo.Record, count []uint8, last map[int32]int) {
	r.seen++
	var i int
	if _, err := fmt.Sscanf(string(rec.Value), `{"order":%d,`, &i); err != nil || i < 0 || i >= len(count) {
		r.changed++
		return
	}
	want := sample(i)
	if !bytes.Equal(rec.Key, want.Key) || !bytes.Equal(rec.Value, want.Value) || rec.Partition != want.Partition ||
		len(rec.Headers) != 1 || rec.Headers[0].Key != "x-origin" || string(rec.Headers[0].Value) != "demo" {
		r.changed++
	}
	if count[i]++; count[i] > 1 {
		r.doubled++
	}
	if before, ok := last[rec.Partition]; ok && i < before {
		r.reordered++
	}
	last[rec.Partition] = i
}
