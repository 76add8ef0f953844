package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"kafkabridge/bridge"
)

// tree reads everything of a value through the package's own methods, as encoding/json with UseNumber has it.
func tree(v Value) any {
	switch v.Kind() {
	case Object:
		m := map[string]any{}
		for w := v.Walk(); w.Next(); {
			m[w.Name()] = tree(w.Value())
		}
		return m
	case Array:
		list := []any{}
		for w := v.Walk(); w.Next(); {
			list = append(list, tree(w.Value()))
		}
		return list
	case String:
		return v.Text()
	case Number:
		return json.Number(v.Raw())
	case True:
		return true
	case False:
		return false
	}
	return nil
}

// reference is what encoding/json makes of the text.
func reference(text []byte) (any, error) {
	if !json.Valid(text) {
		return nil, fmt.Errorf("invalid")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// check compares one text, read with a document that was used before, with encoding/json.
func check(t *testing.T, d *Document, text []byte) {
	t.Helper()
	want, wrong := reference(text)
	d.Reset(text)
	root, err := d.Root()
	if (err != nil) != (wrong != nil) {
		t.Fatalf("%q: error %v, encoding/json says %v", text, err, wrong)
	}
	if err != nil {
		return
	}
	if got := tree(root); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: got %#v, want %#v", text, got, want)
	}
	if len(text) < 1<<10 { // it looks at everything at each level
		spans(t, text, root)
	}
}

// spans: each value's text is JSON of its own and means the same; its neighbours are outside of it.
func spans(t *testing.T, text []byte, v Value) {
	t.Helper()
	from, to := v.Span()
	alone, err := reference(text[from:to])
	if err != nil || !reflect.DeepEqual(alone, tree(v)) {
		t.Fatalf("%q: %q is not the text of the value %v (%v)", text, text[from:to], tree(v), err)
	}
	end := from
	for w := v.Walk(); w.Next(); {
		f, e := w.Value().Span()
		if f < end || e > to {
			t.Fatalf("%q: a value at %d to %d in one at %d to %d", text, f, e, from, to)
		}
		end = e
		spans(t, text, w.Value())
	}
}

// texts are shapes that have broken JSON readers before.
var texts = []string{
	``, ` `, `null`, ` true `, "\tfalse\r\n", `nul`, `nulll`, `null null`, `0`, `-0`, `-`, `01`, `1.`, `.5`, `1.5e`, `1e5`, `1E+05`, `1e-400`, `1e1000`, `+1`,
	`123456789012345678901234567890`, `1.000000000000000000001`, `""`, `"a`, `"\`, `"\u12`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00\ud800x"`, `"\x"`,
	"\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"\xc3\"", "\"é\u2028\"", `"\/\b\f\n\r\t\"\\"`, `[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1`, `[[[]]]`, `[[[]]`, `]`,
	`{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1,"a":2}`, `{"\u0061":1,"a":2,"a\u0000":3}`, `{"":{"":[]}}`, `{1:2}`, `{"a":[{"b":null},{"c":[{}]}]}`,
	`{"a":1}}`, `{"a":1}]`, `[{]}`, `{"a":[}`, "\ufeff{}", `NaN`, `Infinity`, `'a'`, `[1]//`, "{\"a\xff\":1}", "\u00a01", "1\x00",
}

func TestAgainstEncodingJSON(t *testing.T) {
	var d Document
	for _, text := range texts {
		check(t, &d, []byte(text))
	}
	check(t, &d, []byte(strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth)))
	check(t, &d, []byte(strings.Repeat("[", MaxDepth+1)+strings.Repeat("]", MaxDepth+1)))
	check(t, &d, []byte(strings.Repeat(`{"a":`, MaxDepth+1)+"1"+strings.Repeat("}", MaxDepth+1)))
}

// TestRandomAgainstEncodingJSON makes texts, whole ones and damaged ones.
func TestRandomAgainstEncodingJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var d Document
	valid := 0
	for range 20_000 {
		text := []byte(random(r, 4))
		if r.IntN(3) == 0 && len(text) > 0 {
			i := r.IntN(len(text))
			switch r.IntN(3) {
			case 0:
				text[i] = `{}[]",:\0e-. u`[r.IntN(14)]
			case 1:
				text = append(text[:i], text[i+1:]...)
			case 2:
				text = text[:i]
			}
		}
		check(t, &d, text)
		if json.Valid(text) {
			valid++
		}
	}
	if valid < 10_000 || valid > 19_000 {
		t.Errorf("%d of 20000 texts were valid", valid)
	}
}

// random is a JSON text.
func random(r *rand.Rand, depth int) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	gap := func() string { return pick("", "", "", " ", "\n", "\t ") }
	kind := r.IntN(8)
	if depth == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		return pick("null", "true", "false")
	case 1, 2:
		return pick("0", "-1", "12", "1.50", "1e9", "-2.5E-3", "18446744073709551616", fmt.Sprint(r.Int64()))
	case 3, 4:
		return pick(`""`, `"a"`, `"\u0061"`, `"a.b"`, `"\ud800"`, `"é"`, `"\"]}"`, `"\\"`, "\"\xff\"")
	case 5:
		var b strings.Builder
		b.WriteString("[" + gap())
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteString(gap() + ",")
			}
			b.WriteString(gap() + random(r, depth-1))
		}
		return b.String() + gap() + "]"
	}
	var b strings.Builder
	b.WriteString("{" + gap())
	for i := range r.IntN(4) {
		if i > 0 {
			b.WriteString(gap() + "," + gap())
		}
		b.WriteString(pick(`"a"`, `"b"`, `"\u0061"`, `"c.d"`, `""`) + gap() + ":" + gap() + random(r, depth-1))
	}
	return b.String() + gap() + "}"
}

func FuzzDocument(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	var d Document
	f.Fuzz(func(t *testing.T, text []byte) { check(t, &d, text) })
}

func TestLookup(t *testing.T) {
	var d Document
	d.Reset([]byte(`{"a":1,"b":{"a":2},"a":3,"\u0063":4,"c\\":5,"d":6,"\ud800":7}`))
	root, err := d.Root()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "3", "c": "4", `c\`: "5", `c\\`: "", "d": "6", "e": "", "\uFFFD": "7", `\u0063`: ""} {
		v, ok := root.Get(name)
		if got := ""; ok {
			got = string(v.Raw())
			if got != want {
				t.Errorf("%q: %s, want %q", name, got, want)
			}
		} else if want != "" {
			t.Errorf("%q: missing", name)
		}
	}
	if _, ok := root.Get("a"); !ok || root.Len() != 7 {
		t.Errorf("%d members", root.Len())
	}
}

// TestErrorsShowNothing: the value may be one that is about to be masked.
func TestErrorsShowNothing(t *testing.T) {
	var d Document
	for _, text := range []string{`{"user":{"email":"secret@example.org"`, `{"user":secret}`, `secret`, `{"secret":1}x`, ``} {
		d.Reset([]byte(text))
		_, err := d.Root()
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
	d.Reset([]byte(`{"a": tru}`))
	if _, err := d.Root(); err == nil || !strings.Contains(err.Error(), "byte 9 ") {
		t.Errorf("%v", err)
	}
}

// TestParsedOnce: a chain reads a value once, and another value is never taken for it.
func TestParsedOnce(t *testing.T) {
	var first, second Document
	r := &bridge.Record{Value: []byte(`{"a":1}`)}
	if _, err := Of(r, &first); err != nil || r.Parsed != &first {
		t.Fatalf("%v %v", r.Parsed, err)
	}
	if v, err := Of(r, &second); err != nil || v.d != &first {
		t.Errorf("read again: %v", err)
	}
	r.Value = []byte(`{"a":2}`) // by a map that left Parsed as it was
	if v, err := Of(r, &second); err != nil || v.d != &second || string(v.Raw()) != `{"a":2}` {
		t.Errorf("the value before was taken for this one: %v", err)
	}
	bad := &bridge.Record{Value: []byte(`{`)}
	for range 2 { // an error is remembered as well
		if _, err := Of(bad, &first); err == nil {
			t.Error("no error")
		}
	}
}

// TestMemoryIsGivenBack: one rare big value must not stay.
func TestMemoryIsGivenBack(t *testing.T) {
	var d Document
	d.Reset([]byte("[" + strings.Repeat("1,", retainNodes) + "1]"))
	if _, err := d.Root(); err != nil {
		t.Fatal(err)
	}
	d.Reset([]byte("1"))
	if cap(d.nodes) > retainNodes {
		t.Errorf("%d nodes are kept", cap(d.nodes))
	}
}
