package oracle

import (
	"fmt"
	"strings"
	"testing"
)

func source(n int) []Record {
	var all []Record
	for i := range n {
		r := Record{Topic: "in", Partition: int32(i % 2), Offset: int64(i / 2), Timestamp: int64(1000 + i),
			Key: []byte(fmt.Sprint("k", i)), Value: []byte(fmt.Sprint("v", i)), Headers: []Header{{"a", nil}, {"a", []byte{}}}}
		r.KeyHash = int32(i)
		all = append(all, r)
	}
	return all
}

func verdict(t *testing.T, sink []Record, place func(int32, Record) int32) Report {
	t.Helper()
	e := NewExpected()
	for _, r := range source(10) {
		if err := e.Add("src", r); err != nil {
			t.Fatal(err)
		}
	}
	c := e.NewCheck()
	c.Place = place
	for _, r := range sink {
		if err := c.Saw(r); err != nil {
			t.Fatal(err)
		}
	}
	return c.Report()
}

// TestCheckSeesEveryFault: one fault of each kind, counted as that kind and no other.
func TestCheckSeesEveryFault(t *testing.T) {
	edit := func(f func(*Record)) func([]Record) []Record {
		return func(s []Record) []Record { f(&s[4]); return s }
	}
	changed := "lost 1, doubled 0, reordered 0, misplaced 0, foreign or changed 1"
	for _, c := range []struct {
		name  string
		fault func([]Record) []Record
		want  string
	}{
		{"none", func(s []Record) []Record { return s }, "lost 0, doubled 0, reordered 0, misplaced 0, foreign or changed 0"},
		{"lost", func(s []Record) []Record { return s[1:] }, "lost 1, doubled 0, reordered 0, misplaced 0, foreign or changed 0"},
		{"doubled", func(s []Record) []Record { return append(s, s[0]) }, "lost 0, doubled 1, reordered 0, misplaced 0, foreign or changed 0"},
		{"reordered", func(s []Record) []Record { s[0], s[2] = s[2], s[0]; return s }, "lost 0, doubled 0, reordered 1, misplaced 0, foreign or changed 0"},
		{"misplaced", edit(func(r *Record) { r.Partition = 7 }), "lost 0, doubled 0, reordered 0, misplaced 1, foreign or changed 0"},
		{"foreign", func(s []Record) []Record { return append(s, Record{Value: []byte("ABORTED")}) }, "lost 0, doubled 0, reordered 0, misplaced 0, foreign or changed 1"},
		{"null value for empty", edit(func(r *Record) { r.Headers = []Header{{"a", nil}, {"a", nil}} }), changed},
		{"header order", edit(func(r *Record) { r.Headers = []Header{{"a", []byte{}}, {"a", nil}} }), changed},
		{"header gone", edit(func(r *Record) { r.Headers = r.Headers[:1] }), changed},
		{"null key", edit(func(r *Record) { r.Key = nil }), changed},
		{"tombstone", edit(func(r *Record) { r.Value = nil }), changed},
		{"timestamp", edit(func(r *Record) { r.Timestamp++ }), changed},
		{"bytes moved from key to value", edit(func(r *Record) { r.Key, r.Value = []byte("k"), []byte("4v4") }), changed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := verdict(t, c.fault(source(10)), SamePartition)
			if !strings.Contains(r.String(), c.want) {
				t.Errorf("got %s\nwant %s", r, c.want)
			}
			if ok := r.ExactlyOnce() == nil; ok != (c.name == "none") {
				t.Errorf("ExactlyOnce: %v", r.ExactlyOnce())
			}
			if ok := r.AtLeastOnce() == nil; ok != (c.name == "none" || c.name == "doubled") {
				t.Errorf("AtLeastOnce: %v", r.AtLeastOnce())
			}
		})
	}
}

func TestCheckOfNothingFails(t *testing.T) {
	if err := NewExpected().NewCheck().Report().ExactlyOnce(); err == nil {
		t.Error("an empty check passes")
	}
}

// TestEqualTraffic: in one partition equal records are expected in turn; in two they cannot be told apart.
func TestEqualTraffic(t *testing.T) {
	e := NewExpected()
	first := source(3)
	stream := []Record{first[0], first[2], first[0]} // all of partition 0
	for _, r := range stream {
		if err := e.Add("src", r); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := first[0]
	elsewhere.Partition = 1
	if e.Add("src", elsewhere) == nil {
		t.Error("equal records of two partitions cannot be told apart, and are accepted")
	}
	for want, sink := range map[string][]Record{
		"expected 3, seen 3: lost 0, doubled 0, reordered 0": stream,
		"expected 3, seen 2: lost 1, doubled 0, reordered 0": stream[:2],
		"expected 3, seen 4: lost 0, doubled 1, reordered 0": append(stream[:3:3], first[0]),
		"expected 3, seen 3: lost 0, doubled 0, reordered 1": {first[0], first[0], first[2]},
	} {
		c := e.NewCheck()
		for _, r := range sink {
			if err := c.Saw(r); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.Report().String(); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestByKey(t *testing.T) {
	sink := source(10)
	for i := range sink {
		sink[i].Partition = sink[i].KeyHash % 3
	}
	if err := verdict(t, sink, ByKey(3)).ExactlyOnce(); err != nil {
		t.Error(err)
	}
	sink[5].Partition = (sink[5].Partition + 1) % 3
	if r := verdict(t, sink, ByKey(3)); r.Misplaced != 1 {
		t.Error(r)
	}
}

func TestParse(t *testing.T) {
	r, err := parse([]byte("R in 3 42 1700000000000 x - x61=-,x=x,x61=xff00 7"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Topic != "in" || r.Partition != 3 || r.Offset != 42 || r.Timestamp != 1700000000000 || r.KeyHash != 7 {
		t.Errorf("%+v", r)
	}
	if r.Key == nil || len(r.Key) != 0 || r.Value != nil {
		t.Errorf("empty key and null value: %#v %#v", r.Key, r.Value)
	}
	want := []Header{{"a", nil}, {"", []byte{}}, {"a", []byte{0xff, 0}}}
	if fmt.Sprintf("%#v", r.Headers) != fmt.Sprintf("%#v", want) {
		t.Errorf("got %#v, want %#v", r.Headers, want)
	}
	for _, bad := range []string{"", "R in 3 42 1 x - .", "R in x 42 1 x - . 7", "R in 3 42 1 y - . 7", "R in 3 42 1 xf - . 7"} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a record", bad)
		}
	}
}
