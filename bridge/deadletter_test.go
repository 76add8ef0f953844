package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// picky does what the value says, so that a test can write down what becomes of each record.
func picky(r *Record, emit func(*Record) error) error {
	switch v := string(r.Value); {
	case strings.HasPrefix(v, "fail"):
		return fmt.Errorf("I do not like %q", v)
	case strings.HasPrefix(v, "half"): // one output, then a failure
		if err := emit(r); err != nil {
			return err
		}
		return errors.New("half way")
	case strings.HasPrefix(v, "drop"):
		return nil
	case strings.HasPrefix(v, "to "):
		_, r.SinkTopic, _ = strings.Cut(v, " ")
	case strings.HasPrefix(v, "twin"): // an output that the sink takes, and one that is too large
		if err := emit(r); err != nil {
			return err
		}
		r.Value = noise(1 << 20)
	case strings.HasPrefix(v, "large"):
		r.Value = noise(1 << 20)
	case strings.HasPrefix(v, "nokey"):
		r.Key = nil
	case strings.HasPrefix(v, "ts "):
		fmt.Sscan(v[3:], &r.Timestamp)
	}
	return emit(r)
}

// noise does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func pickyRegistry() Registry {
	r := testRegistry()
	r["picky"] = kind(picky)
	return r
}

// deadly is a configuration with a dead letter topic that everything goes to.
func deadly(kinds ...string) mapConfig {
	cfg := mapConfig{sink: sinkOptions(), maps: chainOf(kinds...), registry: pickyRegistry(), partitions: 8}
	cfg.sink.OnReject, cfg.sink.DeadLetterTopic = DeadLetter, "dead"
	for i := range cfg.maps {
		cfg.maps[i].OnError = DeadLetter
	}
	return cfg
}

// small is a sink topic of 100 KiB beside a dead letter topic that takes everything.
func small() *fakeSink {
	return &fakeSink{topic: batch.SinkTopic{MaxMessageBytes: 100 << 10}, topics: map[string]batch.SinkTopic{"dead": {Partitions: 3, MaxMessageBytes: 100 << 20}}}
}

func values(records []plain) (out []string) {
	for _, r := range records {
		out = append(out, fmt.Sprintf("%.20s", r.Value))
	}
	return out
}

// headersOf are a dead letter's, by key, without those of the record itself.
func headersOf(r plain) map[string]string {
	out := map[string]string{}
	for _, h := range r.Headers {
		if strings.HasPrefix(h.Key, "bridge.") {
			out[h.Key] = string(h.Value)
		}
	}
	return out
}

func send(t *testing.T, r *rig, topic string, partition int32, first int64, values ...string) {
	t.Helper()
	var records []plain
	for _, v := range values {
		records = append(records, text("k", v))
	}
	r.send(fromSource(t, topic, partition, encodeSource(t, first, batch.Lz4, consecutive(records...), nil)))
}

// TestDeadLetterIsTheSourceRecord: byte for byte, with the headers that say where it comes from and why; its neighbours go on.
func TestDeadLetterIsTheSourceRecord(t *testing.T) {
	sink := small()
	cfg := deadly("headers", "picky")
	r := startTask(t, 1, cfg, sink, nil)
	bad := plain{Key: []byte{0xff, 0}, Value: []byte("fail \xff"), Timestamp: 1_600_000_000_123,
		Headers: []kmsg.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "bridge.topic", Value: []byte("mine")}}}
	r.send(fromSource(t, "in", 7, encodeSource(t, 40, batch.Zstd, consecutive(text("k", "one"), bad, text("k", "two")), nil)))
	r.barrier(1)
	if got := values(sink.records(t, "out", 7)); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("sink %q", got)
	}
	dead := sink.records(t, "dead", 1) // 7 modulo 3
	if len(dead) != 1 {
		t.Fatalf("%d dead letters", len(dead))
	}
	want := bad
	want.Headers = append(slices.Clone(bad.Headers), kmsg.Header{Key: "bridge.source", Value: []byte("src")}, kmsg.Header{Key: "bridge.topic", Value: []byte("in")},
		kmsg.Header{Key: "bridge.partition", Value: []byte("7")}, kmsg.Header{Key: "bridge.offset", Value: []byte("41")},
		kmsg.Header{Key: "bridge.timestamp", Value: []byte("1600000000123")}, kmsg.Header{Key: "bridge.map", Value: []byte("2 picky")},
		kmsg.Header{Key: "bridge.error", Value: []byte(`I do not like "fail \xff"`)})
	same(t, dead, []plain{want})
	s := r.task.stats()
	if s.DeadLetters != 1 || s.Rejected != 0 || s.RecordsDropped != 0 || len(s.DroppedBy) != 0 || !reflect.DeepEqual(s.MapErrors, map[string]map[Policy]int64{"picky": {"dead_letter": 1}}) {
		t.Errorf("%+v", s)
	}
	if !slices.Contains(sink.ensured, "dead/-8") {
		t.Errorf("ensured %v", sink.ensured)
	}
	r.stop()
}

// TestAllOutputsOrNone: whatever a record has emitted before a map fails, or before the sink refuses another of its outputs, is not
// written, in whatever map of the chain that is.
func TestAllOutputsOrNone(t *testing.T) {
	sink := small()
	cfg := deadly("picky", "thrice", "late")
	cfg.registry["late"] = kind(func(r *Record, emit func(*Record) error) error {
		if string(r.Value) == "last.2" {
			return errors.New("at the third")
		}
		return emit(r)
	})
	cfg.maps[0].OnError = Skip
	r := startTask(t, 1, cfg, sink, nil)
	send(t, r, "in", 0, 0, "a", "half", "twin", "last", "drop", "b")
	r.barrier(1)
	if got := values(sink.records(t, "out", 0)); !slices.Equal(got, []string{"a.0", "a.1", "a.2", "b.0", "b.1", "b.2"}) {
		t.Errorf("sink %q", got)
	}
	dead := sink.records(t, "dead", 0)
	if got := values(dead); !slices.Equal(got, []string{"twin", "last"}) {
		t.Fatalf("dead letters %q", got)
	}
	if a, b := headersOf(dead[0]), headersOf(dead[1]); a["bridge.map"] != "sink" || !strings.Contains(a["bridge.error"], "102400") || b["bridge.map"] != "3 late" || b["bridge.offset"] != "3" {
		t.Errorf("%v %v", a, b)
	}
	s := r.task.stats()
	if s.DeadLetters != 2 || s.Rejected != 1 || s.RecordsDropped != 1 || !maps.Equal(s.DroppedBy, map[string]int64{"picky": 1}) ||
		!reflect.DeepEqual(s.MapErrors, map[string]map[Policy]int64{"picky": {"skip": 1}, "late": {"dead_letter": 1}}) {
		t.Errorf("%+v", s)
	}
	r.stop()
}

// TestErrorIsNotADropToo: a drop in front of the failure is not counted, since the record as a whole has failed.
func TestErrorIsNotADropToo(t *testing.T) {
	cfg := deadly("thrice", "picky")
	cfg.registry["thrice"] = kind(func(r *Record, emit func(*Record) error) error {
		for _, v := range []string{"drop", "x", "fail"} {
			if err := emit(&Record{Value: []byte(v)}); err != nil {
				return err
			}
		}
		return nil
	})
	r := startTask(t, 1, cfg, small(), nil)
	send(t, r, "in", 0, 0, "a", "b")
	r.barrier(1)
	if s := r.task.stats(); len(s.DroppedBy) != 0 || s.RecordsDropped != 0 || s.DeadLetters != 2 || s.RecordsOut != 2 {
		t.Errorf("%+v", s)
	}
	r.stop()
}

// TestPoliciesThatFail: exit code 3 with map, topic, partition, offset and reason.
func TestPoliciesThatFail(t *testing.T) {
	for value, want := range map[string][]string{
		"fail":     {`map 1 "picky"`, "topic in partition 2 offset 31", "I do not like", "on_error"},
		"half":     {`map 1 "picky"`, "topic in partition 2 offset 31", "half way"},
		"large":    {"topic in partition 2 offset 31", "102400", "on_reject"},
		"to b a d": {"topic in partition 2 offset 31", `"b a d"`, "on_reject"},
		"to gone":  {"topic in partition 2 offset 31", `"gone"`, "create it", "on_reject"},
		"to own":   {"topic in partition 2 offset 31", "round for ever"},
	} {
		cfg := deadly("picky")
		cfg.sink.OnReject, cfg.maps[0].OnError = Fail, ""
		cfg.barred = func(topic string) error {
			if topic == "own" {
				return errors.New("it would go round for ever")
			}
			return nil
		}
		sink := small()
		sink.missing = map[string]error{"gone": semantics.Misconfigured("ensure", "create it")}
		r := startTask(t, 1, cfg, sink, nil)
		send(t, r, "in", 2, 30, "ok", value)
		err := r.failure()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitRefused {
			t.Errorf("%s: %v", value, err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not say %q", value, err, w)
			}
		}
		if s := r.task.stats(); strings.HasPrefix(value, "fail") && s.MapErrors["picky"][Fail] != 1 {
			t.Errorf("%s: %+v", value, s)
		}
	}
}

// TestRejects: each kind that the map task can foresee, in order, without a refusal by a broker.
func TestRejects(t *testing.T) {
	day := int64(24 * 3600 * 1000)
	now := time.Now().UnixMilli()
	sink := small()
	sink.topics["keyed"] = batch.SinkTopic{Compacted: true}
	sink.topics["timely"] = batch.SinkTopic{MaxAge: day, MaxAhead: 3_600_000}
	sink.topics["stamped"] = batch.SinkTopic{MaxAge: day, MaxAhead: 3_600_000, LogAppendTime: true}
	sink.missing = map[string]error{"gone": semantics.Misconfigured("ensure", "not there")}
	cfg := deadly("route", "picky")
	cfg.barred = func(topic string) error {
		if topic == "ledger" {
			return errors.New("it is a ledger")
		}
		return nil
	}
	to := ""
	cfg.registry["route"] = kind(func(r *Record, emit func(*Record) error) error {
		r.SinkTopic = to
		return emit(r)
	})
	for _, row := range []struct {
		to, value, reason string
	}{
		{"", "large", "102400"},
		{"keyed", "nokey", "compacted"},
		{"keyed", "k", ""},
		{"timely", fmt.Sprint("ts ", now-3*day), "before.max.ms"},
		{"timely", fmt.Sprint("ts ", now+2*day), "after.max.ms"},
		{"timely", "ts 0", "before.max.ms"},
		{"timely", "ts -1", ""},                              // none
		{"timely", fmt.Sprint("ts ", now-day-3_600_000), ""}, // beyond the limit, but within what two clocks may differ: a broker decides
		{"timely", fmt.Sprint("ts ", now), ""},
		{"stamped", "ts 0", ""},
		{"", fmt.Sprint("ts ", int64(math.MaxInt64)), ""}, // no limit is known
		{"gone", "x", "not there"},
		{"ledger", "x", "ledger"},
		{"sl/ash", "x", "letters"},
		{"..", "x", ".."},
		{strings.Repeat("l", 250), "x", "249"},
	} {
		r := startTask(t, 1, cfg, sink, nil)
		to = row.to
		before := len(sink.records(t, "dead", 1))
		send(t, r, "in", 1, 5, row.value)
		r.barrier(1)
		dead := sink.records(t, "dead", 1)[before:]
		if row.reason == "" {
			if len(dead) != 0 || len(sink.records(t, cmpOr(row.to, "out"), 1)) == 0 {
				t.Errorf("%s to %q: %d dead letters", row.value, row.to, len(dead))
			}
		} else if len(dead) != 1 || !strings.Contains(headersOf(dead[0])["bridge.error"], row.reason) || headersOf(dead[0])["bridge.map"] != "sink" || string(dead[0].Value) != row.value {
			t.Errorf("%s to %.20q: %v, want %q", row.value, row.to, dead, row.reason)
		}
		if s := r.task.stats(); len(s.MapErrors) != 0 || s.Rejected != int64(len(dead)) {
			t.Errorf("%+v", s)
		}
		r.stop()
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// TestRetryableIsNoReject: what says nothing about the record must not bury it.
func TestRetryableIsNoReject(t *testing.T) {
	sink := small()
	sink.missing = map[string]error{"slow": &semantics.Error{Class: semantics.Retry, Op: "ensure", Err: errors.New("no answer")}}
	r := startTask(t, 1, deadly("picky"), sink, nil)
	send(t, r, "in", 1, 5, "to slow")
	if err := r.failure(); semantics.ClassOf(err) != semantics.Retry || len(sink.records(t, "dead", 1)) != 0 {
		t.Error(err)
	}
}

// TestTopicIsAskedForAgain: a topic that is made after it was refused is used.
func TestTopicIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := small()
		sink.missing = map[string]error{"later": semantics.Misconfigured("ensure", "not there")}
		r := startTask(t, 1, deadly("picky"), sink, nil)
		send(t, r, "in", 1, 0, "to later", "to later")
		r.barrier(1)
		r.resume <- 2
		sink.mu.Lock()
		asked := len(sink.ensured)
		sink.missing = nil
		sink.mu.Unlock()
		send(t, r, "in", 1, 2, "to later")
		time.Sleep(refusedNameFor)
		send(t, r, "in", 1, 3, "to later")
		r.barrier(2)
		if n, dead := len(sink.records(t, "later", 1)), len(sink.records(t, "dead", 1)); n != 1 || dead != 3 || asked != 3 {
			t.Errorf("%d records, %d dead letters, asked %d times (out, dead, later)", n, dead, asked)
		}
		r.stop()
	})
}

// TestDeadLetterThatIsRefused: there is nowhere left to go.
func TestDeadLetterThatIsRefused(t *testing.T) {
	huge := text("k", "large"+strings.Repeat("y", 4000))
	nokey := text("k", "fail")
	nokey.Key = nil
	for _, row := range []struct {
		record plain
		topic  batch.SinkTopic
		want   string
	}{
		{huge, batch.SinkTopic{MaxMessageBytes: 1000}, "more than the 1000"},
		{nokey, batch.SinkTopic{Compacted: true}, "takes no record without a key"},
	} {
		sink := small()
		sink.topics["dead"] = row.topic
		r := startTask(t, 1, deadly("picky"), sink, nil)
		r.send(fromSource(t, "in", 2, encodeSource(t, 30, batch.None, consecutive(row.record), nil)))
		err := r.failure()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitRefused || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), `"dead"`) ||
			!strings.Contains(err.Error(), "topic in partition 2 offset 30") {
			t.Error(err)
		}
	}
	sink := small()
	sink.missing = map[string]error{"dead": semantics.Misconfigured("ensure", "create it")}
	r := startTask(t, 1, deadly("picky"), sink, nil)
	send(t, r, "in", 2, 30, "ok") // found before it is needed
	if err := r.failure(); err == nil || !strings.Contains(err.Error(), `dead letter topic "dead"`) || len(sink.taken()) != 0 {
		t.Error(err)
	}
}

// TestTooLargeIsMeasuredCompressed: what the broker measures is the batch as it is sent.
func TestTooLargeIsMeasuredCompressed(t *testing.T) {
	sink := small()
	r := startTask(t, 1, deadly("headers"), sink, nil)
	r.send(fromSource(t, "in", 0, encodeSource(t, 0, batch.Lz4, consecutive(text("k", strings.Repeat("z", 1<<20))), nil)))
	r.barrier(1)
	if len(sink.records(t, "out", 0)) != 1 || r.task.stats().DeadLetters != 0 {
		t.Errorf("%+v", r.task.stats())
	}
	r.stop()
}

// TestStateKeepsFailedRecords: a map in front has seen the record, whatever becomes of it, so a replay comes to the same state.
func TestStateKeepsFailedRecords(t *testing.T) {
	sink := small()
	cfg := deadly("count", "fails")
	cfg.registry["fails"] = kind(func(r *Record, emit func(*Record) error) error {
		if strings.HasPrefix(string(r.Value), "b") {
			return errors.New("b")
		}
		return emit(r)
	})
	r := startTask(t, 1, cfg, sink, nil)
	send(t, r, "in", 1, 0, "a", "b", "c")
	a := r.barrier(1)
	if got := values(sink.records(t, "out", 1)); !slices.Equal(got, []string{"a#1", "c#3"}) {
		t.Errorf("%q", got)
	}
	if s := a.state["0/count/src/in/1"]; len(s) != 8 || s[7] != 3 {
		t.Errorf("state %v", a.state)
	}
	r.stop()
}

func TestBounded(t *testing.T) {
	for in, want := range map[string]string{"abc": "abc", "ab\xffc": "ab\uFFFDc"[:4], "äöü": "äö", "": ""} {
		if got := bounded(in, 4); !utf8.ValidString(got) || len(got) > 4 || want != "" && in != "ab\xffc" && got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	if got := bounded(strings.Repeat("\xff", 5000), errorLimit); len(got) > errorLimit || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
}

// TestJournal: the first record at once, then one line in ten seconds with the number of those in between.
func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		j := &journal{log: hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true})}
		p := &sourcePartition{partitionKey: partitionKey{source: "s", topic: "t", partition: 3}}
		for i := range int64(100) {
			j.note(p, i, Skip, "1 jq", strings.Repeat("why ", 1000))
		}
		time.Sleep(journalInterval)
		j.note(p, 100, DeadLetter, sinkMap, "too large")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines", len(lines))
		}
		for i, want := range [][]string{{`"offset":0`, `"topic":"t"`, `"partition":3`, "skipped", "1 jq"}, {`"offset":100`, `"more_since_the_last_line":99`, "dead letter", "too large"}} {
			for _, w := range want {
				if !strings.Contains(lines[i], w) || len(lines[i]) > 2*errorLimit {
					t.Errorf("%s does not say %s", lines[i], w)
				}
			}
		}
	})
}
