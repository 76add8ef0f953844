package configs

import (
	"math"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
)

// bridgeInfo is what the checks across blocks need beside the Options.
type bridgeInfo struct {
	grammar *bridgeGrammar
	sink    *sinkGrammar // nil when there is not exactly one
	topic   *topicTemplate
}

func (d *decoder) bridge(g *bridgeGrammar) (Bridge, bridgeInfo) {
	d.checkName(g.Name, g.NameRange)
	b := Bridge{Options: bridge.Options{
		Name:     g.Name,
		Semantic: d.semantic(g.Semantic, bridge.DefaultSemantic),
		Workers:  int(d.integer(g.Workers, 0, 0, bridge.MaxWorkers)),
		Restart:  d.restart(g.Restart),
	}}
	info := bridgeInfo{grammar: g}
	d.sources(g, &b)
	s := d.onlySink(g)
	for i := range g.Maps {
		m := d.mapBlock(&g.Maps[i])
		m.OnError = d.policy(g.Maps[i].OnError, s, bridge.DefaultOnError, bridge.Fail, bridge.Skip, bridge.DeadLetter)
		b.Options.Maps = append(b.Options.Maps, m)
	}
	if s != nil {
		info.sink = s
		b.SinkConnection = d.connection(s.DefRange, s.Brokers, s.TLS, s.SASL, g.Name)
		b.Options.Sink, info.topic = d.sink(s)
		b.Sink = d.transactions(s, g.Name)
		b.Sink.Semantic, b.Sink.DeadLetterTopic = b.Options.Semantic, b.Options.Sink.DeadLetterTopic
		b.Options.TransactionalIDs, b.Options.Ledger = b.Sink.TransactionalIDs, b.Sink.Ledger
		b.Options.OnTimeout = bridge.Policy(d.word(s.OnTimeout, string(bridge.DefaultOnTimeout), string(bridge.Replay), string(bridge.Fail)))
	}
	d.checkpoint(g, &b)
	b.Options.EnsureDefaults()
	return b, info
}

// owners runs the owning packages' own checks, should they know something that is not checked here with its position.
func (d *decoder) owners(g *bridgeGrammar, b *Bridge) {
	sink := b.Sink
	sink.Incarnation = "drawn at start"
	for _, err := range []error{b.Options.Validate(), sink.Validate()} {
		if err != nil {
			d.errorAt(g.DefRange, "Unsuitable settings", "%v.", err)
		}
	}
}

func (d *decoder) sources(g *bridgeGrammar, b *Bridge) {
	if len(g.Sources) == 0 {
		d.errorAt(g.DefRange, "Missing source block", `At least one source "NAME" block is required.`)
	}
	for i := range g.Sources {
		s := &g.Sources[i]
		b.Options.Sources = append(b.Options.Sources, d.source(s, g.Name))
		b.SourceConnections = append(b.SourceConnections, d.connection(s.DefRange, s.Brokers, s.TLS, s.SASL, g.Name))
	}
}

func (d *decoder) onlySink(g *bridgeGrammar) *sinkGrammar {
	switch len(g.Sinks) {
	case 0:
		d.errorAt(g.DefRange, "Missing sink block", `Exactly one sink "NAME" block is required.`)
		return nil
	}
	for _, s := range g.Sinks[1:] {
		d.duplicate("sink", g.Sinks[0].DefRange, s.DefRange)
	}
	return &g.Sinks[0]
}

func (d *decoder) duplicate(block string, first, second hcl.Range) {
	d.errorAt(second, "Duplicate "+block+" block", "Only one %s block is allowed. Another was defined at %s.", block, first)
}

func (d *decoder) checkpoint(g *bridgeGrammar, b *Bridge) {
	o := &b.Options.Checkpoint
	if len(g.Checkpoints) == 0 {
		o.Interval = d.commitInterval(g)
		if b.Options.Semantic == semantics.ExactlyOnce {
			at := g.DefRange
			if g.Semantic != nil {
				at = g.Semantic.Expr.Range()
			}
			d.errorAt(at, "Missing checkpoint block", "EXACTLY_ONCE needs a checkpoint block; without one only NONE and AT_LEAST_ONCE are accepted.")
		}
		return
	}
	d.commitInterval(g) // without effect, but still checked
	c := &g.Checkpoints[0]
	for _, second := range g.Checkpoints[1:] {
		d.duplicate("checkpoint", c.DefRange, second.DefRange)
	}
	*o = bridge.CheckpointOptions{
		Enabled:           true,
		Interval:          d.duration(c.Interval, bridge.DefaultInterval, shortestPeriod),
		MaxRecords:        d.integer(c.MaxRecords, 0, 0, math.MaxInt64),
		Timeout:           d.duration(c.Timeout, bridge.DefaultTimeout, shortestPeriod),
		MinPause:          d.duration(c.MinPause, 0, 0),
		TolerableFailures: int(d.integer(c.TolerableFailures, 0, 0, math.MaxInt32)),
	}
	if n := d.integer(c.MaxConcurrent, 1, math.MinInt64, math.MaxInt64); n != 1 {
		d.bad(c.MaxConcurrent, "max_concurrent must be 1: the next epoch's barrier waits until the epoch before it is decided.")
	}
	b.Store = &snapshot.Options{
		Path:   d.pathOf(c.Path),
		Bridge: g.Name,
		Retain: int(d.integer(c.Retain, snapshot.DefaultRetain, 1, 1_000_000)),
	}
	if b.Store.Path == "" {
		b.Store.Path = filepath.Join(DefaultStateRoot, g.Name)
	}
	if len(g.Sinks) > 0 {
		d.checkTransactionTimeout(&g.Sinks[0], c, b)
	}
}

// commitInterval is the shortest of all sources: offsets of all of them are committed together.
func (d *decoder) commitInterval(g *bridgeGrammar) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for i := range g.Sources {
		shortest = min(shortest, d.duration(g.Sources[i].CommitInterval, bridge.DefaultCommitInterval, shortestPeriod))
	}
	return shortest
}

// checkTransactionTimeout refuses what cannot work: when a transaction needs to stay open for longer than its timeout, the broker
// aborts it, the range is replayed into the next one, and that is aborted too, for ever.
func (d *decoder) checkTransactionTimeout(s *sinkGrammar, g *checkpointGrammar, b *Bridge) {
	c := b.Options.Checkpoint
	longest := max(c.Interval, c.MinPause) + c.Timeout
	if b.Options.Semantic != semantics.ExactlyOnce || b.Sink.TransactionTimeout > longest {
		return
	}
	at := g.DefRange
	for _, a := range []*hcl.Attribute{s.TransactionTimeout, g.Interval, g.MinPause, g.Timeout} {
		if a != nil {
			at = a.Expr.Range()
			break
		}
	}
	d.errorAt(at, "Transactions would time out",
		"transaction_timeout (%v) must be longer than checkpoint.interval (%v; min_pause if that is longer: %v) plus checkpoint.timeout (%v): "+
			"the broker would abort transactions before they can be committed, again and again.",
		b.Sink.TransactionTimeout, c.Interval, c.MinPause, c.Timeout)
}

func (d *decoder) restart(g *restartGrammar) bridge.RestartOptions {
	if g == nil {
		g = &restartGrammar{}
	}
	o := bridge.RestartOptions{
		Backoff:    d.duration(g.Backoff, bridge.DefaultBackoff, time.Millisecond),
		BackoffMax: d.duration(g.BackoffMax, bridge.DefaultBackoffMax, time.Millisecond),
		Attempts:   int(d.integer(g.Attempts, 0, 0, math.MaxInt32)),
	}
	if o.BackoffMax < o.Backoff {
		if g.BackoffMax != nil {
			d.bad(g.BackoffMax, "backoff_max (%v) must not be below backoff (%v).", o.BackoffMax, o.Backoff)
		} else {
			o.BackoffMax = o.Backoff
		}
	}
	return o
}
