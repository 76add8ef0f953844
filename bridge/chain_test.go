package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// mapFunc is a Map without state.
type mapFunc func(r *Record, emit func(*Record) error) error

func (f mapFunc) Map(r *Record, emit func(*Record) error) error { return f(r, emit) }

// kind registers f.
func kind(f mapFunc) Factory { return func(any) (Map, error) { return f, nil } }

// counter numbers the records of its partition from 1, across runs.
type counter struct {
	n    uint64
	buf  [8]byte // Snapshot and Restore use it again: whoever keeps it without a copy sees it change
	text []byte
}

func (c *counter) Map(r *Record, emit func(*Record) error) error {
	c.n++
	binary.BigEndian.PutUint64(c.buf[:], c.n)
	c.text = fmt.Appendf(c.text[:0], "%s#%d", r.Value, c.n)
	r.Value = c.text
	return emit(r)
}

func (c *counter) Snapshot() ([]byte, error) {
	binary.BigEndian.PutUint64(c.buf[:], c.n)
	return c.buf[:], nil
}

func (c *counter) Restore(state []byte) error {
	if len(state) != 8 {
		return fmt.Errorf("%d bytes", len(state))
	}
	c.n = binary.BigEndian.Uint64(state)
	clear(state) // allowed: it is a copy
	return nil
}

func testRegistry() Registry {
	r := Maps()
	r["count"] = func(any) (Map, error) { return &counter{}, nil }
	r["drop-odd"] = kind(func(r *Record, emit func(*Record) error) error {
		if r.Offset%2 == 1 {
			return nil
		}
		return emit(r)
	})
	r["thrice"] = kind(func(r *Record, emit func(*Record) error) error {
		value := string(r.Value)
		for i := range 3 {
			if err := emit(&Record{Value: fmt.Appendf(nil, "%s.%d", value, i), Timestamp: r.Timestamp + int64(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	return r
}

func chainOf(kinds ...string) []MapOptions {
	var out []MapOptions
	for _, k := range kinds {
		o := MapOptions{Kind: k}
		if k == "headers" {
			o.Settings = HeadersOptions{Set: map[string]string{"h": "1"}}
		}
		out = append(out, o)
	}
	return out
}

func runChain(t *testing.T, registry Registry, kinds ...string) (*rig, *fakeSink) {
	t.Helper()
	sink := &fakeSink{}
	return startTask(t, 1, mapConfig{maps: chainOf(kinds...), registry: registry}, sink, nil), sink
}

func TestChainDropsAndMultipliesInOrder(t *testing.T) {
	r, sink := runChain(t, testRegistry(), "drop-odd", "thrice", "count", "headers")
	records := consecutive(text("k", "a"), text("k", "b"), text("k", "c"))
	r.send(fromSource(t, "in", 1, encodeSource(t, 10, batch.Lz4, records, nil)))
	r.barrier(1)
	var want []plain
	for i, v := range []string{"a.0#1", "a.1#2", "a.2#3", "c.0#4", "c.1#5", "c.2#6"} {
		want = append(want, plain{Value: []byte(v), Timestamp: 1_700_000_000_000 + int64(i%3), Headers: []kmsg.Header{{Key: "h", Value: []byte("1")}}})
	}
	same(t, sink.records(t, "out", 1), want)
	if s := r.task.stats(); s.RecordsIn != 3 || s.RecordsDropped != 1 || s.RecordsOut != 6 || s.Reencoded["map"] != 1 {
		t.Errorf("%+v", s)
	}
	r.stop()
}

// The first of two maps changes and emits its record twice; neither the other's changes nor its own of before shine through.
func TestEachMapHasItsOwnRecord(t *testing.T) {
	registry := testRegistry()
	registry["twice"] = kind(func(r *Record, emit func(*Record) error) error {
		r.Offset, r.Topic = 999, "elsewhere" // not a map's to say
		if err := emit(r); err != nil {
			return err
		}
		if string(r.Key) != "k" || len(r.Value) != 1 {
			return fmt.Errorf("the next map changed my record: %q %q", r.Key, r.Value)
		}
		return emit(r)
	})
	registry["spoil"] = kind(func(r *Record, emit func(*Record) error) error {
		r.Key, r.Value = nil, fmt.Appendf(nil, "%s %s/%d@%d %s", r.Source, r.Topic, r.Partition, r.Offset, r.Value)
		return emit(r)
	})
	r, sink := runChain(t, registry, "thrice", "spoil")
	r.send(fromSource(t, "in", 1, encodeSource(t, 10, batch.None, consecutive(text("k", "a")), nil)))
	r.barrier(1)
	// A record that a map makes from nothing still says where it comes from.
	if got := sink.values(t, 1); got != "src in/1@10 a.0 src in/1@10 a.1 src in/1@10 a.2" {
		t.Errorf("%q", got)
	}
	r.stop()
	r, sink = runChain(t, registry, "twice", "spoil")
	r.send(fromSource(t, "in", 1, encodeSource(t, 10, batch.None, consecutive(text("k", "a")), nil)))
	r.barrier(1)
	w := sink.taken()
	if got := sink.values(t, 1); got != "src in/1@10 a src in/1@10 a" || w[0].SourceTopic != "in" || w[0].FirstOffset != 10 {
		t.Errorf("%q %+v", got, w[0].Outbound)
	}
	r.stop()
}

func TestMapErrorNamesTheRecord(t *testing.T) {
	registry := testRegistry()
	boom := errors.New("boom")
	registry["fail"] = kind(func(r *Record, emit func(*Record) error) error { r.Offset = 999; return boom })
	// Neither the error of a later map nor that of the sink is this one's to hide.
	registry["swallow"] = kind(func(r *Record, emit func(*Record) error) error { _ = emit(r); _ = emit(r); return nil })
	registry["reword"] = kind(func(r *Record, emit func(*Record) error) error {
		if emit(r) != nil {
			return errors.New("reworded")
		}
		return nil
	})
	// A record that could not be written must not be followed by one that can.
	registry["smaller"] = kind(func(r *Record, emit func(*Record) error) error {
		_ = emit(r)
		_ = emit(&Record{})
		return nil
	})
	for _, kinds := range [][]string{{"headers", "fail"}, {"swallow", "fail"}, {"reword", "fail"}} {
		r, sink := runChain(t, registry, kinds...)
		r.send(fromSource(t, "in", 1, encodeSource(t, 10, batch.None, consecutive(text("k", "a")), nil)))
		err := r.failure()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Class != semantics.Fatal || e.Exit != semantics.ExitRefused || !errors.Is(err, boom) {
			t.Fatalf("%v: %v", kinds, err)
		}
		for _, part := range []string{`map 2 "fail"`, "topic in partition 1 offset 10", "boom"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: %q is missing in: %v", kinds, part, err)
			}
		}
		if len(sink.taken()) != 0 {
			t.Errorf("%v: written", kinds)
		}
	}
	for _, kinds := range [][]string{{"swallow"}, {"reword"}, {"smaller"}} {
		sink := &fakeSink{missing: map[string]error{}, topic: batch.SinkTopic{MaxMessageBytes: 110}}
		r := startTask(t, 1, mapConfig{maps: chainOf(kinds...), registry: registry}, sink, nil)
		r.send(fromSource(t, "in", 1, encodeSource(t, 10, batch.None, consecutive(text("key", strings.Repeat("long", 20))), nil)))
		if err := r.failure(); err == nil || !strings.Contains(err.Error(), "max.message.bytes") || strings.Contains(err.Error(), "swallow") {
			t.Errorf("%v: the sink's error was lost: %v", kinds, err)
		}
	}
}

func TestMapsThatCannotBeMade(t *testing.T) {
	registry := testRegistry()
	registry["broken"] = func(any) (Map, error) { return nil, errors.New("bad settings") }
	registry["nothing"] = func(any) (Map, error) { return nil, nil }
	for kind, part := range map[string]string{"broken": "bad settings", "nothing": "made nothing", "who": `unknown kind "who"`} {
		r, _ := runChain(t, registry, "count", kind)
		r.send(fromSource(t, "in", 1, encodeSource(t, 10, batch.None, consecutive(text("k", "a")), nil)))
		err := r.failure()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitUsage || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), "map 2") {
			t.Errorf("%v, want %q", err, part)
		}
	}
	if errs := checkMaps(chainOf("who", "count", "broken"), registry); len(errs) != 2 {
		t.Errorf("%v", errs)
	}
}

// runGeneration runs the given number of map tasks over one batch per partition and returns the whole state.
func runGeneration(t *testing.T, sink *fakeSink, tasks int, state map[string][]byte, offset int64, partitions ...int32) map[string][]byte {
	t.Helper()
	given := maps.Clone(state)
	for k := range given {
		given[k] = slices.Clone(given[k])
	}
	whole := map[string][]byte{}
	for i := range tasks {
		cfg := mapConfig{tasks: tasks, maps: chainOf("headers", "count", "count"), registry: testRegistry()}
		r := startTaskAt(t, i, 1, cfg, sink, state)
		for _, p := range partitions {
			if assign("src", "in", p, tasks) == i {
				r.send(fromSource(t, "in", p, encodeSource(t, offset, batch.None, consecutive(text("k", "v"), text("k", "v")), nil)))
			}
		}
		a := r.barrier(1)
		saved := map[string]string{}
		for k, b := range a.state {
			if _, ok := whole[k]; ok {
				t.Errorf("two tasks keep %q", k)
			}
			whole[k] = b
			saved[k] = string(b)
		}
		r.resume <- 2
		// The checkpoint is saved while the next epoch fills: it must not see that.
		for _, p := range partitions {
			if assign("src", "in", p, tasks) == i {
				r.send(fromSource(t, "in", p, encodeSource(t, offset+2, batch.None, consecutive(text("k", "aborted")), nil)))
			}
		}
		r.barrier(2)
		for k, b := range a.state {
			if string(b) != saved[k] {
				t.Errorf("the state of %q changed behind the checkpoint's back", k)
			}
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	}
	for k := range given {
		if string(given[k]) != string(state[k]) {
			t.Errorf("the restored state of %q was written to", k)
		}
	}
	return whole
}

func TestStateSurvivesRunsAndOtherNumbersOfWorkers(t *testing.T) {
	sink := &fakeSink{}
	state := map[string][]byte{"not a key of ours": []byte("kept"), "0/gone/src/in/1": []byte("kept too"), "1/count/old-source/t/0": []byte("and this")}
	foreign := maps.Clone(state)
	state = runGeneration(t, sink, 2, state, 0, 0, 1, 2, 3, 4)
	state = runGeneration(t, sink, 3, state, 2, 0, 2) // 1, 3 and 4 without a record
	state = runGeneration(t, sink, 3, state, 4)       // nobody has one
	state = runGeneration(t, sink, 1, state, 4, 0, 1, 2, 3, 4)
	state = runGeneration(t, sink, 5, state, 6, 4)
	for k, b := range foreign {
		if string(state[k]) != string(b) {
			t.Errorf("%q is lost", k)
		}
	}
	if len(state) != len(foreign)+2*5 {
		t.Errorf("%d keys: %v", len(state), slices.Sorted(maps.Keys(state)))
	}
	for p, want := range map[int32]string{
		0: "v#1#1 v#2#2 v#3#3 v#4#4 v#5#5 v#6#6",
		1: "v#1#1 v#2#2 v#3#3 v#4#4",
		4: "v#1#1 v#2#2 v#3#3 v#4#4 v#5#5 v#6#6",
	} {
		var got []string
		for _, v := range strings.Fields(sink.values(t, p)) {
			if !strings.HasPrefix(v, "aborted") {
				got = append(got, v)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("partition %d: %v, want %v", p, got, want)
		}
	}
}

func TestRestoreThatFailsIsRefused(t *testing.T) {
	sink := &fakeSink{}
	r := startTask(t, 1, mapConfig{maps: chainOf("count"), registry: testRegistry()}, sink, map[string][]byte{"0/count/src/in/1": []byte("x")})
	r.send(fromSource(t, "in", 1, encodeSource(t, 10, batch.None, consecutive(text("k", "a")), nil)))
	var e *semantics.Error
	if err := r.failure(); !errors.As(err, &e) || e.Exit != semantics.ExitRefused || !strings.Contains(err.Error(), "1 bytes") || len(sink.taken()) != 0 {
		t.Error(err)
	}
}

func TestStateKeysAreUnambiguous(t *testing.T) {
	seen := map[string]stateKey{}
	parts := []string{"a", "b", "a/b", "a%2Fb", "", "ü/", "%", "a b"}
	for _, k := range parts {
		for _, s := range parts {
			for _, topic := range parts {
				for _, n := range []int32{0, 1, 11} {
					key := stateKey{position: int(n), kind: k, source: s, topic: topic, partition: n}
					text := key.String()
					if other, ok := seen[text]; ok {
						t.Fatalf("%q stands for %+v and %+v", text, key, other)
					}
					seen[text] = key
					if back, ok := parseStateKey(text); !ok || back != key {
						t.Fatalf("%q gives %+v %t, want %+v", text, back, ok, key)
					}
				}
			}
		}
	}
	for _, text := range []string{"", "0/a/b/c", "0/a/b/c/d", "0/a/b/c/0/1", "+1/a/b/c/0", "01/a/b/c/0", "0/%zz/b/c/0", "0/%61/b/c/0", "0/a/b/c/99999999999"} {
		if k, ok := parseStateKey(text); ok {
			t.Errorf("%q was taken for %+v", text, k)
		}
	}
	// Durable: a change of it loses the state of every bridge that runs.
	if got := (stateKey{position: 2, kind: "count", source: "east", topic: "orders/x", partition: 7}).String(); got != "2/count/east/orders%2Fx/7" {
		t.Error(got)
	}
}

// TestDroppedByMap: each map is charged with the records that it let vanish itself, once.
func TestDroppedByMap(t *testing.T) {
	every := func(n int64) Factory {
		return func(any) (Map, error) {
			return mapFunc(func(r *Record, emit func(*Record) error) error {
				if r.Offset%n == 0 {
					return nil
				}
				return emit(r)
			}), nil
		}
	}
	dropped := make([]int64, 2)
	c, err := newChain(partitionKey{}, []MapOptions{{Kind: "even"}, {Kind: "third"}}, Registry{"even": every(2), "third": every(3)}, dropped, func(*Record) {})
	if err != nil {
		t.Fatal(err)
	}
	for offset := range int64(12) {
		if err := c.run(&batch.Record{Offset: offset}); err != nil {
			t.Fatal(err)
		}
	}
	if dropped[0] != 6 || dropped[1] != 2 { // 0 2 4 6 8 10, then 3 and 9 of what is left
		t.Errorf("dropped %v, want [6 2]", dropped)
	}
}
