package expr

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"kafkabridge/batch"
	"kafkabridge/bridge"
)

func record(value string) *bridge.Record {
	var headers batch.HeadersBuffer
	headers.Add([]byte("a"), []byte("first"))
	headers.Add([]byte("b"), nil)
	headers.Add([]byte("a"), []byte("last"))
	headers.Add([]byte("x-y"), []byte("\xff"))
	return &bridge.Record{Source: "east", Topic: "orders", Partition: 3, Offset: 1 << 40, Timestamp: 1_700_000_000_123, Key: []byte("kéy"),
		Value: []byte(value), Headers: headers.Headers()}
}

func compile(t testing.TB, text string, want Result) *Program {
	t.Helper()
	p, err := Compile(text, want)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

const sample = `{"id":77,"big":18446744073709551615,"neg":-9223372036854775808,"f":1.5,"user":{"name":"Zo\u00eb","tags":["a","b"]},` +
	`"items":[{"sku":"s1","qty":2},{"sku":"s2","qty":0}],"null":null,"on":true,"dup":1,"dup":2,"e":{}}`

func TestFilter(t *testing.T) {
	for text, want := range map[string]bool{
		`true`: true,
		`source == "east" && topic == "orders" && partition == 3 && offset == 1099511627776`: true,
		`timestamp == timestamp("2023-11-14T22:13:20.123Z")`:                                 true,
		`timestamp.getFullYear() == 2023 && timestamp.getMilliseconds() == 123`:              true,
		`timestamp - duration("1h") < timestamp("2023-11-14T22:00:00Z")`:                     true,
		`key == "kéy" && key.size() == 3 && key.startsWith("k") && key.matches("^k.y$")`:     true,
		`key.contains("é") && key + "x" == "kéyx" && key in ["kéy"]`:                         true,
		`key < "kf"`: false,
		`headers["a"] == "last" && headers.a == "last" && !("c" in headers) && headers["b"] == null`:           true,
		`has(headers.a) && !has(headers.c) && headers.size() == 3`:                                             true,
		`headers.exists(n, n == "x-y") && headers.all(n, n.size() > 0)`:                                        true,
		`headers[?"c"].orValue("none") == "none"`:                                                              true,
		`headers == {"a": "last", "b": null, "x-y": headers["x-y"]}`:                                           true,
		`json.id == 77 && json.id > 76 && json.id == 77.0 && json["id"] + 1 == 78`:                             true,
		`json.big == 18446744073709551615u && json.neg == -9223372036854775808 && json.f == 1.5`:               true,
		`json.user.name == "Zoë" && json.user.name.size() == 3`:                                                true,
		`json.user.tags == ["a", "b"] && "b" in json.user.tags && json.user.tags[1] == "b"`:                    true,
		`json.user.tags + ["c"] == ["a", "b", "c"] && size(json.user.tags) == 2`:                               true,
		`json.items.exists(i, i.sku == "s2" && i.qty == 0) && json.items.all(i, has(i.sku))`:                   true,
		`json.items.filter(i, i.qty > 0).map(i, i.sku) == ["s1"]`:                                              true,
		`json["null"] == null && json.on && type(json.id) == int && type(json) == map`:                         true,
		`json.dup == 2 && json.size() == 10`:                                                                   true,
		`has(json.id) && !has(json.nothing) && !has(json.user.nothing) && !has(json.id.x)`:                     true,
		`json.?user.?nothing.orValue(1) == 1 && json.?user.?name.hasValue()`:                                   true,
		`json.user == {"name": "Zoë", "tags": ["a", "b"]} && {"tags": ["a", "b"], "name": "Zoë"} == json.user`: true,
		`json.user == {"name": "Zoe", "tags": ["a", "b"]}`:                                                     false,
		`json.items == json.items && json.items != json.user.tags && json.e == {}`:                             true,
		`json.exists(k, k == "user") && json.map(k, k)[0] == "id"`:                                             true,
		`value.startsWith("{") && size(value) == size(string(value))`:                                          true,
		`json.user.name.lowerAscii() == "zoë" && base64.encode(bytes(key)) == "a8OpeQ=="`:                      true,
	} {
		p := compile(t, text, Bool)
		for range 2 { // the second time with what the first left behind
			var in Input
			if got, err := p.Bool(&in, record(sample)); err != nil || got != want {
				t.Errorf("%s: got %v, %v", text, got, err)
			}
		}
	}
}

// TestAbsent: null, empty, binary and what is no JSON.
func TestAbsent(t *testing.T) {
	binary := string([]byte{0xff, 0x00, 'a'})
	for _, row := range []struct {
		text       string
		key, value []byte
		want       string // "true", "false", or a part of the error
	}{
		{`key == null`, nil, nil, "true"},
		{`key == ""`, nil, nil, "false"},
		{`key == "" && value == ""`, []byte{}, []byte{}, "true"},
		{`key.startsWith("a")`, nil, nil, "no such overload"},
		{`value == null && json == null`, nil, nil, "true"},
		{`json.a == 1`, nil, nil, "no such key: a"},
		{`value != null && json.a == 1`, nil, nil, "false"},
		{`json.a == 1`, nil, []byte{}, "the value is empty, which is no JSON"},
		{`json.a == 1`, nil, []byte(`{"a":1`), "ends too early"},
		{`json.b == 1`, nil, []byte(`{"a":1}`), "no such key: b"},
		{`json == null`, nil, []byte(`null`), "true"},
		{`json == 5`, nil, []byte(` 5 `), "true"},
		{`json[0] == "x"`, nil, []byte(`["x"]`), "true"},
		{`json[1] == "x"`, nil, []byte(`["x"]`), "index out of bounds"},
		{`json.a`, nil, []byte(`{"a":1}`), "the expression gives int, and must give true or false"},
		{`key == b"\xff\x00a"`, nil, nil, "does not compile"},
		{`bytes(key) == b"\377\000a"`, []byte(binary), nil, "true"},
		{`key == value && key.size() == 3`, []byte(binary), []byte(binary), "true"},
		{`key == value`, []byte{0xff}, []byte{0xfe}, "false"},
		{`json.n == 1`, nil, []byte(`{"n":123456789012345678901234567890}`), "has more than 64 bits"},
		{`json.n > 1.0`, nil, []byte(`{"n":1e1000}`), "not in the range of a double"},
		{`json.n > 1.0`, nil, []byte(`{"n":1.000000000000000000001}`), "false"}, // a filter writes nothing
		{`json.m == 1`, nil, []byte(`{"n":123456789012345678901234567890,"m":1}`), "true"},
		{`json == {"n": 1}`, nil, []byte(`{"n":123456789012345678901234567890}`), "has more than 64 bits"},
		{`json == [1]`, nil, []byte(`[123456789012345678901234567890]`), "has more than 64 bits"},
		{`1 in json`, nil, []byte(`[2, 123456789012345678901234567890]`), "has more than 64 bits"},
	} {
		p, err := Compile(row.text, Bool)
		if err != nil {
			if row.want != "does not compile" {
				t.Errorf("%s: %v", row.text, err)
			}
			continue
		}
		var in Input
		got, err := p.Bool(&in, &bridge.Record{Key: row.key, Value: row.value})
		if shown := fmt.Sprint(got); err == nil && shown != row.want || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s of %q: got %v, %v, want %s", row.text, row.value, got, err, row.want)
		}
	}
}

func TestResults(t *testing.T) {
	in := &Input{}
	text := func(e string, want string) {
		t.Helper()
		if got, err := compile(t, e, Text).Text(in, record(sample)); err != nil || got != want {
			t.Errorf("%s: %q, %v", e, got, err)
		}
	}
	text(`topic + "-" + string(json.id)`, "orders-77")
	text(`string(json.big)`, "18446744073709551615")
	text(`json.user.tags.join("/")`, "a/b")
	bytesOf := func(e string, want []byte) {
		t.Helper()
		got, err := compile(t, e, Bytes).Bytes(in, record(sample))
		if err != nil || string(got) != string(want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %q, %v", e, got, err)
		}
	}
	bytesOf(`key`, []byte("kéy"))
	bytesOf(`headers["x-y"]`, []byte("\xff"))
	bytesOf(`headers["b"]`, nil)
	bytesOf(`null`, nil)
	bytesOf(`""`, []byte{})
	bytesOf(`b""`, []byte{})
	bytesOf(`b"\x00\xff"`, []byte{0, 0xff})
	bytesOf(`json["null"]`, nil)
	bytesOf(`has(json.x) ? json.x : key`, []byte("kéy"))
	for e, want := range map[string]int64{
		`timestamp`: 1_700_000_000_123, `json.id`: 77, `timestamp("2023-11-14T22:13:20.1239Z")`: 1_700_000_000_123, `timestamp + duration("1s")`: 1_700_000_001_123,
	} {
		if got, err := compile(t, e, Time).Time(in, record(sample)); err != nil || got != want {
			t.Errorf("%s: %d, %v", e, got, err)
		}
	}
	for e, want := range map[string]Result{`json.id`: Text, `json.f`: Time, `json.user`: Bytes, `json.on`: Bytes} {
		p := compile(t, e, want)
		var err error
		switch want {
		case Text:
			_, err = p.Text(in, record(sample))
		case Time:
			_, err = p.Time(in, record(sample))
		default:
			_, err = p.Bytes(in, record(sample))
		}
		if err == nil || !strings.Contains(err.Error(), "must give") {
			t.Errorf("%s: %v", e, err)
		}
	}
}

// TestNumbersAreNotRounded where the result is written: it would be another number, and nobody would notice.
func TestNumbersAreNotRounded(t *testing.T) {
	for number, want := range map[string]string{
		"1.5": "1.5", "0.1": "0.1", "100.0": "100", "1e2": "100", "12345.678901234": "12345.678901234", "0.30000000000000004": "0.30000000000000004",
		"9007199254740993": "9007199254740993", "-0.10": "-0.1", "1.7976931348623157e308": "1.7976931348623157e+308", "0.000": "0", "-0.0": "-0",
		"5e-324": "5e-324", "0e999999999": "0",
		"1.000000000000000000001": "more digits", "0.1234567890123456789": "more digits", "9007199254740993.0": "more digits", "1e1000": "range", "1e-1000": "range",
		"123456789012345678901": "64 bits", "-9223372036854775809": "64 bits", "2.4703282292062327e-324": "range",
	} {
		in := &Input{}
		got, err := compile(t, `string(json)`, Text).Text(in, &bridge.Record{Value: []byte(number)})
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %q, want %q", number, got, want)
		}
	}
}

// TestOrderIsTheSame: going through a map is in one order, however often it is done.
func TestOrderIsTheSame(t *testing.T) {
	for e, want := range map[string]string{
		`{"d": 1, "a": 2, "c": 3, "b": 4, "e": 5, "f": 6}.map(k, k).join("")`:             "abcdef",
		`dyn({"d": 1, "a": 2, "c": 3, "b": 4, "e": 5, "f": 6}).map(k, k).join("")`:        "abcdef",
		`[{"d": 1, "a": 2, "c": 3, "b": 4}].map(m, m.map(k, k).join("")).join("")`:        "abcd",
		`{3: "c", 1: "a", 2: "b"}.map(k, string(k)).join("")`:                             "123",
		`{"d": key, "a": key, "c": key, "b": key}.filter(k, k != "c").map(k, k).join("")`: "abd",
		`(json.on ? {"d": 1, "a": 2, "c": 3, "b": 4} : {}).map(k, k).join("")`:            "abcd",
		`json.map(k, k).join(" ")`:    "id big neg f user items null on dup e",
		`headers.map(k, k).join(" ")`: "a b x-y",
		`optional.of({"d": 1, "a": 2, "c": 3, "b": 4}).optMap(m, m.map(k, k).join("")).orValue("")`: "abcd",
	} {
		p := compile(t, e, Text)
		for range 30 {
			in := &Input{}
			if got, err := p.Text(in, record(sample)); err != nil || got != want {
				t.Fatalf("%s: %q, %v", e, got, err)
			}
		}
	}
}

func TestCost(t *testing.T) {
	bomb := `json.all(a, json.all(b, json.all(c, json.all(d, a + b + c + d != -1))))`
	list := "[" + strings.Repeat("1,", 200) + "1]"
	var first string
	for range 2 {
		in := &Input{}
		_, err := compile(t, bomb, Bool).Bool(in, &bridge.Record{Value: []byte(list)})
		if err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
			t.Fatalf("not stopped: %v", err)
		}
		if first == "" {
			first = err.Error()
		}
		if err.Error() != first {
			t.Errorf("%v, then %v", first, err)
		}
	}
	in := &Input{}
	if ok, err := compile(t, bomb, Bool).Bool(in, &bridge.Record{Value: []byte("[1,2,3]")}); err != nil || !ok {
		t.Errorf("%v %v", ok, err)
	}
	nested := "1"
	for i := range 5 {
		nested = fmt.Sprintf("[%s1].map(v%d, %s)", strings.Repeat("1,", 30), i, nested)
	}
	if _, err := Compile(nested+" == []", Bool); err == nil || !strings.Contains(err.Error(), "costs at least") {
		t.Errorf("%v", err)
	}
	if _, err := Compile(strings.Repeat("(", 40_000), Bool); err == nil {
		t.Error("a text without end was accepted")
	}
}

// TestCompileErrors: position, and an [Error] each.
func TestCompileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "line 1, column 1: the expression is empty",
		"key ==\n  kez":               "line 2, column 3: undeclared reference to 'kez'",
		"now() < timestamp":           "line 1, column 4: undeclared reference to 'now'",
		"key == 1":                    "line 1, column 5: found no matching overload",
		"topic.matches('(')":          "line 1, column 15: invalid matches argument",
		"timestamp('x') == timestamp": "line 1, column 11: invalid timestamp argument",
		"key.lowerCase() == 'a'":      "undeclared reference to 'lowerCase'",
		"headers.a == 3":              "found no matching overload",
		"[1, 2].map(x, x)":            "must give true or false",
		"optional.of(true)":           "must give true or false",
		"é && key":                    "line 1, column 1: ",
	} {
		_, err := Compile(text, Bool)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestOnly(t *testing.T) {
	for text, want := range map[string]bool{
		`true`: true, `topic == "a"`: true, `topic.startsWith("a") || partition in [1, 2]`: true, `source == "a"`: true, `topic == "a" && key == "b"`: false,
		`offset == 1`: false, `timestamp > timestamp("2020-01-01T00:00:00Z")`: false, `json.a == 1`: false, `"a" in headers`: false, `[1].all(i, i == partition)`: true,
		`[topic].all(key, key == "a")`: false, // taken for the variable: only dearer
	} {
		if got := compile(t, text, Bool).Only("source", "topic", "partition"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestIdentity(t *testing.T) {
	id := func(e string, value string) (ID, bool, error) {
		in := &Input{}
		r := record(value)
		return compile(t, e, Any).Identity(in, r)
	}
	same := func(a, b string) {
		t.Helper()
		x, _, err1 := id(a, sample)
		y, _, err2 := id(b, sample)
		if x != y || err1 != nil || err2 != nil {
			t.Errorf("%s and %s differ (%v, %v)", a, b, err1, err2)
		}
	}
	same(`1`, `1u`)
	same(`1`, `1.0`)
	same(`json.id`, `77`)
	same(`{"a": 1, "b": [2]}`, `{"b": [2.0], "a": 1u}`)
	same(`json.user`, `{"tags": ["a", "b"], "name": "Zoë"}`)
	same(`[key, topic]`, `["kéy", "orders"]`)
	seen := map[ID]string{}
	for _, e := range []string{`1`, `2`, `-1`, `1.5`, `18446744073709551615u`, `"1"`, `b"1"`, `""`, `b""`, `"\u0000"`, `true`, `false`, `[]`, `[[]]`, `{}`, `["a", "b"]`, `["ab"]`, `["a", ["b"]]`,
		`[["a"], "b"]`, `["a", "", "b"]`, `{"a": "b"}`, `{"a": "b", "c": "d"}`, `{"a": {"b": "c"}}`, `timestamp`, `duration("1s")`, `duration("2s")`, `[null]`, `[null, null]`, `key`, `value`, `json`} {
		got, known, err := id(e, sample)
		if err != nil || !known {
			t.Errorf("%s: %v %v", e, known, err)
		}
		if before, ok := seen[got]; ok {
			t.Errorf("%s and %s are the same", before, e)
		}
		seen[got] = e
	}
	if _, known, err := id(`json["null"]`, sample); known || err != nil {
		t.Errorf("null identifies something: %v", err)
	}
	for e, value := range map[string]string{`json`: strings.Repeat("[", 200) + strings.Repeat("]", 200), `json.a`: `{"a": 123456789012345678901}`, `[json]`: `1.000000000000000000001`} {
		if _, _, err := id(e, value); err == nil {
			t.Errorf("%s of %s has an identity", e, value)
		}
	}
	// This is durable: a state that was written before must mean the same after an update.
	got, _, _ := id(`["a", 1, null, {"k": true}]`, sample)
	if want := "5d43c73f9acb5f470112b4a3ebb215ac"; fmt.Sprintf("%x", got) != want { // SHA-256 of l s00000001a i00000001 n m s00000001k t e e, by hand
		t.Errorf("the identity of old changed: %x", got)
	}
}

// TestCellsAreNotMixedUp: what one evaluation read must not shine through the next, whatever it reads.
func TestCellsAreNotMixedUp(t *testing.T) {
	var in Input
	programs := map[*Program]func(n int) string{
		compile(t, `key + "|" + headers["h"] + "|" + string(json.n) + "|" + json.s + "|" + string(offset)`, Text): func(n int) string {
			return fmt.Sprintf("k%d|h%d|%d|s%d|%d", n, n, n*1000, n, n)
		},
		compile(t, `json.list.map(i, string(i.n) + i.s).join(",")`, Text): func(n int) string {
			var out []string
			for i := range 100 {
				out = append(out, fmt.Sprintf("%dx%d", n+i, n*i))
			}
			return strings.Join(out, ",")
		},
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := r.IntN(100_000)
		var list []string
		for i := range 100 {
			list = append(list, fmt.Sprintf(`{"n":%d,"s":"x%d"}`, n+i, n*i))
		}
		var h batch.HeadersBuffer
		h.Add([]byte("h"), fmt.Appendf(nil, "h%d", n))
		record := &bridge.Record{Key: fmt.Appendf(nil, "k%d", n), Offset: int64(n), Headers: h.Headers(),
			Value: fmt.Appendf(nil, `{"n":%d,"s":"s%d","list":[%s]}`, n*1000, n, strings.Join(list, ","))}
		for p, want := range programs {
			if got, err := p.Text(&in, record); err != nil || got != want(n) {
				t.Fatalf("got %.100q, %v, want %.100q", got, err, want(n))
			}
		}
	}
}

// TestPrograms are shared by all source partitions of a bridge.
func TestProgramsAreShared(t *testing.T) {
	p := compile(t, `json.id == offset && key.startsWith("k") && headers["a"] == "last"`, Bool)
	var wait sync.WaitGroup
	for n := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var in Input
			for i := range 200 {
				r := record(fmt.Sprintf(`{"id":%d}`, n*i))
				r.Offset = int64(n * i)
				if ok, err := p.Bool(&in, r); !ok || err != nil {
					t.Errorf("%v %v", ok, err)
					return
				}
			}
		}()
	}
	wait.Wait()
}

// TestErrorsAreBounded: they go into logs and headers.
func TestErrorsAreBounded(t *testing.T) {
	in := &Input{}
	long := strings.Repeat("é", 1000)
	for _, e := range []string{`headers[json] == "a"`, `int(json) == 1`, `json[0] == 1`} {
		_, err := compile(t, e, Bool).Bool(in, &bridge.Record{Value: []byte(`"` + long + `"`)})
		if err == nil || len(err.Error()) > 260 {
			t.Errorf("%s: %d bytes", e, len(fmt.Sprint(err)))
		}
	}
}
