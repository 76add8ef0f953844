package configs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"kafkabridge/maps"
)

func inMap(kind, lines string) string {
	return inBridge(goodSource, fmt.Sprintf("map %q {\n%s\n}", kind, lines), goodSink)
}

// The body of the map begins in line 7.
func TestMapProblems(t *testing.T) {
	t.Setenv("MASK_SECRET", planted)
	t.Setenv("A_PROGRAM", planted+" +")
	for _, c := range []struct{ name, src, want string }{
		{"filter without when", inMap("filter", ""), `6:1: Missing required argument: The argument "when" is required.`},
		{"filter null", inMap("filter", `when = null`), `6:1: Missing required argument: The argument "when" is required.`},
		{"filter empty", inMap("filter", `when = " "`), `7:9: Unsuitable value for when: This is no CEL: the expression is empty.`},
		{"filter unknown attribute", inMap("filter", "when = \"true\"\nwhere = \"true\""), `8:1: Unsupported argument`},
		{"filter syntax", inMap("filter", `when = "key == "`), `7:16: Unsuitable value for when: This is no CEL: Syntax error: mismatched input '<EOF>'`},
		{"filter unknown name", inMap("filter", `when = "true && ky == 'a'"`), `7:17: Unsuitable value for when: This is no CEL: undeclared reference to 'ky'`},
		{"filter type", inMap("filter", `when = "key == 3"`), `7:13: Unsuitable value for when: This is no CEL: found no matching overload for '_==_' applied to '(wrapper(string), int)'`},
		{"filter result", inMap("filter", `when = "key"`), `7:9: Unsuitable value for when: This is no CEL: the expression gives wrapper(string), and must give true or false.`},
		{"behind escapes", inMap("filter", `when = "key == \"a\" && ky"`), `7:25: Unsuitable value for when: This is no CEL: undeclared reference to 'ky'`},
		{"behind a unicode escape", inMap("filter", `when = "key == '\u00e9\U0001F600' && ky"`), `7:38: Unsuitable value for when`},
		{"behind an escaped template", inMap("filter", `when = "key == '$${a}' && ky"`), `7:27: Unsuitable value for when`},
		{"behind wide characters", inMap("filter", `when = "key == 'äöü' && ky"`), `7:25: Unsuitable value for when`},
		{"heredoc", inMap("filter", "when = <<EOT\nkey == 'a' ||\n  ky == 'b'\nEOT"), `9:3: Unsuitable value for when: This is no CEL: undeclared reference to 'ky'`},
		{"indented heredoc", inMap("filter", "when = <<-EOT\n    key == 'a' ||\n      ky == 'b'\n    EOT"), `9:7: Unsuitable value for when: This is no CEL: undeclared reference to 'ky'`},
		{"put together", inMap("filter", `when = "key == '${1}' && ky"`), `7:8: Unsuitable value for when: This is no CEL: line 1, column 15 of the text: undeclared reference to 'ky'`},
		{"from outside", inMap("filter", `when = env("A_PROGRAM")`), `7:8: Unsuitable value for when: This is no CEL: line 1, column`},
		{"clock", inMap("filter", `when = "timestamp < now()"`), `7:24: Unsuitable value for when: This is no CEL: undeclared reference to 'now'`},
		{"bad regular expression", inMap("filter", `when = "key.matches('a(')"`), `7:21: Unsuitable value for when: This is no CEL: invalid matches argument`},
		{"route result", inMap("route", `topic = "partition"`), `7:10: Unsuitable value for topic: This is no CEL: the expression gives int, and must give text.`},
		{"route null", inMap("route", `topic = "null"`), `7:10: Unsuitable value for topic: This is no CEL: the expression gives null_type, and must give text.`},
		{"key result", inMap("key", `from = "{1: 2}"`), `7:9: Unsuitable value for from: This is no CEL: the expression gives map(int, int), and must give text, bytes or null.`},
		{"timestamp result", inMap("timestamp", `from = "1.5"`), `7:9: Unsuitable value for from: This is no CEL: the expression gives double, and must give a timestamp or milliseconds since 1970 as int.`},
		{"set_expr", inMap("headers", "set_expr = {\n  a = \"key\"\n  b = \"ky\"\n}"), `9:8: Unsuitable value for set_expr: This is no CEL: undeclared reference to 'ky'`},
		{"set and set_expr", inMap("headers", "set = { a = \"b\" }\nset_expr = { a = \"key\" }"), `8:12: Unsuitable value for set_expr: The header "a" is in both set and set_expr.`},
		{"jq syntax", inMap("jq", `value = ".a |"`), `7:14: Unsuitable value for value: This is no jq: unexpected EOF.`},
		{"jq token", inMap("jq", `value = ".a ) | .b"`), `7:13: Unsuitable value for value: This is no jq: unexpected token ")"`},
		{"jq unknown function", inMap("jq", `value = ".a | fooo"`), `7:15: Unsuitable value for value: This is no jq: function not defined: fooo/0`},
		{"jq clock", inMap("jq", "value = <<EOT\n{a: .b,\n t: now}\nEOT"), `9:5: Unsuitable value for value: This is no jq: now is closed here`},
		{"jq environment", inMap("jq", `value = "{a: $ENV.HOME}"`), `7:14: Unsuitable value for value: This is no jq: $ENV is closed here`},
		{"jq env in text", inMap("jq", `value = "\"\\(env.HOME)\""`), `: This is no jq: env is closed here`},
		{"jq input", inMap("jq", `key = "[., input]"`), `7:12: Unsuitable value for key: This is no jq: input is closed here`},
		{"jq import", inMap("jq", `value = "import \"a\" as a; ."`), `7:10: Unsuitable value for value: This is no jq: modules cannot be read here`},
		{"jq nothing", inMap("jq", ``), `6:1: Map without effect`},
		{"mask without with", inMap("mask", `paths = ["a"]`), `6:1: Missing required argument: The argument "with" is required.`},
		{"mask without paths", inMap("mask", `with = "redact"`), `6:1: Missing required argument: The argument "paths" is required.`},
		{"mask empty paths", inMap("mask", "with = \"redact\"\npaths = []"), `8:9: Unsuitable value for paths: paths must not be empty.`},
		{"mask wrong with", inMap("mask", "paths = [\"a\"]\nwith = \"md5\""), `8:8: Unsuitable value for with: with must be one of "redact", "sha256", "hmac-sha256", not "md5".`},
		{"mask without secret", inMap("mask", "paths = [\"a\"]\nwith = \"hmac-sha256\""), `6:1: Missing required argument: The argument "secret" is required`},
		{"mask with empty secret", inMap("mask", "paths = [\"a\"]\nwith = \"hmac-sha256\"\nsecret = \"\""), `9:10: Unsuitable value for secret: secret must not be empty`},
		{"mask with needless secret", inMap("mask", "paths = [\"a\"]\nwith = \"sha256\"\nsecret = env(\"MASK_SECRET\")"), `9:1: Conflicting arguments: secret goes with with = "hmac-sha256".`},
		{"mask path", inMap("mask", "with = \"redact\"\npaths = [\"a\", \"b[x]\"]"), `8:18: Unsuitable value for paths: This is no path: only a number may stand in brackets`},
		{"dedupe without window", inMap("dedupe", `by = "key"`), `6:1: Missing required argument: Either window or records is required.`},
		{"dedupe with both", inMap("dedupe", "by = \"key\"\nwindow = \"1m\"\nrecords = 5"), `9:1: Conflicting arguments: window and records exclude each other.`},
		{"dedupe limit", inMap("dedupe", "by = \"key\"\nrecords = 5\nlimit = 5"), `9:1: Conflicting arguments: limit goes with window`},
		{"dedupe window", inMap("dedupe", "by = \"key\"\nwindow = \"1ms500us\""), `8:10: Unsuitable value for window: window must be whole milliseconds`},
		{"dedupe window too short", inMap("dedupe", "by = \"key\"\nwindow = \"0s\""), `8:10: Unsuitable value for window: window must be at least 1ms`},
		{"dedupe without by", inMap("dedupe", `records = 5`), `6:1: Missing required argument: The argument "by" is required.`},
		{"on_error of a free kind", inMap("filter", "when = \"true\"\non_error = \"ignore\""), `8:12: Unsuitable value for on_error`},
	} {
		got := problems(t, c.src)
		if len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, strings.Join(got, "\n     "), c.want)
		}
		if strings.Contains(strings.Join(got, "\n"), planted) {
			t.Errorf("%s shows the secret: %s", c.name, got)
		}
	}
}

func TestMapTranslation(t *testing.T) {
	t.Setenv("MASK_SECRET", "pepper")
	for _, c := range []struct {
		kind, lines string
		want        any
	}{
		{"filter", `when = "key != null"`, maps.FilterOptions{When: "key != null"}},
		{"route", `topic = "'a-' + topic"`, maps.RouteOptions{Topic: "'a-' + topic"}},
		{"key", `from = "json.id"`, maps.KeyOptions{From: "json.id"}},
		{"timestamp", `from = "json.ts"`, maps.TimestampOptions{From: "json.ts"}},
		{"headers", "set = { a = \"1\" }\nset_expr = { b = \"topic\" }", maps.HeadersOptions{Set: map[string]string{"a": "1"}, SetExpr: map[string]string{"b": "topic"}}},
		{"jq", "value = <<EOT\n.a\nEOT\nkey = \".id\"\nheaders = \"{}\"", maps.JQOptions{Value: ".a\n", Key: ".id", Headers: "{}"}},
		{"mask", "paths = [\"a.b\", \"c[]\"]\nwith = \"hmac-sha256\"\nsecret = env(\"MASK_SECRET\")", maps.MaskOptions{Paths: []string{"a.b", "c[]"}, With: maps.HMAC, Secret: "pepper"}},
		{"dedupe", "by = \"key\"\nwindow = \"90s\"\nlimit = 7", maps.DedupeOptions{By: "key", Window: 90 * time.Second, Limit: 7}},
		{"dedupe", "by = \"key\"\nrecords = 3", maps.DedupeOptions{By: "key", Records: 3, Limit: maps.DefaultDedupeLimit}},
	} {
		f, err := Parse([]byte(inMap(c.kind, c.lines)), "x.hcl")
		if err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		got := f.Bridges[0].Options.Maps[0]
		if got.Kind != c.kind || !reflect.DeepEqual(got.Settings, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.kind, got.Settings, c.want)
		}
		if _, err := maps.Kinds()[c.kind](got.Settings); err != nil {
			t.Errorf("%s: its factory refuses what was read: %v", c.kind, err)
		}
	}
}

// TestRegisteredKinds: the body of a kind that the caller registered is any attributes, as Go values.
func TestRegisteredKinds(t *testing.T) {
	t.Setenv("TOKEN", "raw e\u0301")
	src := inMap("enrich", "url = \"http://x\"\nn = 3\nf = 1.5\non = true\nlist = [1, \"a\", null]\nat = { k = [2] }\ntoken = env(\"TOKEN\")\nno = null\non_error = \"skip\"")
	if got := problems(t, src); len(got) != 1 || !strings.Contains(got[0], `There is no map "enrich"`) {
		t.Errorf("not registered: %v", got)
	}
	f, err := Parse([]byte(src), "x.hcl", "other", "enrich")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"url": "http://x", "n": int64(3), "f": 1.5, "on": true, "list": []any{int64(1), "a", nil},
		"at": map[string]any{"k": []any{int64(2)}}, "token": "raw e\u0301"}
	if got := f.Bridges[0].Options.Maps[0]; got.Kind != "enrich" || got.OnError != "skip" || !reflect.DeepEqual(got.Settings, want) {
		t.Errorf("got %#v\nwant %#v", got, want)
	}
	if _, err := Parse([]byte(inMap("enrich", "block {}")), "x.hcl", "enrich"); err == nil {
		t.Error("a block in a free body was accepted")
	}
	if _, err := Parse([]byte(inMap("enrih", "")), "x.hcl", "enrich"); err == nil || !strings.Contains(err.Error(), `"dedupe", "enrich", "filter"`) {
		t.Errorf("%v", err)
	}
}
