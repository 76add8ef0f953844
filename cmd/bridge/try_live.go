package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge"
	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
)

// live reads the sources with a plain consumer that has no group: nothing is committed, and no bridge notices.
func (c *tryCommand) live(ctx context.Context, env environment, b configs.Bridge, each func(*bridge.Record) (bool, error)) error {
	for i := range b.Options.Sources {
		more, err := c.liveSource(ctx, env, b, i, each)
		if err != nil {
			return fmt.Errorf("source %q: %w", b.Options.Sources[i].Name, err)
		}
		if !more {
			break
		}
	}
	return nil
}

func (c *tryCommand) liveSource(ctx context.Context, env environment, b configs.Bridge, i int, each func(*bridge.Record) (bool, error)) (more bool, err error) {
	s, o := b.Options.Sources[i], b.SourceConnections[i]
	isolation := kgo.ReadUncommitted()
	if s.ReadCommitted {
		isolation = kgo.ReadCommitted()
	}
	cl, err := connect.Client(o, newLogger(configs.LogOptions{Level: "error"}, env), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	if err != nil {
		return false, semantics.Misconfigured("connection", "%w", err)
	}
	defer cl.Close()
	if err := connect.Check(ctx, cl, o); err != nil {
		return false, kafkabridge.Explain(err, o)
	}
	ends, begins, err := c.ranges(ctx, kadm.NewClient(cl), s)
	if err != nil {
		return false, kafkabridge.Explain(err, o)
	}
	cl.AddConsumePartitions(begins)
	for len(ends) > 0 {
		fetched := pollFor(ctx, cl, tryPatience)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case fetched.Err0() != nil:
			return true, nil // what is left of the partitions holds no record any more: compaction took the last ones
		case fetched.Err() != nil:
			return false, kafkabridge.Explain(fetched.Err(), o)
		}
		for it := fetched.RecordIter(); !it.Done(); {
			r := it.Next()
			at := topicPartition{r.Topic, r.Partition}
			if r.Offset+1 >= ends[at] {
				delete(ends, at)
			}
			if r.Attrs.IsControl() { // kept, because a partition may end with markers
				continue
			}
			if more, err := each(liveRecord(s.Name, r)); err != nil || !more {
				return false, err
			}
		}
	}
	return true, nil
}

// tryPatience is how long nothing may come before a source counts as read.
const tryPatience = 5 * time.Second

func pollFor(ctx context.Context, cl *kgo.Client, limit time.Duration) kgo.Fetches {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return cl.PollFetches(ctx)
}

type topicPartition struct {
	topic     string
	partition int32
}

// ranges are the partitions with records: up to where, and from where to read.
func (c *tryCommand) ranges(ctx context.Context, adm *kadm.Client, s bridge.SourceOptions) (map[topicPartition]int64, map[string]map[int32]kgo.Offset, error) {
	topics := slices.Clone(s.Topics)
	if s.TopicsRegex != "" {
		all, err := adm.ListTopics(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range all.Sorted() {
			if matches(s.TopicsRegex, s.TopicsExclude, s.NeverMatch, t.Topic, t.IsInternal) {
				topics = append(topics, t.Topic)
			}
		}
	}
	if c.Topic != "" {
		topics = slices.DeleteFunc(topics, func(t string) bool { return t != c.Topic })
	}
	ends, begins := map[topicPartition]int64{}, map[string]map[int32]kgo.Offset{}
	if len(topics) == 0 {
		return ends, begins, nil // an empty list would mean all topics
	}
	first, err := adm.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return nil, nil, err
	}
	last, err := adm.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = last.Error()
	}
	if err != nil {
		return nil, nil, err
	}
	var failed error
	last.Each(func(end kadm.ListedOffset) {
		start, _ := first.Lookup(end.Topic, end.Partition)
		from, err := c.begin(start.Offset, end.Offset)
		if failed = errors.Join(failed, err); err != nil || from >= end.Offset {
			return
		}
		ends[topicPartition{end.Topic, end.Partition}] = end.Offset
		if begins[end.Topic] == nil {
			begins[end.Topic] = map[int32]kgo.Offset{}
		}
		begins[end.Topic][end.Partition] = kgo.NewOffset().At(from)
	})
	return ends, begins, failed
}

// begin is --from in a partition that holds the offsets from start up to end.
func (c *tryCommand) begin(start, end int64) (int64, error) {
	if c.From == "earliest" {
		return start, nil
	}
	n, err := strconv.ParseInt(c.From, 10, 64)
	switch {
	case err != nil:
		return 0, &usageError{fmt.Errorf("--from=%s: an offset, earliest, or -N for the last N", c.From)}
	case n < 0:
		return max(start, end+n), nil
	}
	return max(start, n), nil
}

func liveRecord(source string, r *kgo.Record) *bridge.Record {
	var headers batch.HeadersBuffer
	for _, h := range r.Headers {
		headers.Add([]byte(h.Key), h.Value)
	}
	return &bridge.Record{Source: source, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(),
		Key: r.Key, Value: r.Value, Headers: headers.Headers()}
}
