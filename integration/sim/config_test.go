package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"kafkabridge/bridge"
	"kafkabridge/maps"
	"kafkabridge/semantics"
	"kafkabridge/txn"
)

// config is what a seed says about the bridge and the clusters.
type config struct {
	semantic    semantics.Semantic
	ledger      bool
	tv2         bool // brokers with transaction.version 2; else like Kafka 3.9
	brokers     int
	sources     [][]topic
	workers     int
	interval    time.Duration
	maxRecords  int64
	flushWithin time.Duration // checkpoint.timeout
	timeout     time.Duration // of transactions
	headers     bool
	byKey       bool
	oneSink     bool
	codec       string
	tolerable   int
	startAt     int64 // the first offset of partition 0 of the first topic that is wanted, in the middle of a batch

	twist    twist
	apart    bool          // source and sink are two clusters
	oldFrom  bool          // the source cluster is like Kafka 3.9
	gapFails bool          // on_gap = "fail": an operator has to say "skip"
	sweeper  time.Duration // how late the coordinator sees that a transaction has timed out
}

// twist is what a run has beside the ordinary faults; at most one, so that the verdict stays exact.
type twist string

const (
	plain           twist = "plain"
	twistNone       twist = "NONE"
	twistState      twist = "maps with state"
	twistSemantic   twist = "the semantic changes"
	twistSink       twist = "sink topics are removed"
	twistLedger     twist = "the ledger is removed"
	twistRetention  twist = "source records are deleted"
	twistCompaction twist = "source topics are compacted"
	twistTimeout    twist = "on_timeout = fail"
	twistExpiry     twist = "transactional ids expire"
)

// idsLive is transactional.id.expiration.ms in a run with twistExpiry.
const idsLive = 3 * time.Minute

type topic struct {
	name       string
	partitions int32
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// span is a random duration.
func span(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

func newConfig(r *rand.Rand) config {
	c := config{
		semantic: semantics.ExactlyOnce, ledger: true, tv2: !chance(r, 0.3), brokers: pick(r, 1, 1, 2, 3), workers: 1 + r.IntN(3),
		interval: span(r, 100*time.Millisecond, 3*time.Second), flushWithin: span(r, time.Second, 10*time.Second),
		timeout: span(r, 5*time.Second, time.Minute), headers: chance(r, 0.3), byKey: chance(r, 0.2), oneSink: chance(r, 0.5),
		codec: pick(r, "source", "source", "source", "lz4", "none"),
	}
	if chance(r, 0.2) {
		c.semantic = semantics.AtLeastOnce
	} else if chance(r, 0.2) {
		c.ledger = false
	}
	if chance(r, 0.3) {
		c.maxRecords = int64(1 + r.IntN(60))
	}
	if chance(r, 0.3) {
		c.tolerable = 1 + r.IntN(2)
	}
	if chance(r, 0.3) {
		c.startAt = 1 + r.Int64N(firstBatch-1)
	}
	for s := range 1 + r.IntN(2) {
		var topics []topic
		for i := range 1 + r.IntN(2) {
			topics = append(topics, topic{fmt.Sprintf("in%d%c", s, 'a'+i), int32(1 + r.IntN(3))})
		}
		c.sources = append(c.sources, topics)
	}
	c.twistBy(r)
	return c
}

// twistBy decides what is special about the run.
func (c *config) twistBy(r *rand.Rand) {
	c.apart, c.oldFrom, c.gapFails = chance(r, 0.25), chance(r, 0.3), chance(r, 0.5)
	c.sweeper = pick(r, 0, 0, span(r, 0, 10*time.Second))
	c.twist = plain
	if chance(r, 0.5) {
		return
	}
	c.twist = pick(r, twistNone, twistState, twistState, twistSemantic, twistSink, twistLedger, twistLedger, twistRetention, twistCompaction, twistTimeout, twistExpiry)
	switch c.twist {
	case twistNone:
		c.semantic = semantics.None
	case twistTimeout, twistExpiry:
		c.semantic = semantics.ExactlyOnce
	case twistLedger, twistRetention: // the ledger tells what the bridge knew when records were deleted
		c.semantic, c.ledger = semantics.ExactlyOnce, true
	case twistCompaction:
		c.apart = true // kfake cleans a ledger without regard for open transactions
	}
}

const bridgeName = "b"

// firstBatch is how many records the first batch of the first topic has.
const firstBatch = 10

func (c config) sinkTopic(source string) string {
	if c.oneSink {
		return "out"
	}
	return "out." + source
}

// sinkTopics are all topics that the bridge writes to.
func (c config) sinkTopics() (names []string) {
	if c.oneSink {
		return []string{"out"}
	}
	for _, s := range c.sources {
		for _, t := range s {
			names = append(names, c.sinkTopic(t.name))
		}
	}
	return names
}

// bridge are the options of the bridge, as a configuration file would give them.
func (c config) bridge() bridge.Options {
	o := bridge.Options{
		Name: bridgeName, Semantic: c.semantic, TransactionalIDs: ids(), Workers: c.workers, Ledger: c.ledger, TransactionTimeout: c.timeout,
		Sink: bridge.SinkOptions{Name: "sink", Topic: func(t string) (string, error) { return c.sinkTopic(t), nil }, PartitionByKey: c.byKey,
			CreateTopics: true, Compression: c.codec},
		Checkpoint: bridge.CheckpointOptions{Enabled: true, Interval: c.interval, MaxRecords: c.maxRecords, Timeout: c.flushWithin, TolerableFailures: c.tolerable},
		Restart:    bridge.RestartOptions{Backoff: 200 * time.Millisecond, BackoffMax: 5 * time.Second},
	}
	if c.twist == twistTimeout {
		o.OnTimeout = bridge.Fail
	}
	for i, topics := range c.sources {
		s := bridge.SourceOptions{Name: fmt.Sprintf("s%d", i), ReadCommitted: true, Discover: 2 * time.Second, FetchMaxBytes: 64 << 10}
		for _, t := range topics {
			s.Topics = append(s.Topics, t.name)
		}
		if c.twist == twistRetention && !c.gapFails {
			s.OnGap = bridge.Skip
		}
		if i == 0 {
			s.StartOffsets = map[string]int64{topics[0].name + "/0": c.startAt}
		}
		o.Sources = append(o.Sources, s)
	}
	if c.headers {
		o.Maps = []bridge.MapOptions{{Kind: "headers", Settings: maps.HeadersOptions{Set: map[string]string{"x-origin": "sim"}}}}
	}
	if c.twist == twistState {
		o.Maps = append(o.Maps, bridge.MapOptions{Kind: "counter"})
	}
	return o
}

func ids() []string { return []string{bridgeName + "-0", bridgeName + "-1"} }

func (c config) sink() txn.Options {
	return txn.Options{Semantic: c.semantic, Bridge: bridgeName, TransactionTimeout: c.timeout, Ledger: c.ledger, CreateTopics: true, TransactionalIDs: ids()}
}
