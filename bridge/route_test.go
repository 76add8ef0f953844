package bridge

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

func TestRouteIsAskedOncePerSourceTopic(t *testing.T) {
	sink := &fakeSink{}
	cfg := mapConfig{sink: sinkOptions()}
	var asked []string
	cfg.sink.Topic = func(topic string) (string, error) { asked = append(asked, topic); return "copy-" + topic, nil }
	r := startTask(t, 1, cfg, sink, nil)
	for i, topic := range []string{"a", "b", "a", "b"} {
		r.send(fromSource(t, topic, int32(i), encodeSource(t, 0, batch.None, consecutive(text("k", fmt.Sprint(i))), nil)))
	}
	grown := fromSource(t, "a", 8, encodeSource(t, 0, batch.None, consecutive(text("k", "grown")), nil))
	grown.partitions = 12
	r.send(grown)
	old := fromSource(t, "a", 0, encodeSource(t, 1, batch.None, consecutive(text("k", "last")), nil))
	r.send(old)
	r.barrier(1)
	if !reflect.DeepEqual(asked, []string{"a", "b"}) {
		t.Errorf("asked for %v", asked)
	}
	if want := []string{"copy-a/8", "copy-b/8", "copy-a/12"}; !reflect.DeepEqual(sink.ensured, want) {
		t.Errorf("ensured %v, want %v", sink.ensured, want)
	}
	for _, w := range []struct {
		topic     string
		partition int32
		records   int
	}{{"copy-a", 0, 2}, {"copy-b", 1, 1}, {"copy-a", 2, 1}, {"copy-b", 3, 1}, {"copy-a", 8, 1}} {
		if got := len(sink.records(t, w.topic, w.partition)); got != w.records {
			t.Errorf("%s/%d has %d records", w.topic, w.partition, got)
		}
	}
	r.stop()
}

func TestRouteThatFails(t *testing.T) {
	denied := &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitUsage, Op: "create topic", Err: errors.New("denied")}
	for _, row := range []struct {
		topic   func(string) (string, error)
		sink    *fakeSink
		message string
		exit    semantics.ExitCode
	}{
		{func(string) (string, error) { return "", errors.New("bad template") }, &fakeSink{}, "bad template", semantics.ExitUsage},
		{func(string) (string, error) { return "", nil }, &fakeSink{}, "is empty", semantics.ExitUsage},
		{func(string) (string, error) { return "out", nil }, &fakeSink{missing: map[string]error{"out": denied}}, "denied", semantics.ExitUsage},
		{func(string) (string, error) { return "out", nil }, &fakeSink{topic: batch.SinkTopic{Partitions: 3}}, `"out": it has 3`, 0},
		{func(string) (string, error) { return "out", nil }, &fakeSink{topic: batch.SinkTopic{Compression: "middle-out"}}, "middle-out", semantics.ExitUsage},
	} {
		cfg := mapConfig{sink: sinkOptions()}
		cfg.sink.Topic = row.topic
		r := startTask(t, 1, cfg, row.sink, nil)
		r.send(fromSource(t, "in", 0, encodeSource(t, 0, batch.None, consecutive(text("k", "v")), nil)))
		err := r.failure()
		var e *semantics.Error
		if err == nil || !strings.Contains(err.Error(), row.message) || !strings.Contains(err.Error(), `"in"`) && !strings.Contains(err.Error(), `"out"`) {
			t.Errorf("%v, want %q", err, row.message)
		}
		if row.exit != 0 && (!errors.As(err, &e) || e.Exit != row.exit) {
			t.Errorf("%v: exit code", err)
		}
		if len(row.sink.taken()) != 0 {
			t.Error("written")
		}
	}
}

// kgo's default partitioner is the second implementation.
func TestPartitionByKey(t *testing.T) {
	const partitions = 7
	theirs := kgo.StickyKeyPartitioner(nil).ForTopic("out")
	cfg := mapConfig{sink: sinkOptions()}
	cfg.sink.PartitionByKey = true
	sink := &fakeSink{topic: batch.SinkTopic{Partitions: partitions}}
	r := startTask(t, 1, cfg, sink, nil)
	want := map[int32][]plain{}
	for from := range int32(3) {
		var records []plain
		for i := range 200 {
			rec := text(fmt.Sprintf("key-%d-%d", from, i*i), fmt.Sprintf("%d/%d", from, i))
			p := from * 5 % partitions
			switch i % 5 {
			case 0:
				rec.Key = nil
			case 1:
				rec.Key = []byte{}
			}
			if rec.Key != nil {
				p = int32(theirs.Partition(&kgo.Record{Key: rec.Key}, partitions))
			}
			records = append(records, rec)
			want[p] = append(want[p], rec)
		}
		b := fromSource(t, "in", from*5, encodeSource(t, 0, batch.Zstd, consecutive(records...), nil))
		b.partitions = 16 // more than the sink has
		r.send(b)
	}
	r.barrier(1)
	// Negative: the topic is not to get more partitions than it has.
	if fmt.Sprint(sink.ensured) != "[out/-16]" {
		t.Errorf("ensured %v", sink.ensured)
	}
	for p := range int32(partitions) {
		same(t, sink.records(t, "out", p), want[p])
	}
	r.stop()
}

// Two source topics with one sink topic share its partitions, and none of their batches overtakes its own partition's.
func TestTopicsThatShareASink(t *testing.T) {
	sink := &fakeSink{}
	r := startTask(t, 1, mapConfig{maps: chainOf("headers"), registry: Maps()}, sink, nil)
	for i := range 5 {
		for _, topic := range []string{"a", "b"} {
			r.send(fromSource(t, topic, 1, encodeSource(t, int64(i), batch.None, consecutive(text("k", fmt.Sprint(topic, i))), nil)))
		}
	}
	r.barrier(1)
	if got := sink.values(t, 1); got != "a0 b0 a1 b1 a2 b2 a3 b3 a4 b4" {
		t.Errorf("%q", got)
	}
	w := sink.taken()
	if len(w) != 1 || w[0].SourceTopic != "a" || w[0].FirstOffset != 0 || w[0].LastOffset != 4 {
		t.Errorf("%d batches, %+v", len(w), w[0].Outbound)
	}
	r.stop()
}
