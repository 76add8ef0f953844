package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"kafkabridge/semantics"
)

// In the templates, every line of a base that works can be replaced or added to.
const goodSource = `source "in" {
  brokers = ["h:1"]
  topics = ["a"]
}`
const goodSink = `sink "out" {
  brokers = ["h:1"]
  topic = "b"
}`

func inBridge(parts ...string) string {
	return "bridge \"x\" {\n" + strings.Join(parts, "\n") + "\n}\n"
}
func inSource(lines string) string {
	return inBridge("source \"in\" {\nbrokers = [\"h:1\"]\n"+lines+"\n}", goodSink)
}
func inSink(lines string) string {
	return inBridge(goodSource, "sink \"out\" {\nbrokers = [\"h:1\"]\n"+lines+"\n}")
}
func exactlyOnce(parts ...string) string {
	return inBridge(append([]string{`semantic = "EXACTLY_ONCE"`, goodSource}, parts...)...)
}

// problems are summary lines "line:column: summary: detail" of what is wrong with src.
func problems(t *testing.T, src string) []string {
	t.Helper()
	_, err := Parse([]byte(src), "x.hcl")
	if err == nil {
		return nil
	}
	var se *semantics.Error
	if !errors.As(err, &se) || se.Class != semantics.Fatal || se.Exit != semantics.ExitUsage {
		t.Errorf("not a fatal error with exit code 2: %#v", err)
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("not an *Error: %v", err)
	}
	var out []string
	for _, d := range e.Diagnostics {
		at := d.Subject
		if at == nil {
			at = &hcl.Range{}
		}
		out = append(out, fmt.Sprintf("%d:%d: %s: %s", at.Start.Line, at.Start.Column, d.Summary, d.Detail))
	}
	return out
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string // beginnings, or "…" and a part of the text
	}{
		{"empty", "", []string{`1:1: Missing bridge block: At least one bridge "NAME" block`}},
		{"syntax", "bridge \"x\" {\n  source = \n}", []string{"2:12: Invalid expression"}},
		{"no label", "bridge {}", []string{"1:8: Missing name for bridge"}},
		{"unknown attribute", inBridge("sematic = 1", goodSource, goodSink), []string{`2:1: Unsupported argument: An argument named "sematic" is not expected here. Did you mean "semantic"?`}},
		{"unknown block", inBridge(goodSource, goodSink, "chekpoint {}"), []string{`10:1: Unsupported block type: Blocks of type "chekpoint" are not expected here. Did you mean "checkpoint"?`}},
		{"same attribute twice", inSource("topics = [\"a\"]\ntopics = [\"b\"]"), []string{"5:1: Attribute redefined"}},
		{"bad bridge name", "bridge \"a b\" {\n" + goodSource + "\n" + goodSink + "\n}", []string{`1:8: Unsuitable name: The name "a b" cannot be used`}},
		{"no source", inBridge(goodSink), []string{`1:1: Missing source block`}},
		{"no sink", inBridge(goodSource), []string{`1:1: Missing sink block`}},
		{"two sinks", inBridge(goodSource, goodSink, goodSink), []string{`10:1: Duplicate sink block: Only one sink block is allowed. Another was defined at x.hcl:6,1-11.`}},
		{"two checkpoints", exactlyOnce(goodSink, "checkpoint {}", "checkpoint {}"), []string{`12:1: Duplicate checkpoint block`}},
		{"two tls", inSource("topics = [\"a\"]\ntls {}\ntls {}"), []string{"6:1: Duplicate tls block"}},
		{"two logs", inBridge(goodSource, goodSink) + "log {}\nlog {}", []string{"12:1: Duplicate log block"}},
		{"source name twice", inBridge(goodSource, goodSource, goodSink), []string{`6:8: Duplicate source name: Another source "in" was defined at x.hcl:2,8-12`}},
		{"bridge name twice", inBridge(goodSource, goodSink) + inBridge(goodSource, goodSink), []string{`11:8: Duplicate bridge name`}},

		{"semantic in small letters", inBridge(`semantic = "exactly_once"`, goodSource, goodSink), []string{`2:12: Unsuitable value for semantic: semantic must be one of "NONE", "AT_LEAST_ONCE", "EXACTLY_ONCE", not "exactly_once". Did you mean "EXACTLY_ONCE"?`}},
		{"semantic misspelt", inBridge(`semantic = "EXACTLY_ONC"`, goodSource, goodSink), []string{`…Did you mean "EXACTLY_ONCE"?`}},
		{"semantic empty", inBridge(`semantic = ""`, goodSource, goodSink), []string{`2:12: Unsuitable value for semantic`}},
		{"semantic of another type", inBridge(`semantic = 2`, goodSource, goodSink), []string{`2:12: Unsuitable value for semantic: semantic takes a string, not a number.`}},
		{"exactly once without checkpoint", exactlyOnce(goodSink), []string{`2:12: Missing checkpoint block: EXACTLY_ONCE needs a checkpoint block`}},

		{"workers", inBridge("workers = 1.5", goodSource, goodSink), []string{"2:11: Unsuitable value for workers: workers takes a whole number."}},
		{"workers negative", inBridge("workers = -1", goodSource, goodSink), []string{"2:11: Unsuitable value for workers: workers must be from 0 to 1024."}},
		{"workers huge", inBridge("workers = 1e300", goodSource, goodSink), []string{"2:11: Unsuitable value for workers"}},

		{"brokers missing", inBridge("source \"in\" {\ntopics = [\"a\"]\n}", goodSink), []string{`2:1: Missing required argument: The argument "brokers" is required.`}},
		{"brokers null", inBridge("source \"in\" {\nbrokers = null\ntopics = [\"a\"]\n}", goodSink), []string{`2:1: Missing required argument: The argument "brokers" is required.`}},
		{"brokers empty", inBridge("source \"in\" {\nbrokers = []\ntopics = [\"a\"]\n}", goodSink), []string{`3:11: Unsuitable value for brokers: brokers must not be empty.`}},
		{"brokers a string", inBridge("source \"in\" {\nbrokers = \"h:1\"\ntopics = [\"a\"]\n}", goodSink), []string{`3:11: Unsuitable value for brokers: brokers takes a list of strings, such as ["a", "b"], not a string.`}},
		{"brokers with bad port", inBridge("source \"in\" {\nbrokers = [\"h:1\", \"h:70000\"]\ntopics = [\"a\"]\n}", goodSink), []string{`3:11: Unsuitable value for brokers: brokers takes a list of "host:port"; element 2 is none: "h:70000".`}},
		{"brokers with scheme", inBridge("source \"in\" {\nbrokers = [\"http://h:1\"]\ntopics = [\"a\"]\n}", goodSink), []string{`3:11: Unsuitable value for brokers`}},

		{"no topics", inSource(""), []string{`2:1: Missing required argument: Either topics or topics_regex is required.`}},
		{"topics and regex", inSource("topics = [\"a\"]\ntopics_regex = \"a\""), []string{`5:1: Conflicting arguments`}},
		{"exclude without regex", inSource("topics = [\"a\"]\ntopics_exclude = [\"a\"]"), []string{`5:1: Conflicting arguments: topics_exclude goes with topics_regex`}},
		{"topic with space", inSource(`topics = ["a b"]`), []string{`4:10: Unsuitable value for topics: Element 1 cannot be a topic's name: "a b"`}},
		{"topic twice", inSource(`topics = ["a", "c", "a"]`), []string{`4:10: Unsuitable value for topics: Element 3 is there twice: "a".`}},
		{"bad regex", inSource(`topics_regex = "a(("`), []string{`4:16: Unsuitable value for topics_regex: topics_regex is no regular expression`}},
		{"bad exclude", inSource("topics_regex = \"a\"\ntopics_exclude = [\"*\"]"), []string{`5:18: Unsuitable value for topics_exclude`}},
		{"regex with one backslash", inSource(`topics_regex = "a\.b"`), []string{`4:18: Invalid escape sequence`}},
		{"start", inSource("topics = [\"a\"]\nstart = \"LATEST\""), []string{`5:9: Unsuitable value for start: start must be "earliest", "latest", "committed" or a time such as "2026-01-31T12:00:00Z" (RFC 3339), not "LATEST". Did you mean "latest"?`}},
		{"start day", inSource("topics = [\"a\"]\nstart = \"2026-01-31\""), []string{`5:9: Unsuitable value for start`}},
		{"start_offsets key", inSource("topics = [\"a\"]\nstart_offsets = { \"a\" = 1 }"), []string{`5:17: Unsuitable value for start_offsets: The key "a" cannot be used: a key is "topic/partition"`}},
		{"start_offsets partition", inSource("topics = [\"a\"]\nstart_offsets = { \"a/-1\" = 1 }"), []string{`5:17: Unsuitable value for start_offsets: The key "a/-1" cannot be used`}},
		{"start_offsets negative", inSource("topics = [\"a\"]\nstart_offsets = { \"a/0\" = -1 }"), []string{`5:17: Unsuitable value for start_offsets: The offset of "a/0" is negative.`}},
		{"start_offsets other topic", inSource("topics = [\"a\"]\nstart_offsets = { \"c/0\" = 1 }"), []string{`5:17: Unsuitable value for start_offsets: The key "c/0" names a topic that this source does not read.`}},
		{"start_offsets regex", inSource("topics_regex = \"a.*\"\nstart_offsets = { \"ba/0\" = 1 }"), []string{`5:17: Unsuitable value for start_offsets: The key "ba/0" names`}},
		{"start_offsets type", inSource("topics = [\"a\"]\nstart_offsets = { \"a/0\" = [] }"), []string{`5:17: Unsuitable value for start_offsets: start_offsets takes a map of whole numbers`}},
		{"isolation", inSource("topics = [\"a\"]\nisolation_level = \"read-committed\""), []string{`5:19: Unsuitable value for isolation_level: isolation_level must be one of "read_committed", "read_uncommitted", not "read-committed". Did you mean "read_committed"?`}},
		{"group empty", inSource("topics = [\"a\"]\ngroup = \"\""), []string{`5:9: Unsuitable value for group: group must not be empty`}},
		{"on_gap", inSource("topics = [\"a\"]\non_gap = \"ignore\""), []string{`5:10: Unsuitable value for on_gap: on_gap must be one of "fail", "skip", not "ignore".`}},
		{"bare number", inSource("topics = [\"a\"]\ndiscover = 5"), []string{`5:12: Unsuitable value for discover: discover is a duration and needs a unit: "5s", "500ms", "1h30m".`}},
		{"bare number in quotes", inSource("topics = [\"a\"]\ndiscover = \"5\""), []string{`5:12: Unsuitable value for discover: discover is a duration with its unit`}},
		{"too short", inSource("topics = [\"a\"]\ncommit_interval = \"5us\""), []string{`5:19: Unsuitable value for commit_interval: commit_interval must be at least 10ms, not "5us".`}},
		{"size unit", inSource("topics = [\"a\"]\nfetch_max_bytes = \"50MB\""), []string{`5:19: Unsuitable value for fetch_max_bytes: fetch_max_bytes is a number of bytes with its unit, such as "1MiB" (units: B, KiB, MiB, GiB), not "50MB".`}},
		{"size too large", inSource("topics = [\"a\"]\nfetch_max_bytes = \"2GiB\""), []string{`5:19: Unsuitable value for fetch_max_bytes: fetch_max_bytes must be from 1024 to 2147483647 bytes.`}},
		{"size overflow", inSource("topics = [\"a\"]\nfetch_max_bytes = \"9999999999999999GiB\""), []string{`5:19: Unsuitable value for fetch_max_bytes`}},

		{"cert without key", inSource("topics = [\"a\"]\ntls { cert_file = \"c\" }"), []string{`5:1: Incomplete tls block: cert_file and key_file go together`}},
		{"sasl empty", inSource("topics = [\"a\"]\nsasl {}"), []string{`5:1: Missing required argument: The argument "mechanism" is required.`}},
		{"sasl mechanism", inSource("topics = [\"a\"]\nsasl {\nmechanism = \"SCRAM-SHA256\"\n}"), []string{`6:13: Unsuitable value for mechanism: mechanism must be one of "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", not "SCRAM-SHA256". Did you mean "SCRAM-SHA-256"?`}},
		{"sasl without password", inSource("topics = [\"a\"]\nsasl {\nmechanism = \"PLAIN\"\nusername = \"u\"\n}"), []string{`5:1: Missing required argument: The argument "password" is required.`}},
		{"sasl mixed", inSource("topics = [\"a\"]\nsasl {\nmechanism = \"PLAIN\"\nusername = \"u\"\npassword = \"p\"\ntoken_url = \"http://h\"\n}"), []string{`9:1: Unsupported argument: token_url has no meaning with mechanism = "PLAIN".`}},
		{"token file and url", inSource("topics = [\"a\"]\nsasl {\nmechanism = \"OAUTHBEARER\"\ntoken_file = \"no-such\"\ntoken_url = \"http://h\"\n}"), []string{
			`7:14: Unsuitable value for token_file: token_file cannot be used`, `8:1: Unsupported argument: token_url and token_file exclude each other`}},
		{"aws without tls", inSource("topics = [\"a\"]\nsasl {\nmechanism = \"AWS_MSK_IAM\"\nusername = \"u\"\n}"), []string{
			`6:13: Unsuitable value for mechanism: AWS_MSK_IAM is offered over TLS only`, `7:1: Unsupported argument: username has no meaning with mechanism = "AWS_MSK_IAM".`}},
		{"oauth", inSource("topics = [\"a\"]\nsasl {\nmechanism = \"OAUTHBEARER\"\ntoken_url = \"h/token\"\n}"), []string{
			`5:1: Missing required argument: The argument "client_id" is required.`, `5:1: Missing required argument: The argument "client_secret" is required.`,
			`7:13: Unsuitable value for token_url`}},

		{"map kind", inBridge(goodSource, `map "header" {}`, goodSink), []string{`6:5: Unknown kind of map: There is no map "header". The kinds are: "dedupe", "filter", "headers", "jq", "key", "mask", "route", "timestamp". Did you mean "headers"?`}},
		{"map attribute", inBridge(goodSource, "map \"headers\" {\nset = {}\nrenam = {}\n}", goodSink), []string{`8:1: Unsupported argument: An argument named "renam" is not expected here. Did you mean "rename"?`}},
		{"map without effect", inBridge(goodSource, `map "headers" {}`, goodSink), []string{`6:1: Map without effect`}},
		{"map type", inBridge(goodSource, "map \"headers\" {\nset = { a = 1 }\n}", goodSink), []string{`7:7: Unsuitable value for set: set takes a map of strings, such as { "a" = "b" }; the element "a" does not fit.`}},
		{"map contradiction", inBridge(goodSource, "map \"headers\" {\nrename = { a = \"b\" }\nremove = [\"a\"]\n}", goodSink), []string{`8:10: Unsuitable value for remove: The header "a" is in both remove and rename.`}},

		{"topic missing", inSink(""), []string{`6:1: Missing required argument: The argument "topic" is required`}},
		{"topic number", inSink("topic = 5"), []string{`8:9: Unsuitable value for topic: topic takes a string, not a number. Put it in quotes if it is meant.`}},
		{"topic name", inSink(`topic = "a/b"`), []string{`8:9: Unsuitable value for topic: This cannot be a topic's name ("a/b")`}},
		{"topic template name", inSink(`topic = "a/${topic}"`), []string{`8:9: Unsuitable value for topic: This cannot be a topic's name: a name has`}},
		{"topic variable", inSink(`topic = "a.${topics}"`), []string{`8:14: Unknown variable: There is no variable named "topics". Did you mean "topic"?`}},
		{"topic elsewhere", inSink("topic = \"b\"\nledger_topic = \"${topic}.l\""), []string{`9:19: Variables not allowed`}},
		{"partition", inSink("topic = \"b\"\npartition = \"keys\""), []string{`9:13: Unsuitable value for partition: partition must be one of "source", "key", not "keys". Did you mean "key"?`}},
		{"boolean", inSink("topic = \"b\"\ncreate_topics = \"yes\""), []string{`9:17: Unsuitable value for create_topics: create_topics takes true or false, not a string.`}},
		{"compression", inSink("topic = \"b\"\ncompression = \"LZ4\""), []string{`9:15: Unsuitable value for compression: compression must be one of "source", "none", "gzip", "snappy", "lz4", "zstd", not "LZ4". Did you mean "lz4"?`}},
		{"ledger topic without ledger", inSink("topic = \"b\"\nledger = false\nledger_topic = \"l\""), []string{`10:1: Conflicting arguments: ledger_topic has no meaning with ledger = false`}},
		{"ledger topic name", inSink("topic = \"b\"\nledger_topic = \"l l\""), []string{`9:16: Unsuitable value for ledger_topic`}},
		{"on_timeout", inSink("topic = \"b\"\non_timeout = \"skip\""), []string{`9:14: Unsuitable value for on_timeout: on_timeout must be one of "replay", "fail", not "skip".`}},

		{"on_reject", inSink("topic = \"b\"\non_reject = \"skip\""), []string{`9:13: Unsuitable value for on_reject: on_reject must be one of "fail", "dead_letter", not "skip".`}},
		{"on_reject without a topic", inSink("topic = \"b\"\non_reject = \"dead_letter\""), []string{`9:13: Unsuitable value for on_reject: on_reject = "dead_letter" needs a block dead_letter`}},
		{"on_error", inBridge(goodSource, "map \"headers\" {\nremove = [\"a\"]\non_error = \"drop\"\n}", goodSink), []string{`8:12: Unsuitable value for on_error: on_error must be one of "fail", "skip", "dead_letter", not "drop".`}},
		{"on_error without a topic", inBridge(goodSource, "map \"headers\" {\nremove = [\"a\"]\non_error = \"dead_letter\"\n}", goodSink), []string{`8:12: Unsuitable value for on_error: on_error = "dead_letter" needs a block dead_letter`}},
		{"dead_letter without a topic", inSink("topic = \"b\"\ndead_letter {}"), []string{`9:1: Missing required argument: The argument "topic" is required.`}},
		{"dead_letter twice", inSink("topic = \"b\"\ndead_letter { topic = \"d\" }\ndead_letter { topic = \"e\" }"), []string{`10:1: Duplicate dead_letter block`}},
		{"dead letter topic's name", inSink("topic = \"b\"\ndead_letter { topic = \"d d\" }"), []string{`9:23: Unsuitable value for topic: The dead letter topic cannot have this name`}},
		{"dead letter topic empty", inSink("topic = \"b\"\ndead_letter { topic = \"\" }"), []string{`9:23: Unsuitable value for topic: topic must not be empty`}},

		{"max_concurrent", exactlyOnce(goodSink, "checkpoint {\nmax_concurrent = 2\n}"), []string{`12:18: Unsuitable value for max_concurrent: max_concurrent must be 1`}},
		{"interval zero", exactlyOnce(goodSink, "checkpoint {\ninterval = \"0s\"\n}"), []string{`12:12: Unsuitable value for interval: interval must be at least 10ms, not "0s".`}},
		{"retain", exactlyOnce(goodSink, "checkpoint {\nretain = 0\n}"), []string{`12:10: Unsuitable value for retain: retain must be from 1 to 1000000.`}},
		{"path empty", exactlyOnce(goodSink, "checkpoint {\npath = \"\"\n}"), []string{`12:8: Unsuitable value for path: path must not be empty`}},
		{"transaction timeout too short", exactlyOnce("sink \"out\" {\nbrokers = [\"h:1\"]\ntopic = \"b\"\ntransaction_timeout = \"15s\"\n}", "checkpoint {}"),
			[]string{`10:23: Transactions would time out: transaction_timeout (15s) must be longer than checkpoint.interval (5s; min_pause if that is longer: 0s) plus checkpoint.timeout (10s)`}},
		{"interval too long", exactlyOnce(goodSink, "checkpoint {\ninterval = \"15m\"\n}"), []string{`12:12: Transactions would time out`}},
		{"restart", inBridge(goodSource, goodSink, "restart {\nbackoff = \"1m\"\nbackoff_max = \"1s\"\n}"), []string{`12:15: Unsuitable value for backoff_max: backoff_max (1s) must not be below backoff (1m0s).`}},
		{"listen", inBridge(goodSource, goodSink) + "server {\nlisten = \"8080\"\n}", []string{`12:10: Unsuitable value for listen`}},
		{"level", inBridge(goodSource, goodSink) + "log {\nlevel = \"warning\"\n}", []string{`12:9: Unsuitable value for level: level must be one of "trace", "debug", "info", "warn", "error", not "warning". Did you mean "warn"?`}},
		{"env unset", inSource(`topics = [env("NO_SUCH_VARIABLE")]`), []string{`4:11: Error in function call: Call to function "env" failed: environment variable "NO_SUCH_VARIABLE" is not set, and there is no default.`}},
		{"env arguments", inSource(`topics = [env("A", "B", "C")]`), []string{`…env takes a name and perhaps a default`}},
		{"file missing", inSource(`topics = [file("no-such-file")]`), []string{`4:11: Error in function call: Call to function "file" failed: cannot read file "no-such-file": no such file or directory.`}},
		{"file a directory", inSource(`topics = [file(".")]`), []string{`4:11: Error in function call: Call to function "file" failed: cannot read file ".": not a regular file.`}},
		{"unknown function", inSource(`topics = [getenv("A")]`), []string{`4:11: Call to unknown function`}},
		{"loops in loops", inSource("topics = [for a in [1] : [for b in [1] : [for c in [1] : c]]]"), []string{`4:42: Nested too deeply`}},
		{"two loops", inSource("topics = [for a in [for b in [\"x\"] : b] : a]\n nonsense = 1"), []string{`5:2: Unsupported argument`}},
		{"too deep", inSource("topics = " + strings.Repeat("[", 100)), []string{`4:72: Nested too deeply`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, c.src)
			if len(got) != len(c.want) {
				t.Fatalf("%d problems instead of %d:\n%s", len(got), len(c.want), strings.Join(got, "\n"))
			}
			for i, want := range c.want {
				if part, ok := strings.CutPrefix(want, "…"); ok && strings.Contains(got[i], part) || strings.HasPrefix(got[i], want) {
					continue
				}
				t.Errorf("got  %s\nwant %s", got[i], want)
			}
		})
	}
}

// TestAllProblemsAtOnce also is the golden text of an error as a user sees it.
func TestAllProblemsAtOnce(t *testing.T) {
	src := "bridge \"x\" {\n  semantic = \"eo\"\n  source \"in\" {\n    brokers = [\"h:1\"]\n  }\n  sink \"out\" {\n    brokers = [\"h:1\"]\n    topic = \"b\"\n    lingr = \"1s\"\n  }\n}\nlog { level = 1 }\n"
	_, err := Parse([]byte(src), "conf/x.hcl")
	want := `configuration: 4 problems

Error: conf/x.hcl:2:14: Unsuitable value for semantic

  on conf/x.hcl line 2, in bridge "x":
   2:   semantic = "eo"

semantic must be one of "NONE", "AT_LEAST_ONCE", "EXACTLY_ONCE", not "eo".

Error: conf/x.hcl:3:3: Missing required argument

  on conf/x.hcl line 3, in bridge "x":
   3:   source "in" {

Either topics or topics_regex is required.

Error: conf/x.hcl:9:5: Unsupported argument

  on conf/x.hcl line 9, in bridge "x":
   9:     lingr = "1s"

An argument named "lingr" is not expected here. Did you mean "linger"?

Error: conf/x.hcl:12:15: Unsuitable value for level

  on conf/x.hcl line 12, in log:
  12: log { level = 1 }

level takes a string, not a number. Put it in quotes if it is meant.`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// Many mistakes must not become a wall of text.
func TestProblemsAreBounded(t *testing.T) {
	var src strings.Builder
	for i := range 300 {
		fmt.Fprintf(&src, "nonsense%d = 1\n", i)
	}
	_, err := Parse([]byte(src.String()), "bridge.hcl")
	if err == nil || len(err.Error()) > 16<<10 || !strings.Contains(err.Error(), "more problems") {
		t.Errorf("%d bytes: %.200s", len(fmt.Sprint(err)), fmt.Sprint(err))
	}
}
