package maps

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkabridge/bridge"
)

// passing feeds records "key@timestamp" and gives those that go on.
func passing(t testing.TB, m bridge.Map, records ...string) string {
	t.Helper()
	var out []string
	for _, text := range records {
		key, at, _ := strings.Cut(text, "@")
		r := bridge.Record{Key: []byte(key)}
		if key == "null" {
			r.Key = nil
		}
		fmt.Sscan(at, &r.Timestamp)
		if err := m.Map(&r, func(*bridge.Record) error { out = append(out, text); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(out, " ")
}

func TestDedupeWindow(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{"a@0 a@1 b@2 a@10 b@12", "a@0 b@2"},
		{"a@0 a@10 a@11 a@12", "a@0 a@11"}, // the window is 10 long, and its end belongs to it
		{"a@0 a@9 a@18", "a@0 a@18"},       // duplicates do not prolong it
		{"a@20 a@10 a@31", "a@20 a@31"},    // out of order by as much as the window
		{"a@20 a@9 a@20", "a@20 a@9"},      // later than the window: goes on, and is not remembered
		{"b@30 a@25 a@20 a@35 a@36", "b@30 a@25 a@36"},
		{"b@30 a@19 a@19", "b@30 a@19 a@19"}, // too late to be remembered
		{"a@25 b@30 a@19", "a@25 b@30"},      // too late, but near one that is remembered
		{"a@5 b@99 a@5", "a@5 b@99 a@5"},     // a timestamp in the future makes it forget: nothing is lost
		{"null@1 null@1 a@1 a@1", "null@1 null@1 a@1"},
		{"a@-1 a@-1 b@-1", "a@-1 b@-1"},
		{"a@-9223372036854775808 b@9223372036854775807 a@9223372036854775807 b@-9223372036854775808", "a@-9223372036854775808 b@9223372036854775807 a@9223372036854775807 b@-9223372036854775808"},
	} {
		m := newOf(t, "dedupe", DedupeOptions{By: "key", Window: 10 * time.Millisecond})
		if got := passing(t, m, strings.Fields(row.in)...); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.in, got, row.want)
		}
	}
}

func TestDedupeRecords(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{"a@0 b@0 c@0 a@1", "a@0 b@0 c@0"},
		{"a@0 b@0 c@0 d@0 a@1", "a@0 b@0 c@0 d@0 a@1"},
		{"a@0 a@1 a@2 a@3 a@4", "a@0 a@4"}, // duplicates count as records, and do not prolong
		{"a@0 null@0 null@0 null@0 a@4", "a@0 null@0 null@0 null@0 a@4"},
	} {
		m := newOf(t, "dedupe", DedupeOptions{By: "key", Records: 3})
		if got := passing(t, m, strings.Fields(row.in)...); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.in, got, row.want)
		}
	}
}

func TestDedupeLimit(t *testing.T) {
	m := newOf(t, "dedupe", DedupeOptions{By: "key", Window: 10 * time.Millisecond, Limit: 2})
	if got := passing(t, m, "a@0", "b@1", "a@2"); got != "a@0 b@1" {
		t.Error(got)
	}
	none := func(*bridge.Record) error { t.Error("it went on"); return nil }
	for range 2 {
		if err := m.Map(&bridge.Record{Key: []byte("c"), Timestamp: 3}, none); err == nil || !strings.Contains(err.Error(), "limit = 2") {
			t.Errorf("%v", err)
		}
	}
	if got := passing(t, m, "b@5", "c@11", "b@11", "d@12"); got != "c@11 d@12" { // the first two have left the window by then
		t.Error(got)
	}
}

// TestDedupeOfWhatFails: a record that did not go on is not remembered.
func TestDedupeOfWhatFails(t *testing.T) {
	m := newOf(t, "dedupe", DedupeOptions{By: "json.id", Records: 10})
	boom := errors.New("boom")
	r := bridge.Record{Value: []byte(`{"id":1}`)}
	if err := m.Map(&r, func(*bridge.Record) error { return boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	n := 0
	for range 2 {
		if err := m.Map(&bridge.Record{Value: []byte(`{"id":1}`)}, func(*bridge.Record) error { n++; return nil }); err != nil {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d went on", n)
	}
	if err := m.Map(&bridge.Record{Value: []byte(`{`)}, func(*bridge.Record) error { return nil }); err == nil {
		t.Error("no error")
	}
}

// history is dedupe without bounds: it keeps everything, and looks through all of it.
type history struct {
	window  int64
	records bool
	count   int64
	clock   int64
	passed  []passedKey
}

type passedKey struct {
	key string
	at  int64
}

func (h *history) pass(key string, at int64) bool {
	if h.count++; h.records {
		at = h.count
	}
	h.clock = max(h.clock, at)
	for _, p := range h.passed {
		d := max(p.at-at, at-p.at)
		if p.key == key && d <= h.window && h.clock-p.at <= h.window {
			return false
		}
	}
	h.passed = append(h.passed, passedKey{key, at})
	return true
}

// TestDedupeAcrossCrashes: against the naive implementation, killed at random and begun again from the last snapshot, or from one
// before it, with the records since then.
func TestDedupeAcrossCrashes(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		window := int64(1 + r.IntN(40))
		o := DedupeOptions{By: "key", Window: time.Duration(window) * time.Millisecond}
		h := &history{window: window, clock: math.MinInt64}
		if seed%2 == 1 {
			o, h.records, h.clock = DedupeOptions{By: "key", Records: int(window)}, true, 0
		}
		type in struct {
			key string
			at  int64
		}
		var inputs []in
		var want []bool
		now := int64(1000)
		for range 600 {
			now += int64(r.IntN(4))
			i := in{string(rune('a' + r.IntN(12))), now}
			if r.IntN(4) == 0 {
				i.at -= int64(r.IntN(int(2 * window))) // late, sometimes more than the window
			}
			inputs, want = append(inputs, i), append(want, h.pass(i.key, i.at))
		}
		m := newOf(t, "dedupe", o)
		type saved struct {
			next  int
			state []byte
		}
		first, _ := m.(bridge.Stateful).Snapshot()
		checkpoints := []saved{{0, first}}
		for n, steps := 0, 0; n < len(inputs) && steps < 20_000; steps++ {
			i, went := inputs[n], false
			if err := m.Map(&bridge.Record{Key: []byte(i.key), Timestamp: i.at}, func(*bridge.Record) error { went = true; return nil }); err != nil {
				t.Fatal(err)
			}
			if went != want[n] {
				t.Fatalf("seed %d, record %d %v: went on %v, want %v", seed, n, i, went, want[n])
			}
			n++
			switch r.IntN(25) {
			case 0:
				state, err := m.(bridge.Stateful).Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				checkpoints = append(checkpoints, saved{n, slices.Clone(state)})
			case 1:
				if len(checkpoints) > 1 && r.IntN(3) == 0 {
					checkpoints = checkpoints[:len(checkpoints)-1] // the newest was not decided
				}
				last := checkpoints[len(checkpoints)-1]
				m = newOf(t, "dedupe", o)
				if err := m.(bridge.Stateful).Restore(slices.Clone(last.state)); err != nil {
					t.Fatal(err)
				}
				n = last.next
			}
		}
	}
}

func TestDedupeState(t *testing.T) {
	o := DedupeOptions{By: "key", Window: 10 * time.Millisecond}
	m := newOf(t, "dedupe", o)
	passing(t, m, "a@100", "b@105", "c@98")
	state, err := m.(bridge.Stateful).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	// Version, unit, clock and count as STATE.md has them.
	if want := []byte{1, 0, 0xd2, 0x01, 3}; !slices.Equal(state[:5], want) || len(state) != 5+3*17 {
		t.Errorf("% x", state)
	}
	other := newOf(t, "dedupe", o)
	for cut := range len(state) {
		if err := other.(bridge.Stateful).Restore(state[:cut]); err == nil {
			t.Errorf("%d bytes of %d were accepted", cut, len(state))
		}
	}
	if err := other.(bridge.Stateful).Restore(append(slices.Clone(state), 0)); err == nil {
		t.Error("a byte too many was accepted")
	}
	for version, want := range map[byte]string{0: "version 0", 2: "version 2"} {
		if err := other.(bridge.Stateful).Restore(append([]byte{version}, state[1:]...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	if err := other.(bridge.Stateful).Restore([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}); err == nil {
		t.Error("a count without entries was accepted")
	}
	if got := passing(t, other, "a@1"); got != "a@1" {
		t.Error("something of a damaged state stayed")
	}
	// records after window: begins anew.
	counts := newOf(t, "dedupe", DedupeOptions{By: "key", Records: 5})
	if err := counts.(bridge.Stateful).Restore(state); err != nil {
		t.Error(err)
	}
	if got := passing(t, counts, "a@1", "a@1"); got != "a@1" {
		t.Error(got)
	}
}

// TestDedupeStateIsProportionate: it follows what is in the window, not what has been.
func TestDedupeStateIsProportionate(t *testing.T) {
	m := newOf(t, "dedupe", DedupeOptions{By: "offset", Window: 100 * time.Millisecond})
	for i := range int64(50_000) {
		if err := m.Map(&bridge.Record{Offset: i, Timestamp: i}, func(*bridge.Record) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	state, _ := m.(bridge.Stateful).Snapshot()
	if d := m.(*dedupe); len(state) > 101*18+20 || len(d.seen) > 101 || len(d.queue.ring) > 1024 {
		t.Errorf("%d bytes, %d identities, a ring of %d", len(state), len(d.seen), len(d.queue.ring))
	}
	// A burst gives its memory back.
	for i := range int64(50_000) {
		_ = m.Map(&bridge.Record{Offset: 100_000 + i, Timestamp: 50_000}, func(*bridge.Record) error { return nil })
	}
	for i := range int64(300) {
		_ = m.Map(&bridge.Record{Offset: 200_000 + i, Timestamp: 60_000 + 10*i}, func(*bridge.Record) error { return nil })
	}
	if d := m.(*dedupe); len(d.queue.ring) > 1024 || len(d.seen) > 101 {
		t.Errorf("a ring of %d, %d identities", len(d.queue.ring), len(d.seen))
	}
}

func TestDedupeOptions(t *testing.T) {
	for _, o := range []DedupeOptions{
		{By: "key"}, {By: "key", Window: time.Second, Records: 1}, {By: "key", Window: -time.Second}, {By: "key", Window: time.Microsecond}, {By: "key", Records: -1},
		{By: "key", Records: MaxDedupe + 1}, {By: "key", Window: time.Second, Limit: -1}, {By: "kez", Records: 1}, {Records: 1},
	} {
		if _, err := Kinds()["dedupe"](o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
