package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// letters is a stream of one-letter records.
func letters(text string) func() (item, bool, error) {
	at := int64(-1)
	return func() (item, bool, error) {
		if at++; at >= int64(len(text)) {
			return item{}, false, nil
		}
		return item{fingerprint{0: text[at]}, at}, true, nil
	}
}

func compareLetters(t *testing.T, in, out string, decided int64) comparison {
	t.Helper()
	var r comparison
	o := newOrdered(newAhead(letters(in), &r.In), newAhead(letters(out), &r.Out), &r)
	o.examples, o.decided = 100, decided
	if err := o.run(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOrdered: what is found, and where, in streams whose difference a person sees at once.
func TestOrdered(t *testing.T) {
	for _, c := range []struct{ name, in, out, want string }{
		{"the same", "abcdef", "abcdef", "6 same"},
		{"empty", "", "", "0 same"},
		{"lost", "abcdef", "abef", "4 same; lost 2/-; lost 3/-"},
		{"lost at the end", "abc", "ab", "2 same; lost 2/-"},
		{"all lost", "ab", "", "0 same; lost 0/-; lost 1/-"},
		{"doubled in place", "abcdef", "abccdef", "6 same; doubled -/3"},
		{"a stretch again", "abcdef", "abcdbcdef", "6 same; doubled -/4; doubled -/5; doubled -/6"},
		{"again at the end", "abc", "abcabc", "3 same; doubled -/3; doubled -/4; doubled -/5"},
		{"the other way round", "abcdef", "abdcef", "5 same; reordered 2/3"},
		{"much later", "abcdef", "acdefb", "5 same; reordered 1/5"},
		{"changed", "abcdef", "abXdef", "5 same; changed 2/2"},
		{"changed at the end", "abc", "abX", "2 same; changed 2/2"},
		{"foreign", "abcdef", "abcXdef", "6 same; foreign -/3"},
		{"foreign at the end", "abc", "abcX", "3 same; foreign -/3"},
		{"alike in the source is no doubling", "aabbaa", "aabbaa", "6 same"},
		{"one of two alike lost", "abab", "aba", "3 same; lost 3/-"},
		{"lost and doubled", "abcdefgh", "abdeffgh", "7 same; lost 2/-; doubled -/5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compareLetters(t, c.in, c.out, 1<<60)
			slices.SortStableFunc(r.Examples, func(a, b example) int { return int(max(a.In, a.Out) - max(b.In, b.Out)) })
			got := []string{fmt.Sprintf("%d same", r.Same)}
			for _, e := range r.Examples {
				got = append(got, strings.ReplaceAll(fmt.Sprintf("%s %d/%d", e.Kind, e.In, e.Out), "-1", "-"))
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("%s beside %s: %s, want %s", c.in, c.out, text, c.want)
			}
		})
	}
}

// TestOrderedDecided: what lies behind the decided positions may be there already, or not yet.
func TestOrderedDecided(t *testing.T) {
	if r := compareLetters(t, "abcdef", "abc", 3); r.Lost != 0 || r.NotYet != 3 || r.Same != 3 {
		t.Errorf("not moved yet: %+v", r)
	}
	if r := compareLetters(t, "abcdef", "abcd", 3); r.Lost != 0 || r.NotYet != 2 || r.Same != 4 {
		t.Errorf("moved, not decided: %+v", r)
	}
	if r := compareLetters(t, "abcdef", "ab", 3); r.Lost != 1 || r.NotYet != 3 {
		t.Errorf("lost before the positions: %+v", r)
	}
}

// numbers is a stream of distinct records.
func numbers(values []int) func() (item, bool, error) {
	at := -1
	return func() (item, bool, error) {
		if at++; at >= len(values) {
			return item{}, false, nil
		}
		var p fingerprint
		binary.BigEndian.PutUint64(p[:], uint64(values[at]))
		return item{p, int64(at)}, true, nil
	}
}

// TestOrderedSums: whatever is done to the sink's stream, each record of the source is counted once, and so is each of the sink.
func TestOrderedSums(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var in, out []int
		lost, doubled, foreign := int64(0), int64(0), int64(0)
		for n := range 200 {
			in = append(in, n)
			switch rnd.IntN(20) {
			case 0:
				lost++
			case 1:
				out = append(out, n, n)
				doubled++
			case 2:
				out = append(out, 10_000+n, n)
				foreign++
			default:
				out = append(out, n)
			}
		}
		var r comparison
		o := newOrdered(newAhead(numbers(in), &r.In), newAhead(numbers(out), &r.Out), &r)
		o.decided = 1 << 60
		if err := o.run(); err != nil {
			t.Fatal(err)
		}
		// A record lost beside a foreign one looks like a changed one, and nobody can tell.
		if r.Same+r.Lost+r.Changed+r.Reordered != 200 || r.Same+r.Doubled+r.Changed+r.Reordered+r.Foreign != int64(len(out)) ||
			r.Reordered != 0 || r.Lost+r.Changed != lost || r.Doubled != doubled || r.Foreign+r.Changed != foreign {
			t.Fatalf("seed %d: %d lost, %d doubled, %d foreign; found %+v", seed, lost, doubled, foreign, r)
		}
	}
}

// TestOrderedBehindTheWindow: a stretch longer than the window is a difference all the same, and memory stays bounded.
func TestOrderedBehindTheWindow(t *testing.T) {
	const window = 1 << 10
	const all, gone = 3 * window, 2 * window
	var in, out []int
	for n := range all {
		in = append(in, n)
		if n < 10 || n >= 10+gone {
			out = append(out, n)
		}
	}
	var r comparison
	from, to := newAhead(numbers(in), &r.In), newAhead(numbers(out), &r.Out)
	from.window, to.window = window, window
	o := newOrdered(from, to, &r)
	o.decided = 1 << 60
	most := 0
	from.read = watched(from.read, func() { most = max(most, len(o.recent)+len(o.missing)+len(from.where)+len(to.where)) })
	if err := o.run(); err != nil {
		t.Fatal(err)
	}
	if r.Lost < gone || r.In != all || r.Out != int64(len(out)) {
		t.Errorf("%d of %d are gone: %+v", gone, all, r)
	}
	if most > 4*window {
		t.Errorf("%d records are remembered, the window is %d", most, window)
	}
}

func watched(read func() (item, bool, error), look func()) func() (item, bool, error) {
	return func() (item, bool, error) {
		look()
		return read()
	}
}
