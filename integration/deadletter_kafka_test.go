//go:build kafka

package integration

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
)

// awkward is traffic in which every tenth record is one that a map fails for or that the sink refuses: the first word of a
// value says what becomes of it.
type awkward struct {
	bootstrap  []string
	topic      string
	partitions int32
	records    int // per partition
	bad        []string
	begin      time.Time
	lasts      time.Duration // all of it
}

// word is what becomes of a record.
func (a *awkward) word(seq int) string {
	if seq%10 != 3 {
		return "good"
	}
	return a.bad[seq/10%len(a.bad)]
}

func (a *awkward) record(partition int32, seq int) *kgo.Record {
	word := a.word(seq)
	id := fmt.Sprintf("%s %d/%d", word, partition, seq)
	r := &kgo.Record{Topic: a.topic, Partition: partition, Key: []byte("key " + id), Value: []byte(id), Timestamp: a.begin.Add(time.Duration(seq) * time.Millisecond),
		Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}}
	switch word {
	case "ancient": // no clock is that wrong: the map task refuses it
		r.Timestamp = time.UnixMilli(int64(seq))
	case "old": // the broker's clock decides
		r.Timestamp = r.Timestamp.Add(-25 * time.Hour)
	case "ahead":
		r.Timestamp = r.Timestamp.Add(2 * time.Hour)
	case "keyless":
		r.Key = nil
	case "large":
		noise := make([]byte, 300_000)
		random := rand.New(rand.NewPCG(uint64(partition), uint64(seq)))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		r.Value = append(append(r.Value, ' '), noise...)
	}
	return r
}

// produce writes everything in batches of a hundred, evenly over the time that it lasts.
func (a *awkward) produce(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ManualFlushing(),
		kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	const size = 100
	pause := a.lasts * size / time.Duration(a.records)
	for first := 0; first < a.records; first += size {
		var all []*kgo.Record
		for p := range a.partitions {
			for seq := first; seq < min(first+size, a.records); seq++ {
				all = append(all, a.record(p, seq))
			}
		}
		var failed error
		for _, r := range all {
			cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
				if err != nil {
					failed = err
				}
			})
		}
		if err := cl.Flush(ctx); err != nil || failed != nil {
			return fmt.Errorf("produce: %w, %w", err, failed)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func wordOf(r oracle.Record) string {
	word, _, _ := strings.Cut(string(r.Value), " ")
	return word
}

// deadLetter is what has to stand in the dead letter topic for a source record: all of it, and all headers but the error.
func deadLetter(r oracle.Record, by string) oracle.Record {
	add := func(key, value string) { r.Headers = append(r.Headers, oracle.Header{Key: key, Value: []byte(value)}) }
	r.Headers = r.Headers[:len(r.Headers):len(r.Headers)]
	add("bridge.source", "src")
	add("bridge.topic", r.Topic)
	add("bridge.partition", strconv.Itoa(int(r.Partition)))
	add("bridge.offset", strconv.FormatInt(r.Offset, 10))
	add("bridge.timestamp", strconv.FormatInt(r.Timestamp, 10))
	add("bridge.map", by)
	return r
}

// shows checks that a topic shows what becomes of the source's records, once, in order, in the partition of the same number.
func (r *rig) shows(topic string, becomes func(oracle.Record) []oracle.Record, saw func(oracle.Record) oracle.Record) {
	r.t.Helper()
	want := oracle.NewExpected()
	want.Map = becomes
	if err := want.AddTopics(r.t.Context(), "src", r.src.Bootstrap(), oracle.Committed, r.in...); err != nil {
		r.t.Fatal(err)
	}
	check := want.NewCheck()
	check.Place = oracle.SamePartition
	err := oracle.Read(r.t.Context(), r.dst.Bootstrap(), oracle.Committed, []string{topic}, func(rec oracle.Record) error {
		if saw != nil {
			rec = saw(rec)
		}
		return check.Saw(rec)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	report := check.Report()
	r.t.Logf("%s: %s; %d kills", topic, report, r.kills)
	if err := report.ExactlyOnce(); err != nil {
		r.t.Errorf("%s: %v", topic, err)
	}
}

// TestDeadLetters: every tenth record is refused by the sink, foreseen or only by the broker, or fails in a map; the bridge is killed
// again and again. Everything else arrives once and in order, and exactly the others are dead letters, once, byte for byte.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	rejects := []string{"ancient", "keyless", "large", "old", "ahead"}
	for name, row := range map[string]struct {
		testMap string
		bad     []string
	}{
		"Untouched": {"", rejects},
		"Mapped":    {"awkward", append([]string{"fail", "nowhere", "loop", "other"}, rejects...)},
	} {
		for _, o := range suiteClusters() {
			t.Run(name+"/"+clusterName(o), func(t *testing.T) {
				t.Parallel()
				c := sharedCluster(t, o)
				r := newDeadLetterRig(t, c, row.testMap)
				traffic := &awkward{bootstrap: c.Bootstrap(), topic: r.in[0], partitions: 3, records: 2_000, bad: row.bad, begin: time.Now(), lasts: 5 * time.Second}
				done := make(chan error, 1)
				go func() { done <- traffic.produce(t.Context()) }()
				r.failpoint(r.start(daemon.AfterPersist), drainLimit) // first, while records are sure to flow
				r.killLoop(3)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				r.untilEnd()
				r.nothingOpen()
				r.showsDeadLetters(row.bad)
			})
		}
	}
}

func newDeadLetterRig(t *testing.T, c *kafka.Cluster, testMap string) *rig {
	r := newRig(t, "EXACTLY_ONCE", c, c, 0)
	const any64 = "9223372036854775807"
	createTopic(t, c, r.in[0], 3, map[string]string{"max.message.bytes": "8388608", "message.timestamp.before.max.ms": any64, "message.timestamp.after.max.ms": any64})
	createTopic(t, c, r.out, 3, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "200000", "min.compaction.lag.ms": "86400000",
		"message.timestamp.before.max.ms": "86400000", "message.timestamp.after.max.ms": "3600000"})
	r.cfg.Sink.Attrs["on_reject"] = "dead_letter"
	r.deadLettersTo(r.name + "-dead")
	if testMap != "" {
		r.env = []string{"BRIDGE_TEST_MAP=" + testMap, "BRIDGE_TEST_ON_ERROR=dead_letter"}
	}
	return r
}

func (r *rig) deadLettersTo(topic string) {
	r.cfg.Sink.Attrs["dead_letter"] = daemon.Nested(fmt.Sprintf("topic = %q", topic))
}

func (r *rig) showsDeadLetters(bad []string) {
	r.t.Helper()
	r.shows(r.out, func(rec oracle.Record) []oracle.Record {
		if wordOf(rec) != "good" {
			return nil
		}
		return []oracle.Record{rec}
	}, nil)
	reasons := map[string]string{}
	r.shows(r.name+"-dead", func(rec oracle.Record) []oracle.Record {
		switch wordOf(rec) {
		case "good", "other":
			return nil
		case "fail":
			return []oracle.Record{deadLetter(rec, "1 awkward")}
		}
		return []oracle.Record{deadLetter(rec, "sink")}
	}, func(rec oracle.Record) oracle.Record {
		last := len(rec.Headers) - 1
		if last < 0 || rec.Headers[last].Key != "bridge.error" {
			r.t.Errorf("%s has no error", rec)
			return rec
		}
		reasons[wordOf(rec)] = string(bytes.Clone(rec.Headers[last].Value))
		rec.Headers = rec.Headers[:last]
		return rec
	})
	for _, word := range bad {
		want := map[string]string{"ancient": "timestamp", "old": "timestamp", "ahead": "timestamp", "keyless": "key", "large": "200000",
			"fail": "told to fail", "nowhere": "no/where", "loop": "round for ever"}[word]
		if word == "other" {
			r.shows(r.name+"-other", func(rec oracle.Record) []oracle.Record {
				if wordOf(rec) != "other" {
					return nil
				}
				return []oracle.Record{rec}
			}, nil)
		} else if !strings.Contains(strings.ToLower(reasons[word]), want) {
			r.t.Errorf("%s: %q does not say %q", word, reasons[word], want)
		}
	}
	r.t.Logf("reasons: %q", reasons)
}

// TestDeadLetterThatCannotBeWritten: the bridge stops with exit code 3 and says which record and why, again and again, and goes on
// without a loss when the topic takes it.
func TestDeadLetterThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, current())
	r := newDeadLetterRig(t, c, "")
	createTopic(t, c, r.name+"-dead", 1, map[string]string{"max.message.bytes": "1000"})
	traffic := &awkward{bootstrap: c.Bootstrap(), topic: r.in[0], partitions: 3, records: 200, bad: []string{"large"}, begin: time.Now()}
	if err := traffic.produce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.says(r.exit(r.start("", "--until-end"), 3, drainLimit), r.name+"-dead", "offset 3", "1000", "max.message.bytes")
	}
	r.deadLettersTo(r.name + "-dead2")
	r.untilEnd()
	r.nothingOpen()
	r.shows(r.out, func(rec oracle.Record) []oracle.Record {
		if wordOf(rec) != "good" {
			return nil
		}
		return []oracle.Record{rec}
	}, nil)
}
