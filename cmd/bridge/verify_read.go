package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/connect"
	"kafkabridge/semantics"
)

// Bounds of one reader.
const (
	verifyFetchBytes = 4 << 20
	verifyPatience   = time.Minute // without a record before the log's end
)

// logReader reads one partition with a plain consumer, which shares no code with the bridge's data path.
type logReader struct {
	extent
	conn    connect.Options
	cl      *kgo.Client // nil: there is nothing to read
	print   *printer
	moved   func(int64) // tells the progress bar of offsets passed
	pending []*kgo.Record
	at      int64 // next offset
}

func (c *comparing) open(e extent) (*logReader, error) {
	l := &logReader{extent: e, conn: e.conn, print: newPrinter(c.parts), at: e.start, moved: c.progress.add}
	if e.start >= e.end {
		return l, nil
	}
	cl, err := connect.Client(e.conn, c.r.log, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{e.topic: {e.partition: kgo.NewOffset().At(e.start)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), // markers tell how far the log was read
		kgo.FetchMaxBytes(verifyFetchBytes), kgo.FetchMaxPartitionBytes(verifyFetchBytes), kgo.MaxConcurrentFetches(1),
		kgo.ConsumeResetOffset(kgo.NoResetOffset())) // what retention deletes meanwhile is an error, not a jump
	if err != nil {
		return nil, semantics.Misconfigured("connection", "%w", err)
	}
	l.cl = cl
	return l, nil
}

func (l *logReader) close() {
	if l.cl != nil {
		l.cl.Close()
	}
}

// read returns the next record below the end; false when there is none.
func (l *logReader) read(ctx context.Context) (item, bool, error) {
	for l.cl != nil && l.at < l.end {
		if len(l.pending) == 0 {
			if err := l.fetch(ctx); err != nil {
				return item{}, false, err
			}
			continue
		}
		r := l.pending[0]
		l.pending[0] = nil
		l.pending = l.pending[1:]
		if r.Offset >= l.end {
			l.moved(l.end - l.at)
			l.at = l.end
			break
		}
		l.moved(r.Offset + 1 - l.at)
		l.at = r.Offset + 1
		if !r.Attrs.IsControl() {
			return item{l.print.print(r), r.Offset}, true, nil
		}
	}
	return item{}, false, nil
}

func (l *logReader) fetch(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, verifyPatience)
	defer cancel()
	fetched := l.cl.PollFetches(waiting)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(waiting.Err(), context.DeadlineExceeded) && fetched.NumRecords() == 0 {
		return &semantics.Error{Class: semantics.Retry, Op: "read " + l.String(), Err: fmt.Errorf("nothing came for %s from offset %d on, the log ends at %d", verifyPatience, l.at, l.end)}
	}
	if failed := fetched.Errors(); len(failed) > 0 {
		err := failed[0].Err
		if errors.Is(err, kerr.TopicAuthorizationFailed) { // the daemon itself never reads the sink's topics
			c := cluster{o: l.conn}
			return semantics.Misconfigured("verify", "topic %s: not allowed to read it: grant Read on Topic %s: %s", l.topic, l.topic, c.grant(right{"topic", l.topic, "Read"}))
		}
		return fmt.Errorf("read %s from offset %d: %w", l, l.at, connect.Explain(err, l.conn))
	}
	l.pending = fetched.Records()
	return nil
}
