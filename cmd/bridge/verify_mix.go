package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// Where records of several source partitions flow together, no stream of the one side is beside a stream of the other. Both are added up in
// buckets, by fingerprint: equal sums in every bucket mean equal sets of records. Where a bucket differs, a second reading counts
// each record of these buckets.
const (
	mixBuckets = 1 << 16
	mixCounted = 1 << 20 // records that the second reading tells apart; more differences are only counted as such
)

// bucket is the difference of the two sides: how many records, and the sum of their fingerprints modulo 2^128.
type bucket struct {
	records int64
	high    uint64
	low     uint64
}

func bucketOf(p fingerprint) uint16 { return binary.BigEndian.Uint16(p[:]) }

func (b *bucket) add(p fingerprint) {
	b.records++
	low, carry := bits.Add64(b.low, binary.BigEndian.Uint64(p[8:]), 0)
	b.low = low
	b.high, _ = bits.Add64(b.high, binary.BigEndian.Uint64(p[:8]), carry)
}

func (b *bucket) remove(p fingerprint) {
	b.records--
	low, borrow := bits.Sub64(b.low, binary.BigEndian.Uint64(p[8:]), 0)
	b.low = low
	b.high, _ = bits.Sub64(b.high, binary.BigEndian.Uint64(p[:8]), borrow)
}

// mixUp compares a sink topic with all that flows into it.
func (c *comparing) mixUp(ctx context.Context, m mixture) (comparison, error) {
	report := comparison{Sink: m.topic}
	for _, e := range m.in {
		report.Source += after(map[bool]string{true: ", "}[report.Source != ""], e.String())
	}
	buckets := make([]bucket, mixBuckets)
	err := c.each(ctx, m.in, func(_ extent, it item) { report.In++; buckets[bucketOf(it.print)].add(it.print) })
	if err == nil {
		err = c.each(ctx, m.out, func(_ extent, it item) { report.Out++; buckets[bucketOf(it.print)].remove(it.print) })
	}
	if err != nil {
		return report, err
	}
	if !slices.ContainsFunc(buckets, func(b bucket) bool { return b != bucket{} }) {
		report.Same = report.In
		return report, nil
	}
	return report, c.count(ctx, m, buckets, &report)
}

// tally is one record of a bucket that differs.
type tally struct {
	in, out       int64
	source, sink  string
	inAt, outLast int64
}

// count reads both sides again and tells the records of the buckets that differ apart.
func (c *comparing) count(ctx context.Context, m mixture, buckets []bucket, report *comparison) error {
	seen := map[fingerprint]*tally{}
	uncounted := int64(0)
	of := func(p fingerprint) *tally {
		if (buckets[bucketOf(p)] == bucket{}) {
			return nil
		}
		t := seen[p]
		if t == nil && len(seen) < mixCounted {
			t = &tally{inAt: -1, outLast: -1}
			seen[p] = t
		}
		if t == nil {
			uncounted++
		}
		return t
	}
	err := c.each(ctx, m.in, func(e extent, it item) {
		if t := of(it.print); t != nil {
			t.in, t.source, t.inAt = t.in+1, e.String(), it.offset
		}
	})
	if err == nil {
		err = c.each(ctx, m.out, func(e extent, it item) {
			if t := of(it.print); t != nil {
				t.out, t.sink, t.outLast = t.out+1, e.String(), it.offset
			}
		})
	}
	if err != nil {
		return err
	}
	if uncounted > 0 {
		return fmt.Errorf("topic %s differs in more than %d records: too many to tell apart", m.topic, mixCounted)
	}
	for _, t := range seen {
		t.report(c.examples, report)
	}
	report.Same = report.In - report.Lost
	return nil
}

func (t *tally) report(examples int, report *comparison) {
	for range max(0, t.in-t.out) {
		report.add(examples, example{Kind: "lost", Source: t.source, In: t.inAt, Out: -1})
	}
	kind := "doubled"
	if t.in == 0 {
		kind = "foreign"
	}
	for range max(0, t.out-t.in) {
		report.add(examples, example{Kind: kind, Source: t.source, In: t.inAt, Sink: t.sink, Out: t.outLast})
	}
}

// each reads partitions one after the other.
func (c *comparing) each(ctx context.Context, extents []extent, f func(extent, item)) error {
	for _, e := range extents {
		if err := c.log(ctx, e, f); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparing) log(ctx context.Context, e extent, f func(extent, item)) error {
	l, err := c.open(e)
	if err != nil {
		return err
	}
	defer l.close()
	for {
		it, ok, err := l.read(ctx)
		if err != nil || !ok {
			return err
		}
		f(e, it)
	}
}
