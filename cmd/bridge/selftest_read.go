package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/connect"
)

// readPause is how long the reader waits for the next records before it gives up.
const readPause = time.Minute

// selftestResult is what the reader found.
type selftestResult struct {
	Lost      int `json:"lost"`
	Doubled   int `json:"doubled"`
	Reordered int `json:"reordered"`
	Changed   int `json:"changed"`
}

func (r *selftestResult) wrong() int { return r.Lost + r.Doubled + r.Reordered + r.Changed }

// selftestFindings add it up.
type selftestFindings struct {
	selftestResult
	seen    int
	example string // the first that is wrong
	count   [selftestPartitions][]uint8
	last    [selftestPartitions]int
}

// read reads the sink as any read_committed consumer does, with nothing of the bridge's data path, and holds it against what the
// source was given.
func (s *selftest) read(ctx context.Context) (*selftestFindings, error) {
	if err := s.complete(ctx); err != nil {
		return nil, err
	}
	if open, err := s.heldBack(ctx); err != nil || open {
		return nil, errors.Join(err, fmt.Errorf("selftest: a transaction is still open in %s, although the bridge has ended cleanly", s.names.Sink))
	}
	f := &selftestFindings{}
	for p := range f.count {
		f.count[p], f.last[p] = make([]uint8, s.load.produced[p]), -1
	}
	if err := s.consume(ctx, func(r *kgo.Record) { s.take(f, r) }); err != nil {
		return nil, err
	}
	s.missing(f)
	return f, nil
}

// missing counts what was not read.
func (s *selftest) missing(f *selftestFindings) {
	for p, count := range f.count {
		for n, c := range count {
			if c == 0 {
				s.wrong(f, p, n, "lost", func(r *selftestResult) { r.Lost++ })
			}
		}
	}
}

func (s *selftest) consume(ctx context.Context, take func(*kgo.Record)) error {
	stable, err := kadm.NewClient(s.sink.cl).ListCommittedOffsets(ctx, s.names.Sink)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return fmt.Errorf("ends of %s: %w", s.names.Sink, err)
	}
	left, from := map[int32]int64{}, map[int32]kgo.Offset{}
	stable.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition], from[o.Partition] = o.Offset, kgo.NewOffset().AtStart()
		}
	})
	cl, err := connect.Client(s.sink.o, nil, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.names.Sink: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return fmt.Errorf("reader: %w", err)
	}
	defer cl.Close()
	for len(left) > 0 {
		if err := poll(ctx, cl, left, take); err != nil {
			return fmt.Errorf("read %s: %w", s.names.Sink, err)
		}
	}
	return nil
}

// poll reads once and takes from left what is read to its end. The last stable offset ends with a marker, which is a control record.
func poll(ctx context.Context, cl *kgo.Client, left map[int32]int64, take func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeout(ctx, readPause)
	defer cancel()
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return err
	}
	fetches.EachRecord(func(r *kgo.Record) {
		end, ok := left[r.Partition]
		if ok && r.Offset < end && !r.Attrs.IsControl() {
			take(r)
		}
		if ok && r.Offset+1 >= end {
			delete(left, r.Partition)
		}
	})
	return nil
}

// take counts one record of the sink. What has no number was not produced here.
func (s *selftest) take(f *selftestFindings, r *kgo.Record) {
	f.seen++
	p := int(r.Partition)
	n := -1
	if len(r.Headers) == 1 {
		n, _ = strconv.Atoi(string(r.Headers[0].Value))
	}
	if p >= selftestPartitions || n < 0 || n >= len(f.count[p]) {
		f.Changed++
		f.note("record without a known number at partition %d, offset %d", r.Partition, r.Offset)
		return
	}
	want := loadRecord(p, n)
	if !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Value, want.Value) || r.Headers[0].Key != want.Headers[0].Key {
		s.wrong(f, p, n, "changed", func(r *selftestResult) { r.Changed++ })
	}
	switch f.count[p][n]++; {
	case f.count[p][n] > 1:
		f.count[p][n] = 2
		s.wrong(f, p, n, "doubled", func(r *selftestResult) { r.Doubled++ })
	case n < f.last[p]:
		s.wrong(f, p, n, "out of order", func(r *selftestResult) { r.Reordered++ })
	}
	f.last[p] = max(f.last[p], n)
}

// wrong counts for the whole and for the step during which the record was produced.
func (s *selftest) wrong(f *selftestFindings, p, n int, what string, count func(*selftestResult)) {
	row := s.load.rowOf(p, n)
	count(&f.selftestResult)
	count(&row.selftestResult)
	f.note("record %d of partition %d is %s (%s)", n, p, what, row.Step)
}

func (f *selftestFindings) note(format string, args ...any) {
	if f.example == "" {
		f.example = fmt.Sprintf(format, args...)
	}
}
