package jq

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
)

// TestLargeValues: each of these used up the memory of the process in a few steps, or never came to an end, because of what the
// record holds. Go cannot recover from either.
func TestLargeValues(t *testing.T) {
	const many = `{"n":2000000000,"at":[500000000],"s":"0123456789","list":[1],"rows":%s}`
	value := fmt.Sprintf(many, "["+strings.Repeat("[],", 30_000)+"["+strings.Repeat("1,", 30_000)+"1]]")
	for _, program := range []string{
		`.s * .n`, `.n * .s`, `.s *= .n | .s`, `.list[.at[0]] = 1`, `.list[.at[0]] |= 1`, `.list[.at[0]] += 1`, `.list | setpath([500000000]; 1)`, `.at as $p | .list | setpath($p; 1)`,
		`.at as $p | .list | getpath($p) = 1`, `fromstream([.at, 1], [.at])`, `.rows | transpose`,
		`reduce range(40) as $i (.s; . + .)`, `reduce range(40) as $i (.s; . += .)`, `reduce range(40) as $i (.list; . + .)`, `reduce range(40) as $i (.s; "\(.)\(.)")`,
		`reduce range(40) as $i (.s; [., .] | add)`, `reduce range(40) as $i (.s; add(., .))`, `reduce range(40) as $i (.s; [., .] | join(""))`,
		`reduce range(60) as $i (.s; [., .])`, `reduce range(60) as $i (.s; [., .]) | tojson`,
		`reduce range(60) as $i (.s; [., .]) | flatten`, `reduce range(60) as $i (.n; . * .)`, `reduce range(60) as $i (.n; . *= .)`,
		`reduce range(100000) as $i (1; [.])`, `reduce range(100000) as $i (1; [.]) | tojson`, `def f: . + .; reduce range(40) as $i (.s; f)`, `{a: (.s * .n)}`, `[.s, (.s * .n)]`, `.[.s * .n]`,
	} {
		got, err := run(t, program, value)
		if err == nil || !strings.Contains(err.Error(), "too large here") || len(got) > 0 {
			t.Errorf("%s: %.100v, %v", program, got, err)
		}
	}
}

// TestBoundsChangeNothing: below the bounds a program gives what it gives without them, errors and the order of several outputs included.
func TestBoundsChangeNothing(t *testing.T) {
	const value = `{"a":1,"b":[1,2,3],"c":{"d":"x","e":[{"f":null}]},"s":"ab","rows":[[1,2],[3]],"big":123456789012345678901234567890,"n":null,"t":true}`
	for _, program := range []string{
		`(1, 2) + (10, 20)`, `(1, 2) * (10, 20)`, `[.a, .b] | add`, `.b | add`, `add(.b[])`, `add(empty)`, `null + 1`, `.b + .b`, `.c + {g: 1}`, `.c * {e: 1, d: {}}`, `.s + 1`, `.s * .b`, `.c * 2`, `.s * 0`,
		`.s * -1`, `.s * 2.5`, `3 * .s`, `.n * 2`, `.t + .t`, `.big * .big`, `.big + 1`, `.a += (1, 2)`, `.b[] *= 2`, `.b[1] += 5`, `.b[.a] += 5`, `.b[-1] = 0`, `.b[1:] = [9]`, `.b[10] = 1`, `.b[1.7]`, `.b[nan] = 1`,
		`path(.b[.a])`, `path(.c.e[0].f)`, `[paths]`, `path(1 + 1)`, `try (.s + 1) catch .`, `try (.s * .b) catch .`, `.["a" + ""]`, `.c["d", "e"]`, `.c | .["e"][0]`, `.b | .[1:][0]`, `.c[.s]`, `.b[.s]`,
		`getpath(["c", "e", 0, "f"])`, `path(getpath(["c", "d"]))`, `setpath(["c", "d"]; (1, 2))`, `setpath((["a"], ["b"]); (1, 2))`, `getpath(1)`, `setpath(1; 1)`, `delpaths([["a"]])`, `[tostream]`, `fromstream(tostream)`,
		`fromstream(1 | truncate_stream([[0], 1], [[1, 0], 2], [[1, 0]], [[1]]))`, `.rows | transpose`, `.c | transpose`, `.b | join(",")`, `.b | join(",", "-")`, `.c | join(",")`, `.b | join(1)`, `tojson`, `.b | tostring`, `.s | tostring`,
		`[[1, [2]], 3] | flatten`, `[[1, [2]], 3] | flatten(0, 1)`, `flatten(-1)`, `"x\(.a)y\(.b, .s)z"`, `@json "v=\(.c)"`, `@base64 "\(.s)\("\(.a)")"`, `@csv "\(.b)"`, `{"k\(.a)": .s + "!"}`, `{(.s * 2): 1}`, `-(.a + 1)`,
		`reduce .b[] as $x (0; . + $x)`, `foreach .b[] as $x (0; . + $x; . * 2)`, `def _add(l; r): "mine"; 1 + 1`, `def add: "mine"; .b | add`, `def f(x): x * x; f(.b[])`, `.a as [$x] ?// $x | $x + 1`, `label $out | .b[] | ., break $out`,
		`limit(2; .b[] + 1)`, `[.b[] | . * 2 | select(. > 2)]`, `.c |= with_entries(.value |= tojson)`, `[splits("a")?]`, `.s | gsub("a"; "b" * 2)`, `.b | (first, last) |= . + 1`, `any(.b[]; . + 1 > 3)`, `input_line_number?`,
	} {
		if _, err := Compile(program); err != nil {
			if program != `input_line_number?` {
				t.Errorf("%s: %v", program, err)
			}
			continue
		}
		got, err := run(t, program, value)
		want, wrong := plainly(t, program, value)
		if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(err) != fmt.Sprint(wrong) {
			t.Errorf("%s: %v, %v; without bounds %v, %v", program, got, err, want, wrong)
		}
	}
}

// plainly runs a program on gojq alone.
func plainly(t *testing.T, program, value string) (outputs []string, err error) {
	t.Helper()
	query, err := gojq.Parse(program)
	if err != nil {
		t.Fatal(err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	for all := code.Run(v); ; {
		out, ok := all.Next()
		if !ok {
			return outputs, nil
		}
		if err, ok := out.(error); ok {
			return outputs, err
		}
		text, err := gojq.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, string(text))
	}
}
