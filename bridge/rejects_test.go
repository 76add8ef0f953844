package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// broker refuses what a test says, as the Writer reports it, and keeps the rest.
type broker struct {
	*fakeSink
	judge func(w written) *batch.Refused // nil: taken
	sent  int                            // batches, in all runs
}

func (b *broker) Write(ctx context.Context, out batch.Outbound) error {
	b.sent++
	f := b.judge(written{out, slices.Clone(out.Raw)})
	if f == nil {
		return b.fakeSink.Write(ctx, out)
	}
	f.Topic, f.Partition, f.Bytes, f.Count, f.Origins = out.Topic, out.Partition, len(out.Raw), out.Records, out.Origins
	if f.Err == nil {
		f.Err = errors.New("the broker's words")
	}
	out.Release()
	return &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitRefused, Op: "produce", Err: f}
}

// replay runs a map task on the batches again and again, as a bridge does, until a run is not refused; what earlier runs wrote is
// thrown away with their transaction. It returns how many runs it took.
func replay(t *testing.T, cfg mapConfig, b *broker, rejects *rejects, batches func() []sourceBatch) (runs int, err error) {
	t.Helper()
	for runs = 1; ; runs++ {
		if runs > 40 {
			t.Fatal("it goes round for ever")
		}
		b.batches = nil
		cfg.noted, cfg.learned = rejects.notes()
		sink := b.fakeSink
		r := &rig{tb: t, sink: sink, aligned: make(chan alignment), resume: make(chan semantics.Epoch), result: make(chan error, 1)}
		r.task = newMapTask(0, withDefaults(cfg), &rejectWriter{Writer: b, rejects: rejects}, sink, nil, nullLog())
		c := make(chan delivery)
		r.in = []chan delivery{c}
		ctx, cancel := context.WithCancel(context.Background())
		r.cancel = cancel
		go func() { r.result <- r.task.run(ctx, []<-chan delivery{c}, r.aligned, r.resume) }()
		for _, sb := range batches() {
			if !r.send(sb) {
				break
			}
		}
		r.sendTo(0, delivery{barrier: 1})
		select {
		case <-r.aligned:
			return runs, r.stop()
		case err := <-r.result:
			r.cancel()
			if semantics.ClassOf(err) == semantics.Fatal {
				return runs, err
			}
		}
	}
}

// refuseRecords answers as a broker does: all bad records of a batch by their index.
func refuseRecords(t *testing.T, bad func(r plain) bool, with func(f *batch.Refused)) func(w written) *batch.Refused {
	return func(w written) *batch.Refused {
		_, records := decodeSink(t, w.raw)
		f := &batch.Refused{Why: batch.RefusedRecords}
		for i, r := range records {
			if w.Topic != "dead" && bad(r) {
				f.Records = append(f.Records, batch.RefusedRecord{Index: int32(i), NullKey: r.Key == nil, Reason: "bad record"})
			}
		}
		if f.Records == nil {
			return nil
		}
		if with != nil {
			with(f)
		}
		return f
	}
}

func hasPrefix(p string) func(plain) bool {
	return func(r plain) bool { return strings.HasPrefix(string(r.Value), p) }
}

// everyBad are batches of ten records in two partitions; every bad-th record's value begins with "bad".
func everyBad(t *testing.T, n, bad int) func() []sourceBatch {
	return func() (out []sourceBatch) {
		for first := 0; first < n; first += 10 {
			for p := range int32(2) {
				var records []plain
				for i := first; i < first+10; i++ {
					v := fmt.Sprint("ok ", i)
					if i%bad == 0 {
						v = fmt.Sprint("bad ", i)
					}
					records = append(records, text("k", v))
				}
				out = append(out, fromSource(t, "in", p, encodeSource(t, int64(first), batch.Lz4, consecutive(records...), nil)))
			}
		}
		return out
	}
}

func wantEveryBad(n, bad int) (good, dead []string) {
	for i := range n {
		if i%bad == 0 {
			dead = append(dead, fmt.Sprint("bad ", i))
		} else {
			good = append(good, fmt.Sprint("ok ", i))
		}
	}
	return good, dead
}

// TestRefusedRecordsAreDeadLetters: exactly the refused ones, in order, whether their batch was handed on or encoded, and also when the
// broker does not say which they are.
func TestRefusedRecordsAreDeadLetters(t *testing.T) {
	silent := func(f *batch.Refused) { f.Records = nil }
	for name, row := range map[string]struct {
		kinds []string
		with  func(f *batch.Refused)
		most  int // runs
	}{
		"untouched":          {nil, nil, 7},
		"encoded":            {[]string{"headers"}, nil, 3},
		"untouched, unnamed": {nil, silent, 13},
		"encoded, unnamed":   {[]string{"headers"}, silent, 13},
	} {
		t.Run(name, func(t *testing.T) {
			b := &broker{fakeSink: small(), judge: refuseRecords(t, hasPrefix("bad"), row.with)}
			rejects := newRejects()
			runs, err := replay(t, deadly(row.kinds...), b, rejects, everyBad(t, 30, 15))
			if err != nil || runs > row.most {
				t.Errorf("%d runs: %v", runs, err)
			}
			good, dead := wantEveryBad(30, 15)
			for p := range int32(2) {
				if got := values(b.records(t, "out", p)); !slices.Equal(got, good) {
					t.Errorf("partition %d of the sink: %q", p, got)
				}
				letters := b.records(t, "dead", p)
				if got := values(letters); !slices.Equal(got, dead) {
					t.Errorf("partition %d of the dead letters: %q", p, got)
				}
				for _, l := range letters {
					if h := headersOf(l); h["bridge.map"] != "sink" || h["bridge.error"] == "" {
						t.Errorf("%v", h)
					}
				}
			}
			// What is decided is forgotten, and nothing else.
			left := semantics.Positions{}
			left.Set(semantics.SourceTopic{Source: "src", Topic: "in"}, semantics.TopicID{}, 0, semantics.Position{Offset: 15})
			rejects.forget(left)
			notes, _ := rejects.notes()
			if n := notes[partitionKey{"src", "in", 0}]; n[0].reason != "" || n[15].reason == "" || notes[partitionKey{"src", "in", 1}][0].reason == "" {
				t.Errorf("%v", notes)
			}
		})
	}
}

// TestOtherOutputsOfARefusedRecord: an output that another topic would have taken goes with it.
func TestOtherOutputsOfARefusedRecord(t *testing.T) {
	b := &broker{fakeSink: small(), judge: refuseRecords(t, hasPrefix("bad"), nil)}
	cfg := deadly("both")
	cfg.registry["both"] = kind(func(r *Record, emit func(*Record) error) error {
		if err := emit(&Record{Value: []byte("copy of " + string(r.Value)), SinkTopic: "copies"}); err != nil {
			return err
		}
		return emit(r)
	})
	if runs, err := replay(t, cfg, b, newRejects(), everyBad(t, 20, 10)); err != nil || runs > 4 {
		t.Errorf("%d runs: %v", runs, err)
	}
	good, dead := wantEveryBad(20, 10)
	if got := values(b.records(t, "out", 0)); !slices.Equal(got, good) {
		t.Errorf("%q", got)
	}
	copies := values(b.records(t, "copies", 0))
	if len(copies) != len(good) || strings.Contains(fmt.Sprint(copies), "bad") {
		t.Errorf("%q", copies)
	}
	if got := values(b.records(t, "dead", 0)); !slices.Equal(got, dead) {
		t.Errorf("%q", got)
	}
}

// TestRangeOfTimestampsIsLearned: one refusal teaches what is refused at all, so a flood of such records costs one run, not one for
// each of their batches.
func TestRangeOfTimestampsIsLearned(t *testing.T) {
	now := time.Now().UnixMilli()
	late := func(r plain) bool { return r.Timestamp > now+3_600_000 || r.Timestamp < now-3_600_000 }
	b := &broker{fakeSink: small(), judge: refuseRecords(t, late, func(f *batch.Refused) {
		f.Earliest, f.Latest, f.HasRange = now-3_600_000, now+3_600_000, true
	})}
	batches := func() (out []sourceBatch) {
		for i := range int64(40) {
			fine, ahead, old := text("k", "fine"), text("k", "ahead"), text("k", "old")
			fine.Timestamp, ahead.Timestamp, old.Timestamp = now, now+7_200_000, now-7_200_000
			out = append(out, fromSource(t, "in", 0, encodeSource(t, i*3, batch.Lz4, consecutive(ahead, fine, old), nil)))
		}
		return out
	}
	runs, err := replay(t, deadly(), b, newRejects(), batches)
	if err != nil || runs != 2 {
		t.Errorf("%d runs: %v", runs, err)
	}
	if n, dead := len(b.records(t, "out", 0)), len(b.records(t, "dead", 0)); n != 40 || dead != 80 {
		t.Errorf("%d records, %d dead letters", n, dead)
	}
}

// TestMissingKeysAreLearned: settings that may not be read are found out by the first refusal.
func TestMissingKeysAreLearned(t *testing.T) {
	b := &broker{fakeSink: small(), judge: refuseRecords(t, func(r plain) bool { return r.Key == nil }, nil)}
	batches := func() (out []sourceBatch) {
		for i := range int64(40) {
			bad := text("", "bad")
			bad.Key = nil
			out = append(out, fromSource(t, "in", 0, encodeSource(t, i*2, batch.Lz4, consecutive(bad, text("k", "ok")), nil)))
		}
		return out
	}
	runs, err := replay(t, deadly(), b, newRejects(), batches)
	if err != nil || runs != 2 || len(b.records(t, "out", 0)) != 40 || len(b.records(t, "dead", 0)) != 40 {
		t.Errorf("%d runs, %v, %d records, %d dead letters", runs, err, len(b.records(t, "out", 0)), len(b.records(t, "dead", 0)))
	}
}

// TestSizeIsLearned: a topic that takes less than is known of it. Batches become smaller until it takes them; records that it takes
// in no batch are dead letters.
func TestSizeIsLearned(t *testing.T) {
	for _, kinds := range [][]string{nil, {"headers"}} {
		b := &broker{fakeSink: small(), judge: func(w written) *batch.Refused {
			if w.Topic == "out" && len(w.raw) > 2_000 {
				return &batch.Refused{Why: batch.RefusedSize}
			}
			return nil
		}}
		var want []string
		batches := func() (out []sourceBatch) {
			want = nil
			for i := range int64(20) {
				good, bad := string(noise(300)), string(noise(4000+int(i)))
				want = append(want, fmt.Sprintf("%.20s", good), fmt.Sprintf("%.20s", good))
				out = append(out, fromSource(t, "in", 0, encodeSource(t, i*3, batch.None, consecutive(text("k", good), text("k", bad), text("k", good)), nil)))
			}
			return out
		}
		runs, err := replay(t, deadly(kinds...), b, newRejects(), batches)
		if err != nil || runs > 15 {
			t.Errorf("%d runs: %v", runs, err)
		}
		if got := values(b.records(t, "out", 0)); !slices.Equal(got, want) {
			t.Errorf("%d records in the sink", len(got))
		}
		if n := len(b.records(t, "dead", 0)); n != 20 {
			t.Errorf("%d dead letters", n)
		}
	}
}

// TestRefusedTopic: one that a map named is that record's fault; the sink block's is the configuration's.
func TestRefusedTopic(t *testing.T) {
	refuse := func(topic string) func(w written) *batch.Refused {
		return func(w written) *batch.Refused {
			if w.Topic != topic {
				return nil
			}
			return &batch.Refused{Why: batch.RefusedTopic, Err: errors.New("not authorized")}
		}
	}
	batches := func() []sourceBatch {
		return []sourceBatch{fromSource(t, "in", 0, encodeSource(t, 0, batch.None, consecutive(text("k", "a"), text("k", "to secret"), text("k", "b")), nil))}
	}
	b := &broker{fakeSink: small(), judge: refuse("secret")}
	runs, err := replay(t, deadly("picky"), b, newRejects(), batches)
	if err != nil || runs != 2 || !slices.Equal(values(b.records(t, "out", 0)), []string{"a", "b"}) || !slices.Equal(values(b.records(t, "dead", 0)), []string{"to secret"}) {
		t.Errorf("%d runs, %v", runs, err)
	}
	b = &broker{fakeSink: small(), judge: refuse("out")}
	if runs, err := replay(t, deadly("picky"), b, newRejects(), batches); err == nil || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// TestRefusedDeadLetterIsFatal: there is nowhere left to go, so reading again would go round for ever. The same without the policy.
func TestRefusedDeadLetterIsFatal(t *testing.T) {
	refuse := func(w written) *batch.Refused {
		if w.Topic == "out" {
			return nil
		}
		return &batch.Refused{Why: batch.RefusedRecords, Records: []batch.RefusedRecord{{Index: 0}}}
	}
	b := &broker{fakeSink: small(), judge: refuse}
	batches := func() []sourceBatch {
		return []sourceBatch{fromSource(t, "in", 0, encodeSource(t, 0, batch.None, consecutive(text("k", "a"), text("k", "fail")), nil))}
	}
	if runs, err := replay(t, deadly("picky"), b, newRejects(), batches); err == nil || runs != 1 || semantics.ClassOf(err) != semantics.Fatal {
		t.Errorf("%d runs, %v", runs, err)
	}
	cfg := deadly()
	cfg.sink.OnReject = Fail
	b = &broker{fakeSink: small(), judge: refuseRecords(t, hasPrefix("bad"), nil)}
	if runs, err := replay(t, cfg, b, newRejects(), everyBad(t, 10, 5)); err == nil || runs != 1 || semantics.ClassOf(err) != semantics.Fatal {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// TestBarred: a loop, a ledger and the dead letters are no place for a map to route to.
func TestBarred(t *testing.T) {
	b := &Bridge{o: Options{Sink: SinkOptions{DeadLetterTopic: "dead", Reserved: []string{"b.ledger"}}}}
	for _, o := range []SourceOptions{
		{Name: "list", Topics: []string{"in"}, OnSinkCluster: true}, {Name: "regex", TopicsRegex: "in-.*", TopicsExclude: []string{"in-x"}, OnSinkCluster: true},
		{Name: "far", Topics: []string{"far"}},
	} {
		b.sources = append(b.sources, newSource(o, nil, nullLog(), 0))
	}
	for topic, want := range map[string]string{"dead": "dead letter", "b.ledger": "ledger", "in": `"list"`, "in-1": `"regex"`, "in-x": "", "far": "", "out": ""} {
		err := b.barred(topic)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", topic, err, want)
		}
	}
}
