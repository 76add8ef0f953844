package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
	"kafkabridge/txn"
)

// extent is a partition's log: from start to below end, as a read_committed reader sees it.
type extent struct {
	conn      connect.Options
	topic     string
	partition int32
	start     int64
	end       int64
}

func (e extent) String() string { return fmt.Sprintf("%s/%d", e.topic, e.partition) }

// pair is a sink partition with the one source partition whose records it takes. in has no topic where there is none.
type pair struct {
	in, out extent
	source  bridge.SourceOptions
	decided int64 // source offsets below it are in the sink
}

// mixture is a sink topic whose partitions take the records of several source partitions.
type mixture struct {
	topic   string
	in, out []extent
}

// comparing is one bridge's comparison, ready to run.
type comparing struct {
	r        *repair
	parts    parts
	examples int
	pairs    []pair
	mixtures []mixture
	progress *progress
}

// standstill is how often the positions of a running bridge are read until two reads agree.
const standstill = 20

// prepareVerify fixes what is compared, in an order in which nothing can look lost that is only late: first the decided positions, then the
// markers of their transactions, then the sink's ends, then the sources'.
func (r *repair) prepareVerify(ctx context.Context, env environment, file *configs.File) (*comparing, error) {
	parts, err := comparedParts(r.b.Options)
	if err != nil {
		return nil, err
	}
	c := &comparing{r: r, parts: parts}
	views, err := r.viewSources(ctx)
	if err != nil {
		return nil, err
	}
	sinks, err := r.sinkTopics(views)
	if err != nil {
		return nil, err
	}
	mixed := r.b.Options.Sink.PartitionByKey || slices.ContainsFunc(slices.Collect(maps.Values(sinks)), func(feeds []feed) bool { return len(feeds) > 1 })
	for range standstill {
		before, err := r.decided(ctx, env, file, views)
		if err != nil {
			return nil, err
		}
		out, err := r.sinkExtents(ctx, slices.Sorted(maps.Keys(sinks)))
		if err != nil {
			return nil, err
		}
		if !mixed {
			if views, err = r.viewSources(ctx); err != nil {
				return nil, err
			}
			c.pair(sinks, views, out, before)
			return c, nil
		}
		after, err := r.decided(ctx, env, file, views)
		if err != nil {
			return nil, err
		}
		if before.Equal(after) {
			return c, c.mix(sinks, views, out, before)
		}
	}
	return nil, &semantics.Error{Class: semantics.Retry, Op: fmt.Sprintf("bridge %q", r.b.Options.Name),
		Err: errors.New("its positions move, and several source partitions flow together in the sink: stop the daemon, or wait until it has nothing to do")}
}

// feed is one source topic on its way into a sink topic.
type feed struct {
	view  int
	topic string
}

func (r *repair) sinkTopics(views []*sourceView) (map[string][]feed, error) {
	out := map[string][]feed{}
	for i, v := range views {
		for _, topic := range v.names() {
			sink, err := r.b.Options.Sink.Topic(topic)
			if err != nil {
				return nil, fmt.Errorf("bridge %q: %w", r.b.Options.Name, err)
			}
			out[sink] = append(out[sink], feed{i, topic})
		}
	}
	return out, nil
}

// decided are the positions up to which everything is in the sink, and visible: the markers are written.
func (r *repair) decided(ctx context.Context, env environment, file *configs.File, views []*sourceView) (semantics.Positions, error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	if r.b.Options.Semantic == semantics.ExactlyOnce && r.b.Sink.Ledger {
		v, err := r.sink.Ledger.View(ctx)
		if err != nil {
			return nil, r.explain(err)
		}
		ids, err := r.sink.Coordinator.DescribeEnded(ctx, r.b.Sink.TransactionalIDs...)
		if err == nil && slices.ContainsFunc(ids, txn.Described.Ending) {
			err = fmt.Errorf("the brokers have not written the markers of the bridge's last transaction within %s: readers do not see it yet", repairTimeout)
		}
		return v.End.Record.Positions, r.explain(err)
	}
	var stored []semantics.Checkpoint
	var err error
	if r.b.Store != nil {
		stored, err = readCheckpoints(r.b)
	} else {
		var running bool
		if running, err = daemonRuns(env, file, r.b); err == nil && running {
			err = &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitGaveUp, Op: fmt.Sprintf("bridge %q", r.b.Options.Name), Err: fmt.Errorf("%w: stop it first", errRunning)}
		}
		if err == nil {
			stored, err = (&groupOffsets{o: r.b.Options, views: views}).Load()
		}
	}
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(stored) {
		if c.Status == semantics.Decided {
			return c.Positions, nil
		}
	}
	return nil, nil
}

// sinkExtents are the sink's partitions now. A topic that is missing has none.
func (r *repair) sinkExtents(ctx context.Context, topics []string) (map[string]map[int32]extent, error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	adm := kadm.NewClient(r.cl)
	out := map[string]map[int32]extent{}
	for _, topic := range topics {
		out[topic] = map[int32]extent{}
		starts, err := adm.ListStartOffsets(ctx, topic)
		if err == nil {
			err = starts.Error()
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if errors.Is(err, kerr.TopicAuthorizationFailed) {
			return nil, semantics.Misconfigured("look at the sink", "topic %s: not allowed to read it: grant Describe and Read on Topic %s", topic, topic)
		}
		if err != nil {
			return nil, r.explain(fmt.Errorf("topic %s: %w", topic, err))
		}
		ends, err := listed(adm.ListCommittedOffsets(ctx, topic))
		if err != nil {
			return nil, r.explain(fmt.Errorf("topic %s: %w", topic, err))
		}
		starts.Each(func(o kadm.ListedOffset) {
			end, _ := ends.Lookup(topic, o.Partition)
			out[topic][o.Partition] = extent{r.b.SinkConnection, topic, o.Partition, o.Offset, end.Offset}
		})
	}
	return out, nil
}

func (c *comparing) in(views []*sourceView, f feed, partition int32) extent {
	v := views[f.view]
	l := v.topics[f.topic].partitions[partition]
	return extent{v.conn, f.topic, partition, l.start, l.latest}
}

// pair puts each sink partition beside its source partition.
func (c *comparing) pair(sinks map[string][]feed, views []*sourceView, out map[string]map[int32]extent, decided semantics.Positions) {
	for _, sink := range slices.Sorted(maps.Keys(sinks)) {
		f := sinks[sink][0]
		v := views[f.view]
		numbers := v.topics[f.topic].numbers()
		for _, n := range numbers {
			p := pair{in: c.in(views, f, n), source: v.o, out: out[sink][n]}
			if p.out.topic == "" {
				p.out = extent{topic: sink, partition: n}
			}
			at, _ := v.known(decided, f.topic, n)
			p.decided = at.Offset
			c.pairs = append(c.pairs, p)
		}
		for _, n := range slices.Sorted(maps.Keys(out[sink])) {
			if e := out[sink][n]; !slices.Contains(numbers, n) && e.end > e.start {
				c.pairs = append(c.pairs, pair{out: e})
			}
		}
	}
}

// mix puts whole sink topics beside everything that flows into them, which takes a begin and an end on both sides.
func (c *comparing) mix(sinks map[string][]feed, views []*sourceView, out map[string]map[int32]extent, decided semantics.Positions) error {
	for _, sink := range slices.Sorted(maps.Keys(sinks)) {
		m := mixture{topic: sink}
		for _, f := range sinks[sink] {
			v := views[f.view]
			for _, n := range v.topics[f.topic].numbers() {
				e := c.in(views, f, n)
				at, _ := v.known(decided, f.topic, n)
				e.end = at.Offset
				if e.start > 0 || beginsLater(v.o) {
					return c.noBegin(e, "the source block does not begin at offset 0")
				}
				m.in = append(m.in, e)
			}
		}
		for _, n := range slices.Sorted(maps.Keys(out[sink])) {
			e := out[sink][n]
			if e.start > 0 {
				return c.noBegin(e, "retention has deleted its begin")
			}
			m.out = append(m.out, e)
		}
		c.mixtures = append(c.mixtures, m)
	}
	return nil
}

func (c *comparing) noBegin(e extent, why string) error {
	return semantics.Misconfigured(fmt.Sprintf("bridge %q", c.r.b.Options.Name),
		"%s: %s, and where several source partitions flow together the two sides can be compared only as a whole", e, why)
}

// beginsLater says whether the source block leaves out what was there before its first start.
func beginsLater(o bridge.SourceOptions) bool {
	return o.Start.At != bridge.StartEarliest || len(o.StartOffsets) > 0
}

// toRead is how many offsets lie in front of a comparison, for the progress bar.
func (c *comparing) toRead() (n int64) {
	for _, p := range c.pairs {
		n += p.in.end - p.in.start + p.out.end - p.out.start
	}
	for _, m := range c.mixtures {
		for _, e := range slices.Concat(m.in, m.out) {
			n += max(0, e.end-e.start)
		}
	}
	return n
}
