package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
)

// whole decides for whole batches what decide says, and does the same record by record.
type whole struct {
	decide func(c Common) (Decision, bool, error)
	seen   *int // records
}

func (w whole) Batch(c Common) (Decision, bool, error) { return w.decide(c) }

func (w whole) Map(r *Record, emit func(*Record) error) error {
	*w.seen++
	d, _, err := w.decide(Common{Source: r.Source, Topic: r.Topic, Partition: r.Partition, Timestamp: r.Timestamp, SameTimestamp: true})
	if err != nil || d.Drop {
		return err
	}
	if d.SinkTopic != "" {
		r.SinkTopic = d.SinkTopic
	}
	return emit(r)
}

// TestBatchMap: a chain that decides by what a batch has in common does not decode it; one that cannot gives the same records.
func TestBatchMap(t *testing.T) {
	keep := func(Common) (Decision, bool, error) { return Decision{}, true, nil }
	drop := func(Common) (Decision, bool, error) { return Decision{Drop: true}, true, nil }
	open := func(Common) (Decision, bool, error) { return Decision{}, false, nil }
	route := func(c Common) (Decision, bool, error) {
		return Decision{SinkTopic: fmt.Sprintf("%s-%d", c.Topic, c.Partition)}, true, nil
	}
	fails := func(Common) (Decision, bool, error) { return Decision{}, false, errors.New("no") }
	old := func(c Common) (Decision, bool, error) {
		return Decision{Drop: c.Timestamp < 1_500_000_000_000}, c.SameTimestamp, nil
	}
	appendTime := func(ms int64) func(*kmsg.RecordBatch) {
		return func(b *kmsg.RecordBatch) { b.Attributes |= 8; b.MaxTimestamp = ms }
	}
	type decides = func(Common) (Decision, bool, error)
	for name, row := range map[string]struct {
		chain     []decides
		edit      func(*kmsg.RecordBatch)
		topic     string
		untouched int64
		reason    string
		dropped   map[string]int64
		seen      int
		dead      int
	}{
		"kept":                {chain: []decides{keep, keep}, topic: "out", untouched: 1},
		"dropped":             {chain: []decides{keep, drop, open}, dropped: map[string]int64{"whole1": 3}},
		"routed":              {chain: []decides{route, keep}, topic: "in-2", untouched: 1},
		"undecided":           {chain: []decides{keep, open}, topic: "out", reason: "map", seen: 6},
		"undecided and drops": {chain: []decides{open, drop}, reason: "map", dropped: map[string]int64{"whole1": 3}, seen: 6},
		"stamped and old":     {chain: []decides{old}, edit: appendTime(1_400_000_000_000), dropped: map[string]int64{"whole0": 3}},
		"stamped and new":     {chain: []decides{old}, edit: appendTime(1_600_000_000_000), topic: "out", reason: "log_append_time", seen: 3},
		"not stamped":         {chain: []decides{old}, topic: "out", reason: "map", seen: 3},
		"error":               {chain: []decides{keep, fails}, reason: "map", seen: 6, dead: 3},
	} {
		t.Run(name, func(t *testing.T) {
			sink := small()
			seen := 0
			cfg := deadly()
			for i, d := range row.chain {
				kind := fmt.Sprint("whole", i)
				cfg.registry[kind] = func(any) (Map, error) { return whole{d, &seen}, nil }
				cfg.maps = append(cfg.maps, MapOptions{Kind: kind, OnError: DeadLetter})
			}
			r := startTask(t, 1, cfg, sink, nil)
			raw := encodeSource(t, 0, batch.Lz4, consecutive(text("k", "a"), text("k", "b"), text("k", "c")), row.edit)
			original := bytes.Clone(raw)
			r.send(fromSource(t, "in", 2, raw))
			r.barrier(1)
			s := r.task.stats()
			if s.Untouched != row.untouched || s.Reencoded[row.reason] != int64(min(len(row.reason), 1)) || !maps.Equal(s.DroppedBy, row.dropped) || s.RecordsDropped != row.dropped["whole0"]+row.dropped["whole1"] {
				t.Errorf("%+v", s)
			}
			if seen != row.seen || s.DeadLetters != int64(row.dead) {
				t.Errorf("%d calls of Map, want %d; %d dead letters", seen, row.seen, s.DeadLetters)
			}
			for _, w := range sink.taken() {
				if row.untouched == 1 && (!bytes.Equal(w.raw, original) || w.Topic != row.topic || w.Partition != 2) {
					t.Errorf("%s/%d, or other bytes", w.Topic, w.Partition)
				}
			}
			if row.topic != "" {
				if got := values(sink.records(t, row.topic, 2)); !slices.Equal(got, []string{"a", "b", "c"}) {
					t.Errorf("%s: %q", row.topic, got)
				}
			}
			r.stop()
		})
	}
}

// TestBatchMapRoutesToATopicThatIsNotThere: each record of the batch is a dead letter.
func TestBatchMapRoutesToATopicThatIsNotThere(t *testing.T) {
	sink := small()
	cfg := deadly("whole")
	cfg.registry["whole"] = func(any) (Map, error) {
		return whole{func(Common) (Decision, bool, error) { return Decision{SinkTopic: "b a d"}, true, nil }, new(int)}, nil
	}
	r := startTask(t, 1, cfg, sink, nil)
	send(t, r, "in", 2, 0, "a", "b")
	r.barrier(1)
	if got := values(sink.records(t, "dead", 2)); !slices.Equal(got, []string{"a", "b"}) || r.task.stats().Rejected != 2 {
		t.Errorf("%q", got)
	}
	r.stop()
}

// TestParsedBelongsToItsValue: what a map made of the value is gone when the next map gets another one.
func TestParsedBelongsToItsValue(t *testing.T) {
	var got []any
	cfg := deadly("parse", "next")
	own := make([]byte, 1)
	cfg.registry["parse"] = kind(func(r *Record, emit func(*Record) error) error {
		if r.Parsed != nil {
			return errors.New("parsed already")
		}
		r.Parsed = "of " + string(r.Value)
		if err := emit(r); err != nil { // the same value
			return err
		}
		copied := &Record{Value: r.Value, Parsed: r.Parsed}
		if err := emit(copied); err != nil { // still the same
			return err
		}
		for _, v := range []byte{'x', 'y'} { // its own memory, used twice
			own[0] = v
			r.Value = own
			if err := emit(r); err != nil {
				return err
			}
		}
		r.Value = nil
		return emit(r)
	})
	cfg.registry["next"] = kind(func(r *Record, emit func(*Record) error) error {
		got = append(got, string(r.Value), r.Parsed)
		return emit(r)
	})
	sink := small()
	r := startTask(t, 1, cfg, sink, nil)
	send(t, r, "in", 0, 0, "a")
	r.barrier(1)
	if want := []any{"a", "of a", "a", "of a", "x", nil, "y", nil, "", nil}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// A map uses its memory again, and each output keeps what it was.
	if got := values(sink.records(t, "out", 0)); !slices.Equal(got, []string{"a", "a", "x", "y", ""}) {
		t.Errorf("%q", got)
	}
	r.stop()
}

// TestRoutedRecordsKeepTheirOrder: to topics of their own, with the source's partition numbers, and by key.
func TestRoutedRecordsKeepTheirOrder(t *testing.T) {
	for _, byKey := range []bool{false, true} {
		sink := small()
		sink.topics["one"], sink.topics["two"] = batch.SinkTopic{Partitions: 9}, batch.SinkTopic{Partitions: 9}
		cfg := deadly("picky")
		cfg.sink.PartitionByKey = byKey
		r := startTask(t, 1, cfg, sink, nil)
		for i := range int64(50) {
			send(t, r, "in", 3, i*4, "to one", "to two", "plain", "to one")
		}
		r.barrier(1)
		p := int32(3)
		if byKey {
			p = batch.PartitionForKey([]byte("k"), 9)
		}
		if a, b := len(sink.records(t, "one", p)), len(sink.records(t, "two", p)); a != 100 || b != 50 {
			t.Errorf("%d and %d records", a, b)
		}
		last := map[string]int64{}
		for _, w := range sink.taken() {
			if w.FirstOffset < last[w.Topic] {
				t.Errorf("%s: offset %d after %d", w.Topic, w.FirstOffset, last[w.Topic])
			}
			last[w.Topic] = w.LastOffset
		}
		want := "one/8"
		if byKey {
			want = "one/-8"
		}
		if !slices.Contains(sink.ensured, want) {
			t.Errorf("ensured %v", sink.ensured)
		}
		r.stop()
	}
}

// TestHeadersAreKept: a map that makes headers in memory of its own, and uses it for the next output.
func TestHeadersAreKept(t *testing.T) {
	cfg := deadly("numbers")
	var buf batch.HeadersBuffer
	cfg.registry["numbers"] = kind(func(r *Record, emit func(*Record) error) error {
		for _, v := range []string{"1", "2"} {
			buf.Reset()
			buf.Add([]byte("h"), []byte(v))
			r.Headers = buf.Headers()
			if err := emit(r); err != nil {
				return err
			}
		}
		return nil
	})
	sink := small()
	r := startTask(t, 1, cfg, sink, nil)
	send(t, r, "in", 0, 0, "a")
	r.barrier(1)
	want := []plain{text("k", "a"), text("k", "a")}
	want[0].Headers, want[1].Headers = []kmsg.Header{{Key: "h", Value: []byte("1")}}, []kmsg.Header{{Key: "h", Value: []byte("2")}}
	same(t, sink.records(t, "out", 0), want)
	r.stop()
}
