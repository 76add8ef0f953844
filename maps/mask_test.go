package maps

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

// apply runs a map on a record and gives what it emits.
func apply(m bridge.Map, r bridge.Record) (out []bridge.Record, err error) {
	err = m.Map(&r, func(r *bridge.Record) error {
		c := *r
		c.Key, c.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		out = append(out, c)
		return nil
	})
	return out, err
}

// values are those of records, quoted.
func values(out []bridge.Record) string {
	var b strings.Builder
	for _, r := range out {
		fmt.Fprintf(&b, "%q ", r.Value)
	}
	return b.String()
}

func newOf(t testing.TB, kind string, settings any) bridge.Map {
	t.Helper()
	m, err := Kinds()[kind](settings)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return m
}

func TestMask(t *testing.T) {
	for _, row := range []struct {
		paths       string
		value, want string
	}{
		{"user.email", `{"user":{"email":"a@b","name":"n"}}`, `{"user":{"email":"***","name":"n"}}`},
		{"user.email", " { \"user\" :\t{ \"email\" : \"a@b\" ,\n \"n\":1.50 } } ", " { \"user\" :\t{ \"email\" : \"***\" ,\n \"n\":1.50 } } "},
		{"user.email", `{"user":{"\u0065mail":"a@b"}}`, `{"user":{"\u0065mail":"***"}}`},
		{"user.email", `{"us\u0065r":{"\u0065\u006D\u0061\u0069\u006c":"a"}}`, `{"us\u0065r":{"\u0065\u006D\u0061\u0069\u006c":"***"}}`},
		{"user.email", `{"user":{"email":"a","email":"b"},"user":{"email":"c"}}`, `{"user":{"email":"***","email":"***"},"user":{"email":"***"}}`},
		{"user.email", `{"user":{"email":"a","\u0065mail":"b"},"\u0075ser":{"email":{"x":"c"}}}`, `{"user":{"email":"***","\u0065mail":"***"},"\u0075ser":{"email":"***"}}`},
		{"a", `{"a":1}`, `{"a":"***"}`}, {"a", `{"a":true}`, `{"a":"***"}`}, {"a", `{"a":{"b":[1]}}`, `{"a":"***"}`}, {"a", `{"a":[]}`, `{"a":"***"}`},
		{"a", `{"a":null}`, `{"a":null}`}, {"a", `{"A":1,"b":{"a":2},"aa":3}`, `{"A":1,"b":{"a":2},"aa":3}`},
		{"a", `"a"`, `"a"`}, {"a", `["a"]`, `["a"]`}, {"a", `[{"a":1}]`, `[{"a":1}]`}, {"a.b", `{"a":"b"}`, `{"a":"b"}`}, {"a.b", `{"a":[{"b":1}]}`, `{"a":[{"b":1}]}`},
		{"items[].card", `{"items":[{"card":"1","x":2},{"y":3},{"card":4}]}`, `{"items":[{"card":"***","x":2},{"y":3},{"card":"***"}]}`},
		{"items[1].card", `{"items":[{"card":"1"},{"card":"2"}]}`, `{"items":[{"card":"1"},{"card":"***"}]}`},
		{"items[0]", `{"items":[1,2]}`, `{"items":["***",2]}`}, {"items[]", `{"items":[1,[2],null]}`, `{"items":["***","***",null]}`},
		{"items[7]", `{"items":[1]}`, `{"items":[1]}`}, {"items[0]", `{"items":{"0":1}}`, `{"items":{"0":1}}`}, {"a[][1]", `{"a":[[1,2],3,[4]]}`, `{"a":[[1,"***"],3,[4]]}`},
		{"[].a", `[{"a":1},{"b":2}]`, `[{"a":"***"},{"b":2}]`}, {"[0]", `[1,2]`, `["***",2]`},
		{"'a.b'.c", `{"a.b":{"c":1},"a":{"b":{"c":2}}}`, `{"a.b":{"c":"***"},"a":{"b":{"c":2}}}`}, {`"a[0]"`, `{"a[0]":1,"a":[2]}`, `{"a[0]":"***","a":[2]}`},
		{`'it\'s'`, `{"it's":1}`, `{"it's":"***"}`}, {`''`, `{"":1}`, `{"":"***"}`}, {"é", `{"\u00e9":1,"é":2}`, `{"\u00e9":"***","é":"***"}`},
		{"a b-c", `{"a b-c":1}`, `{"a b-c":"***"}`}, {"a a.b", `{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":2}}`},
		{"a|a.b", `{"a":{"b":1,"c":2}}`, `{"a":"***"}`}, {"a.b|a", `{"a":{"b":1,"c":2}}`, `{"a":"***"}`}, {"a|b.c|b.d", `{"b":{"d":1,"c":2},"a":3}`, `{"b":{"d":"***","c":"***"},"a":"***"}`},
		{"a", `{"a":"\ud800","b":"` + "\xff" + `"}`, `{"a":"***","b":"` + "\xff" + `"}`},
		{"n", `{"n":1,"big":123456789012345678901234567890,"d":1.000000000000000000001,"e":1E+400}`, `{"n":"***","big":123456789012345678901234567890,"d":1.000000000000000000001,"e":1E+400}`},
	} {
		m := newOf(t, "mask", MaskOptions{Paths: strings.Split(row.paths, "|"), With: Redact})
		for range 2 {
			out, err := apply(m, bridge.Record{Value: []byte(row.value)})
			if err != nil || len(out) != 1 || string(out[0].Value) != row.want {
				t.Errorf("%s of %s:\ngot  %s %v\nwant %s", row.paths, row.value, values(out), err, row.want)
			}
		}
	}
}

// TestMaskHashes are from openssl: echo -n … | openssl dgst -sha256 [-hmac pepper].
func TestMaskHashes(t *testing.T) {
	const (
		sha  = "7508d8b5018ea640b85269861a101203f0c26900555268e930025dac844b0f35" // of a@b
		hmac = "7eab4270860abfacc1ad6889ad01f3e03208a6b5409c67581e226de9a37249f6"
		n    = "1a60b208ff491c3e2d21cdd5abb003e51e97b072efec59098863da45021de6a9" // of 1.50
		o    = "cae1fd1cafc3a224720d8b52c3615332619526ae2526b2cd7afb72a7405ee526" // of {"b": 1}
	)
	for _, row := range []struct {
		o           MaskOptions
		value, want string
	}{
		{MaskOptions{With: SHA256}, `{"a":"a@b"}`, `{"a":"` + sha + `"}`},
		{MaskOptions{With: SHA256}, `{"a":"\u0061\u0040b"}`, `{"a":"` + sha + `"}`},
		{MaskOptions{With: HMAC, Secret: "pepper"}, `{"a":"a@b"}`, `{"a":"` + hmac + `"}`},
		{MaskOptions{With: SHA256}, `{"a":1.50}`, `{"a":"` + n + `"}`},
		{MaskOptions{With: SHA256}, `{"a":{"b": 1}}`, `{"a":"` + o + `"}`},
		{MaskOptions{With: SHA256}, `{"a":null}`, `{"a":null}`},
		{MaskOptions{With: SHA256}, `{"a":""}`, `{"a":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`},
	} {
		row.o.Paths = []string{"a"}
		out, err := apply(newOf(t, "mask", row.o), bridge.Record{Value: []byte(row.value)})
		if err != nil || string(out[0].Value) != row.want {
			t.Errorf("%s: got %s, %v, want %s", row.value, values(out), err, row.want)
		}
	}
}

func TestMaskOfWhatIsNoJSON(t *testing.T) {
	m := newOf(t, "mask", MaskOptions{Paths: []string{"a"}, With: Redact})
	for _, value := range []string{"", "x", `{"a":"secret"`, "\xff\x00secret", `{"a":"secret"}}`} {
		out, err := apply(m, bridge.Record{Value: []byte(value)})
		if err == nil || len(out) != 0 || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %s, %v", value, values(out), err)
		}
	}
	if out, err := apply(m, bridge.Record{Key: []byte("k")}); err != nil || len(out) != 1 || out[0].Value != nil {
		t.Errorf("a tombstone: %s, %v", values(out), err)
	}
}

func TestMaskOptions(t *testing.T) {
	for _, o := range []MaskOptions{
		{}, {Paths: []string{"a"}}, {With: Redact}, {Paths: []string{"a"}, With: "md5"}, {Paths: []string{"a"}, With: HMAC}, {Paths: []string{"a"}, With: Redact, Secret: "s"},
		{Paths: []string{""}, With: Redact}, {Paths: []string{"a."}, With: Redact}, {Paths: []string{".a"}, With: Redact}, {Paths: []string{"a..b"}, With: Redact}, {Paths: []string{"a["}, With: Redact},
		{Paths: []string{"a[-1]"}, With: Redact}, {Paths: []string{"a]"}, With: Redact}, {Paths: []string{"'a"}, With: Redact}, {Paths: []string{"'a'b"}, With: Redact}, {Paths: []string{"a[0]b"}, With: Redact},
		{Paths: []string{"a'b'"}, With: Redact}, {Paths: []string{"a[99999999999]"}, With: Redact},
	} {
		if _, err := Kinds()["mask"](o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	o := MaskOptions{Paths: []string{"a["}, With: HMAC, Secret: "pepper-S3cret"}
	_, err := Kinds()["mask"](o)
	text, _ := json.Marshal(o)
	if all := fmt.Sprintf("%v %+v %#v %s %q %s", o, o, o, o.Secret, err, text); strings.Contains(all, "S3cret") {
		t.Errorf("the secret shows: %s", all)
	}
}

// naive masks a decoded value: another implementation, for values without duplicate names.
func naive(v any, path []step) any {
	if len(path) == 0 {
		if v == nil {
			return nil
		}
		return "***"
	}
	switch v := v.(type) {
	case map[string]any:
		if child, ok := v[path[0].name]; ok && !path[0].element {
			v[path[0].name] = naive(child, path[1:])
		}
	case []any:
		for i := range v {
			if path[0].element && (path[0].index == allElements || path[0].index == i) {
				v[i] = naive(v[i], path[1:])
			}
		}
	}
	return v
}

// checkMask: what is left of a masked value is its own bytes in their order, and its meaning is that of the naive implementation.
func checkMask(t *testing.T, path, value string) {
	t.Helper()
	m, err := Kinds()["mask"](MaskOptions{Paths: []string{path}, With: Redact})
	if err != nil {
		return
	}
	out, err := apply(m, bridge.Record{Value: []byte(value)})
	if (err == nil) != json.Valid([]byte(value)) || err != nil {
		if json.Valid([]byte(value)) {
			t.Fatalf("%s of %q: %v", path, value, err)
		}
		return
	}
	got := string(out[0].Value)
	rest, at := got, 0
	for part := range strings.SplitSeq(rest, `"***"`) { // every piece that was kept is in the original, one after the other
		n := strings.Index(value[at:], part)
		if n < 0 {
			t.Fatalf("%s of %q: %q is not left as it was in %q", path, value, part, got)
		}
		at += n + len(part)
	}
	var before, after any
	if json.Unmarshal([]byte(value), &before) != nil || duplicates(value) {
		return
	}
	steps, _ := parsePath(path)
	want := naive(before, steps)
	if err := json.Unmarshal([]byte(got), &after); err != nil || !reflect.DeepEqual(after, want) {
		t.Fatalf("%s of %q: got %q, want %v (%v)", path, value, got, want, err)
	}
}

// duplicates says whether encoding/json would lose a member.
func duplicates(value string) bool {
	d := json.NewDecoder(strings.NewReader(value))
	var stack []map[string]bool
	name := false
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'):
			stack, name = append(stack, map[string]bool{}), true
			continue
		case json.Delim('['):
			stack, name = append(stack, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		default:
			if s, ok := token.(string); ok && name {
				if stack[len(stack)-1][s] {
					return true
				}
				stack[len(stack)-1][s], name = true, false
				continue
			}
		}
		name = len(stack) > 0 && stack[len(stack)-1] != nil
	}
}

func TestMaskRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		checkMask(t, []string{"a", "a.b", "a[]", "a[1].b", "b.a", "[].a", "[0]", "a.a.b", "b[][]"}[r.IntN(9)], randomJSON(r, 4))
	}
}

func randomJSON(r *rand.Rand, depth int) string {
	gap := func() string { return []string{"", "", " ", "\n\t"}[r.IntN(4)] }
	kind := r.IntN(7)
	if depth == 0 {
		kind = r.IntN(3)
	}
	var b strings.Builder
	switch kind {
	case 0:
		return []string{"null", "true", "12", "-1.50E+2", "123456789012345678901"}[r.IntN(5)]
	case 1, 2:
		return []string{`""`, `"x"`, `"\u0061"`, `"]}\","`, `"\\"`, "\"\xff\""}[r.IntN(6)]
	case 3, 4:
		b.WriteString("[" + gap())
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteString("," + gap())
			}
			b.WriteString(randomJSON(r, depth-1) + gap())
		}
		return b.String() + "]"
	}
	b.WriteString("{" + gap())
	for i := range r.IntN(4) {
		if i > 0 {
			b.WriteString("," + gap())
		}
		b.WriteString([]string{`"a"`, `"b"`, `"\u0061"`, `"c"`}[r.IntN(4)] + gap() + ":" + gap() + randomJSON(r, depth-1) + gap())
	}
	return b.String() + "}"
}

func FuzzMask(f *testing.F) {
	f.Add("user.email", `{"user":{"\u0065mail":"a"}}`)
	f.Add("a[].'b.c'", `{"a":[{"b.c":[1]},2]}`)
	f.Add("[0]", `[1,{"a":"\"***\""}]`)
	f.Fuzz(func(t *testing.T, path, value string) {
		if !strings.Contains(value, `***`) {
			checkMask(t, path, value)
		}
	})
}
