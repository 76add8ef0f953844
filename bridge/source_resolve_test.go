package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

type kadmListed = kadm.ListedOffset

func contains(s, part string) bool { return strings.Contains(s, part) }

func asError(err error, e **semantics.Error) bool { return errors.As(err, e) }

// TestSourceStart: ten records on partition 0 of which 0 and 1 are deleted, an open transaction behind them.
func TestSourceStart(t *testing.T) {
	began := time.UnixMilli(1_700_000_000_000)
	for name, tc := range map[string]struct {
		o    SourceOptions
		want int64
	}{
		"zero value":         {SourceOptions{ReadCommitted: true}, 2},
		"earliest":           {SourceOptions{Start: Start{At: StartEarliest}}, 2},
		"latest committed":   {SourceOptions{Start: Start{At: StartLatest}, ReadCommitted: true}, 10},
		"latest uncommitted": {SourceOptions{Start: Start{At: StartLatest}}, 12},
		"committed":          {SourceOptions{Start: Start{At: StartCommitted}, Group: "g"}, 7},
		"committed, none":    {SourceOptions{Start: Start{At: StartCommitted}, Group: "other"}, 2},
		"time":               {SourceOptions{Start: Start{At: StartTime, Time: began.Add(5 * time.Second)}, ReadCommitted: true}, 5},
		"time before all":    {SourceOptions{Start: Start{At: StartTime, Time: began.Add(-time.Hour)}, ReadCommitted: true}, 2},
		"time behind all":    {SourceOptions{Start: Start{At: StartTime, Time: began.Add(time.Hour)}, ReadCommitted: true}, 10},
		"start_offsets":      {SourceOptions{Start: Start{At: StartLatest}, StartOffsets: map[string]int64{"a/0": 4, "a/1": 9}}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.o.Topics = []string{"a"}
			r := newSourceRig(t, tc.o, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			cl := r.client()
			for i := range 10 {
				rec := &kgo.Record{Topic: "a", Value: []byte("v"), Timestamp: began.Add(time.Duration(i) * time.Second)}
				if err := cl.ProduceSync(srcContext(t), rec).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			open := r.client(kgo.TransactionalID("open"))
			if err := open.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				rec := &kgo.Record{Topic: "a", Value: []byte("v"), Timestamp: began.Add(20 * time.Second)}
				if err := open.ProduceSync(srcContext(t), rec).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.cluster.DeleteRecords("a", 0, 2); err != nil {
				t.Fatal(err)
			}
			other := semantics.Positions{}
			other.Set(semantics.SourceTopic{Source: "another", Topic: "a"}, semantics.TopicID{9}, 0, semantics.Position{Offset: 99})
			g := newSource(SourceOptions{Name: srcName, Topics: []string{"a"}, Group: "g"}, r.cl, r.s.log, 0)
			if err := g.publish(srcContext(t), at("a", 7).Over(other)); err != nil {
				t.Fatal(err)
			}
			if c, err := g.committed(srcContext(t)); err != nil || offsetOf(c, "a", 0) != 7 {
				t.Fatalf("committed %v, %v", c, err)
			}
			pos := r.resolve(other, true)
			if got := offsetOf(pos, "a", 0); got != tc.want || len(pos) != 1 {
				t.Fatalf("position %d, want %d; %v", got, tc.want, pos)
			}
			// Found at run time: the log start, whatever start says.
			if got := offsetOf(r.resolve(nil, false), "a", 0); got != 2 {
				t.Fatalf("position %d, want 2", got)
			}
			// Known wins.
			if got := offsetOf(r.resolve(at("a", 3), true), "a", 0); got != 3 {
				t.Fatalf("position %d, want 3", got)
			}
		})
	}
}

func TestSourceResolveGaps(t *testing.T) {
	for name, tc := range map[string]struct {
		known func(id semantics.TopicID) semantics.Positions
		o     SourceOptions
		want  Gap
		at    int64
	}{
		"retention":       {known: func(semantics.TopicID) semantics.Positions { return at("a", 1) }, want: Gap{srcName, "a", 0, 1, 4, gapRetention}, at: 4},
		"truncation":      {known: func(semantics.TopicID) semantics.Positions { return at("a", 11) }, want: Gap{srcName, "a", 0, 10, 11, gapTruncated}, at: 10},
		"start_offsets":   {o: SourceOptions{StartOffsets: map[string]int64{"a/0": 3}}, want: Gap{srcName, "a", 0, 3, 4, gapRetention}, at: 4},
		"recreated topic": {known: func(semantics.TopicID) semantics.Positions { return recreatedAt(5) }, want: Gap{srcName, "a", 0, 5, -1, gapRecreated}, at: 4},
		"recreated, start is latest": {known: func(semantics.TopicID) semantics.Positions { return recreatedAt(5) },
			o: SourceOptions{Start: Start{At: StartLatest}}, want: Gap{srcName, "a", 0, 5, -1, gapRecreated}, at: 4},
	} {
		for _, policy := range []Policy{Fail, Skip, ""} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				tc.o.Topics, tc.o.OnGap = []string{"a"}, policy
				r := newSourceRig(t, tc.o, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
				r.produce(r.client(), "a", 0, numbered("v", 0, 10)...)
				if err := r.cluster.DeleteRecords("a", 0, 4); err != nil {
					t.Fatal(err)
				}
				known := semantics.Positions{}
				if tc.known != nil {
					known = tc.known(semantics.TopicID{})
				}
				pos, gaps, err := r.s.resolve(srcContext(t), known, true)
				if policy != Skip {
					wantRefused(t, err, "topic a partition 0", fmt.Sprintf("offset %d", tc.at), `on_gap = "skip"`)
					return
				}
				if err != nil || !slices.Equal(gaps, []Gap{tc.want}) || offsetOf(pos, "a", 0) != tc.at {
					t.Fatalf("gaps %+v, positions %v, error %v", gaps, pos, err)
				}
				if _, _, err := r.s.resolve(srcContext(t), known, true); err != nil || r.s.status().GapCount != 1 {
					t.Fatalf("a repeated recovery counts %d gaps, %v", r.s.status().GapCount, err)
				}
			})
		}
	}
}

func recreatedAt(offset int64) semantics.Positions {
	pos := semantics.Positions{}
	pos.Set(semantics.SourceTopic{Source: srcName, Topic: "a"}, semantics.TopicID{1, 2, 3}, 0, semantics.Position{Offset: offset, LeaderEpoch: -1})
	return pos
}

// TestSourceFoundByEarlierRun: a partition that an earlier run found may have been read already, so after a recovery it
// begins at its log start too, whatever start says. A topic that was added to the configuration begins at start.
func TestSourceFoundByEarlierRun(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a", "b"}, Start: Start{At: StartLatest}}, kfake.NumBrokers(1), kfake.SeedTopics(2, "a", "b"))
	cl := r.client()
	r.produce(cl, "a", 1, "1", "2")
	r.produce(cl, "b", 1, "1", "2")
	pos := r.resolve(at("a", 0), true)
	if a, b := offsetOf(pos, "a", 1), offsetOf(pos, "b", 1); a != 0 || b != 2 {
		t.Errorf("positions %d and %d, want 0 and 2", a, b)
	}
	regex := newSource(SourceOptions{Name: srcName, TopicsRegex: "[ab]", Start: Start{At: StartLatest}}, r.cl, r.s.log, 0)
	pos, _, err := regex.resolve(srcContext(t), at("a", 0), true)
	if b := offsetOf(pos, "b", 1); err != nil || b != 0 {
		t.Errorf("position %d, want 0; %v", b, err)
	}
}

// TestSourceEdgesAreNoGap: a position at the log start or at the end is in range.
func TestSourceEdgesAreNoGap(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	r.produce(r.client(), "a", 0, numbered("v", 0, 10)...)
	if err := r.cluster.DeleteRecords("a", 0, 4); err != nil {
		t.Fatal(err)
	}
	for _, o := range []int64{4, 10} {
		if got := offsetOf(r.resolve(at("a", o), true), "a", 0); got != o {
			t.Errorf("position %d, want %d", got, o)
		}
	}
}

func TestSourceMissingTopicIsTold(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a", "nowhere"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.AllowAutoTopicCreation())
	_, _, err := r.s.resolve(srcContext(t), nil, true)
	if semantics.ClassOf(err) != semantics.Retry || !contains(err.Error(), "nowhere") || contains(err.Error(), "exist: a") {
		t.Fatalf("%v", err)
	}
	if ts, err := r.admin().ListTopics(srcContext(t)); err != nil || ts.Has("nowhere") {
		t.Fatalf("looking created the topic: %v", err)
	}
}

func TestSourceUnauthorised(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, Group: "g", Start: Start{At: StartCommitted}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	for _, tc := range []struct {
		key  kmsg.Key
		err  *kerr.Error
		text string
	}{
		{kmsg.Metadata, kerr.TopicAuthorizationFailed, `topic "a" needs the operation Describe`},
		{kmsg.ListOffsets, kerr.TopicAuthorizationFailed, `topic "a" needs the operation Describe`},
		{kmsg.OffsetFetch, kerr.GroupAuthorizationFailed, `group "g" needs the operation Describe`},
	} {
		h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{tc.key}, Err: tc.err, Count: -1})
		_, _, err := r.s.resolve(srcContext(t), nil, true)
		var e *semantics.Error
		if !errors.As(err, &e) || e.Class != semantics.Fatal || e.Exit != semantics.ExitUsage || !contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", tc.key.Name(), err)
		}
		h.Remove()
	}
}

func TestSourceRegex(t *testing.T) {
	s := newSource(SourceOptions{TopicsRegex: `orders\..*|__.*`, TopicsExclude: []string{`.*\.tmp`}, NeverMatch: []string{"orders.ledger"}},
		nil, newSourceRig(t, SourceOptions{}, kfake.NumBrokers(1)).s.log, 0)
	for topic, want := range map[string]bool{
		"orders.a": true, "orders.a.tmp": false, "orders.ledger": false, "my.orders.a": false, "__consumer_offsets": false, "orders": false,
		"orders.tmp.a": true,
	} {
		if s.matches(topic, false) != want {
			t.Errorf("%s: want %v", topic, want)
		}
	}
	if s.matches("orders.a", true) {
		t.Error("an internal topic matches")
	}
	bad := newSource(SourceOptions{TopicsRegex: "("}, nil, s.log, 0)
	var e *semantics.Error
	if _, _, err := bad.resolve(t.Context(), nil, true); !errors.As(err, &e) || e.Exit != semantics.ExitUsage {
		t.Errorf("a regex that does not compile: %v", err)
	}
}

// TestSourceDiscovery: topics and partitions that come at run time are read from their log start, whatever start says,
// and stand in the positions.
func TestSourceDiscovery(t *testing.T) {
	r := newSourceRig(t, SourceOptions{TopicsRegex: "t.*", Start: Start{At: StartLatest}, Discover: 10 * time.Millisecond},
		kfake.NumBrokers(2), kfake.SeedTopics(1, "t1", "other"))
	cl := r.client()
	r.produce(cl, "t1", 0, "before the start")
	r.start(r.resolve(nil, true), 2)
	r.caughtUp(1)
	if err := r.cluster.CreateTopic("t2", 2, nil); err != nil {
		t.Fatal(err)
	}
	fresh := r.client()
	r.produce(fresh, "t2", 1, "a", "b")
	if resp, err := r.admin().CreatePartitions(srcContext(t), 1, "t1"); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	grown := r.client()
	r.produce(grown, "t1", 1, "c")
	r.produce(cl, "t1", 0, "d")
	r.eventually("all", func() bool {
		return len(r.values(topicPartition{"t2", 1})) == 2 && len(r.values(topicPartition{"t1", 1})) == 1 && len(r.values(topicPartition{"t1", 0})) == 1
	})
	r.want(topicPartition{"t1", 0}, []string{"d"})
	r.caughtUp(4)
	pos, err := r.s.barrier(srcContext(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[topicPartition]int64{{"t1", 0}: 2, {"t1", 1}: 1, {"t2", 0}: 0, {"t2", 1}: 2} {
		if got := offsetOf(pos, k.topic, k.partition); got != want {
			t.Errorf("%s: position %d, want %d", k, got, want)
		}
	}
	if _, ok := pos[semantics.SourceTopic{Source: srcName, Topic: "other"}]; ok {
		t.Error("a topic that does not match is in the positions")
	}
	ends, err := r.s.ends(srcContext(t))
	if got := ends[semantics.SourceTopic{Source: srcName, Topic: "t1"}]; err != nil || got[0] != 2 || got[1] != 1 {
		t.Errorf("ends %v, %v", ends, err)
	}
}

// TestSourcePublishToLiveGroup: a group with members refuses, and that is an error, no more.
func TestSourcePublishToLiveGroup(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, Group: "g"}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	r.produce(r.client(), "a", 0, "v")
	member := r.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"))
	member.PollFetches(srcContext(t))
	err := r.s.publish(srcContext(t), r.resolve(nil, true))
	if semantics.ClassOf(err) != semantics.Retry || !contains(err.Error(), `group "g"`) {
		t.Fatalf("%v", err)
	}
}

// TestSourceDeposedLeader: whoever answers for a partition knows an earlier leader epoch than the last batch that was read, and its
// log ends before the position. It was deposed; nothing was truncated.
func TestSourceDeposedLeader(t *testing.T) {
	for _, policy := range []Policy{Fail, Skip} {
		t.Run(string(policy), func(t *testing.T) {
			r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, OnGap: policy}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			r.produce(r.client(), "a", 0, numbered("v", 0, 10)...)
			found, err := r.s.lookup(srcContext(t))
			if err != nil {
				t.Fatal(err)
			}
			info := found["a"]
			known := semantics.Positions{}
			known.Set(semantics.SourceTopic{Source: srcName, Topic: "a"}, info.id, 0, semantics.Position{Offset: 15, LeaderEpoch: info.partitions[0].epoch + 1})
			if got := offsetOf(r.resolve(known, true), "a", 0); got != 15 {
				t.Fatalf("position %d, want 15", got)
			}
			run := newSourceRun(r.s, known, make([]chan<- delivery, 1))
			if err := run.seeToRange(srcContext(t), found, &findings{outOfRange: []topicPartition{{"a", 0}}}); err != nil {
				t.Fatal(err)
			}
			if got := run.partitions[topicPartition{"a", 0}].position.Offset; got != 15 {
				t.Fatalf("position moved to %d", got)
			}
		})
	}
}
