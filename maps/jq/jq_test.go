package jq

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"kafkabridge/batch"
	"kafkabridge/bridge"
)

// run is what a program makes of a value, up to its error.
func run(t testing.TB, program, value string) (outputs []string, err error) {
	t.Helper()
	p, err := Compile(program)
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	var in Input
	if err := in.Begin(&bridge.Record{Value: []byte(value)}); err != nil {
		return nil, err
	}
	err = p.Values(&in, func(text []byte) error {
		outputs = append(outputs, string(text))
		return nil
	})
	return outputs, err
}

// differs says where gojq is known to answer otherwise than jq.
func differs(program, input string) bool {
	switch program {
	case ".[0]", ".[-1]":
		return strings.HasPrefix(input, `"`) // a character of a text; an error in jq
	case "todate?":
		return strings.HasPrefix(strings.TrimSpace(input), "[") // years of less than four digits
	case "transpose?":
		return strings.HasPrefix(input, "{") // a list of lists only
	case "@html?":
		return strings.Contains(input, `u0000`) // jq makes \\0 of it
	case "ascii?":
		return true // not there
	}
	return false
}

// TestAgainstJQ compares with what jq itself printed; see testdata/golden.py.
func TestAgainstJQ(t *testing.T) {
	f, err := os.Open("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, bad := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		var g struct {
			Program, Input string
			Outputs        []string
			Error          bool
		}
		if err := json.Unmarshal(s.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		if differs(g.Program, g.Input) {
			continue
		}
		got, err := run(t, g.Program, g.Input)
		if !same(got, g.Outputs) || (err != nil) != g.Error {
			if bad++; bad < 60 {
				t.Errorf("%s of %s: got %v, %v; jq has %v, error %v", g.Program, g.Input, got, err, g.Outputs, g.Error)
			}
		}
	}
	if lines < 2000 {
		t.Errorf("only %d lines", lines)
	}
}

// same compares JSON texts by their meaning.
func same(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y any
		if json.Unmarshal([]byte(a[i]), &x) != nil || json.Unmarshal([]byte(b[i]), &y) != nil || !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// TestNumbers: what is not computed with comes out as it was written, and whole numbers are exact.
func TestNumbers(t *testing.T) {
	for _, row := range []struct{ program, value, want string }{
		{".", "123456789012345678901234567890", "123456789012345678901234567890"},
		{".", "1.000000000000000000001", "1.000000000000000000001"},
		{".", "1e1000", "1e1000"},
		{".", "-0", "-0"},
		{".", "1.10", "1.10"},
		{".", "1E2", "1E2"},
		{".a", `{"a":[1.0,9007199254740993,-9223372036854775809]}`, "[1.0,9007199254740993,-9223372036854775809]"},
		{". + 1", "9007199254740993", "9007199254740994"},
		{". * 10", "123456789012345678901234567890", "1234567890123456789012345678900"},
		{".a == .b", `{"a":100000000000000000001,"b":100000000000000000002}`, "false"},
		{". + 0", "1.10", "1.1"},
		{". + 0", "1e1000", "1.7976931348623157e+308"},
		{"tojson", "1.10", `"1.10"`},
		{"{b: .a, a: 1}", `{"a":1e400}`, `{"a":1,"b":1e400}`},
	} {
		got, err := run(t, row.program, row.value)
		if err != nil || len(got) != 1 || got[0] != row.want {
			t.Errorf("%s of %s: %v, %v, want %s", row.program, row.value, got, err, row.want)
		}
	}
}

func TestShapes(t *testing.T) {
	for _, row := range []struct{ value, want string }{
		{`{"a":"\ud800"}`, "{\"a\":\"\uFFFD\"}"},
		{"{\"a\":\"\xff\"}", "{\"a\":\"\uFFFD\"}"},
		{`"\ud83d\ude00\u0000"`, "\"\U0001F600\\u0000\""},
		{` { "b" : 1 , "a" : [ ] } `, `{"a":[],"b":1}`},
		{`{"a":1,"\u0061":2}`, `{"a":2}`},
		{``, "error"}, {` `, "error"}, {`{"a":1`, "error"}, {`1 2`, "error"}, {`NaN`, "error"}, {"\xff", "error"}, {"\ufeff1", "error"},
		{strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)},
	} {
		got, err := run(t, ".", row.value)
		if row.want == "error" && err == nil || row.want != "error" && (err != nil || len(got) != 1 || got[0] != row.want) {
			t.Errorf("%.60q: %.60q, %v", row.value, got, err)
		}
	}
}

func TestVariables(t *testing.T) {
	var h batch.HeadersBuffer
	h.Add([]byte("a"), []byte("first"))
	h.Add([]byte("n"), nil)
	h.Add([]byte("a"), []byte("last"))
	r := &bridge.Record{Source: "east", Topic: "orders", Partition: 3, Offset: 1 << 40, Timestamp: 1_700_000_000_123, Key: []byte("k"), Headers: h.Headers()}
	p, err := Compile("[., $key, $headers, $source, $topic, $partition, $offset, $timestamp]")
	if err != nil {
		t.Fatal(err)
	}
	var in Input
	for _, value := range []string{"1", "2"} {
		r.Value = []byte(value)
		if err := in.Begin(r); err != nil {
			t.Fatal(err)
		}
		want := "[" + value + `,"k",{"a":"last","n":null},"east","orders",3,1099511627776,1700000000123]`
		if err := p.Values(&in, func(text []byte) error {
			if string(text) != want {
				t.Errorf("got %s, want %s", text, want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		r.Key, want = nil, strings.Replace(want, `"k"`, "null", 1)
		if err := in.Begin(r); err != nil {
			t.Fatal(err)
		}
		if err := p.Values(&in, func(text []byte) error {
			if string(text) != want {
				t.Errorf("got %s, want %s", text, want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		r.Key = []byte("k")
	}
	r.Key = []byte{0xff}
	if err := in.Begin(r); err != nil {
		t.Fatal(err)
	}
	if err := p.Values(&in, func([]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "no UTF-8") {
		t.Errorf("a binary key became text: %v", err)
	}
}

// TestClosed: nothing but the record.
func TestClosed(t *testing.T) {
	for _, name := range closed {
		for _, program := range []string{name, "[.[] | " + name + "]", "def f: " + name + "; f", `"\(` + name + `)"`, "{a: (" + name + ")}", "reduce .[] as $x (0; " + name + ")",
			"if . then 1 else " + name + " end", "try " + name + " catch .", ".[" + name + "]", "path(" + name + ")", ". as [$a] ?// $a | " + name} {
			_, err := Compile(program)
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, name+" is closed here") {
				t.Errorf("%s: %v", program, err)
			}
		}
	}
	for _, program := range []string{`import "a" as a; .`, `include "a"; .`, `import "a" as $a; $a`, `strptime("%Z")`, `$__prog_args`, `nosuch`, `.a |`, `break $x`, "get_search_list", `input_filename`} {
		if _, err := Compile(program); err == nil {
			t.Errorf("%s compiles", program)
		}
	}
	if _, err := Compile(strings.Repeat(" ", maxText+1)); err == nil {
		t.Error("a text without end was accepted")
	}
}

// TestEndless: the limit is counted, so it is hit at the same output every time.
func TestEndless(t *testing.T) {
	for program, want := range map[string]string{
		"def f: f; f": "does not end", "last(repeat(1))": "does not end", "[range(infinite)] | length": "does not end", "until(false; . + 1)": "does not end",
		"range(1e9) | select(. % 100 == 0)": "does not end", "repeat(.)": "more than 10000 outputs", "range(10001)": "more than 10000 outputs",
		`("x" * 1000000) as $x | range(100) | $x`: "bytes",
	} {
		p, err := Compile(program)
		if err != nil {
			t.Fatal(err)
		}
		in, outputs := Input{budget: 200_000}, []int{}
		for range 2 {
			if err := in.Begin(&bridge.Record{Value: []byte("1")}); err != nil {
				t.Fatal(err)
			}
			n := 0
			err := p.Values(&in, func([]byte) error { n++; return nil })
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", program, err)
			}
			outputs = append(outputs, n)
		}
		if outputs[0] != outputs[1] {
			t.Errorf("%s: %v outputs", program, outputs)
		}
	}
	if got, err := run(t, "range(10000)", "1"); err != nil || len(got) != 10_000 {
		t.Errorf("%d, %v", len(got), err)
	}
}

func TestKeyAndHeaders(t *testing.T) {
	var in Input
	if err := in.Begin(&bridge.Record{Value: []byte(`{"s":"x\"","n":1.50,"o":{"a":1},"z":null,"h":{"b":1,"a":"t","c":null}}`)}); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{".s": `x"`, ".n": "1.50", ".o": `{"a":1}`, ".s, .n": "more than one output", "empty": "no output", `error("x")`: "error: x", ".s.a": "expected an object"} {
		p, err := Compile(program)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Key(&in)
		if text := string(got); text != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v", program, text, err)
		}
	}
	p, _ := Compile(".z")
	if got, err := p.Key(&in); got != nil || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	p, _ = Compile(".h")
	var buf batch.HeadersBuffer
	buf.Add([]byte("old"), nil)
	if err := p.Headers(&in, &buf); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range buf.Headers().AppendTo(nil) {
		got = append(got, fmt.Sprintf("%s=%s/%v", h.Key, h.Value, h.Value == nil))
	}
	if want := []string{"a=t/false", "b=1/false", "c=/true"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	p, _ = Compile(".s")
	if err := p.Headers(&in, &buf); err == nil || !strings.Contains(err.Error(), "must give an object") {
		t.Error(err)
	}
}

// TestProgramsAreShared by all source partitions of a bridge.
func TestProgramsAreShared(t *testing.T) {
	p, err := Compile(".a |= . + 1 | .b = ($key | ascii_upcase) | .c += [.a]")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for n := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var in Input
			for i := range 100 {
				if err := in.Begin(&bridge.Record{Key: []byte("k"), Value: fmt.Appendf(nil, `{"a":%d,"c":[0]}`, n*i)}); err != nil {
					t.Error(err)
				}
				if err := p.Values(&in, func(text []byte) error {
					if want := fmt.Sprintf(`{"a":%d,"b":"K","c":[0,%d]}`, n*i+1, n*i+1); string(text) != want {
						return fmt.Errorf("got %s, want %s", text, want)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wait.Wait()
}

func TestErrorsAreBounded(t *testing.T) {
	if _, err := run(t, `error(.)`, `"`+strings.Repeat("é", 1000)+`"`); err == nil || len(err.Error()) > 260 {
		t.Errorf("%v", err)
	}
}
