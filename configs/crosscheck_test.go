package configs

import (
	"slices"
	"strings"
	"testing"
)

// two are two bridges that work side by side; each test makes them collide.
const two = `
bridge "a" {
  semantic = "EXACTLY_ONCE"
  source "in" {
    brokers = ["h:1"]
    topics = ["x"]
  }
  sink "out" {
    brokers = ["h:1", "i:1"]
    topic = "y"
    transactional_id = "ta"
  }
  checkpoint { path = "sa" }
}
bridge "b" {
  semantic = "EXACTLY_ONCE"
  source "in" {
    brokers = ["h:1"]
    topics = ["y"]
  }
  sink "out" {
    brokers = ["i:1"]
    topic = "z"
    transactional_id = "tb"
  }
  checkpoint { path = "sb" }
}
`

func TestTwoBridges(t *testing.T) {
	if got := problems(t, two); got != nil {
		t.Fatal(got)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"sb"`, `"../configs/sa"`, `26:23: Shared state directory: Bridge "a" has the same checkpoint.path`},
		{`"tb"`, `"ta"`, `24:24: Shared transactional ids: Bridge "a" has the same transactional_id on the same brokers`},
		{`bridge "b"`, `bridge "a"`, `15:8: Duplicate bridge name`},
	} {
		got := problems(t, strings.Replace(two, c.old, c.new, 1))
		if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s → %s: %q, want %q", c.old, c.new, got, c.want)
		}
	}
	elsewhere := strings.Replace(strings.Replace(two, `"tb"`, `"ta"`, 1), `["i:1"]`, `["j:1"]`, 1)
	if got := problems(t, elsewhere); got != nil {
		t.Errorf("the same transactional id on another cluster: %q", got)
	}
}

func copying(source, sinkBrokers, topic string) string {
	return inBridge("source \"in\" {\nbrokers = [\"h:1\", \"g:1\"]\n"+source+"\n}", "sink \"out\" {\nbrokers = ["+sinkBrokers+"]\ntopic = "+topic+"\n}")
}

func TestLoops(t *testing.T) {
	for _, c := range []struct{ name, source, brokers, topic, want string }{
		{"onto itself", `topics = ["a"]`, `"h:1"`, `"a"`, `8:9: Endless loop: On the same brokers the source "in" reads topic "a"`},
		{"onto itself by name", `topics = ["a"]`, `"H:1"`, `"${topic}"`, `8:9: Endless loop`},
		{"one broker in common", `topics = ["a"]`, `"x:1", "g:1"`, `"a"`, `8:9: Endless loop`},
		{"many into one of them", `topics = ["a", "b"]`, `"h:1"`, `"b"`, `8:9: Endless loop`},
		{"in a circle", `topics = ["a", "b"]`, `"h:1"`, `topic == "a" ? "b" : "a"`, `8:9: Endless loop`},
		{"a chain", `topics = ["a", "x.a"]`, `"h:1"`, `"x.${topic}"`, ``},
		{"other cluster", `topics = ["a"]`, `"x:1"`, `"a"`, ``},
		{"ledger read", `topics = ["a", "x.ledger"]`, `"h:1"`, `"b"`, `4:10: Unsuitable value for topics: "x.ledger" is the bridge's own ledger topic.`},
		{"ledger written", `topics = ["a"]`, `"h:1"`, `"x.ledger"`, `8:9: Output into the ledger`},
		{"copies of copies", `topics_regex = ".*"`, `"h:1"`, `"copy.${topic}"`, `8:9: Endless loop: On the same brokers topics_regex of source "in" matches the topics that this bridge writes`},
		{"same names", `topics_regex = "a[0-9]+"`, `"h:1"`, `topic`, `8:9: Endless loop`},
		{"suffixes", `topics_regex = "orders\\..+"`, `"h:1"`, `"${topic}.copy"`, `8:9: Endless loop`},
		{"copies excluded", "topics_regex = \".*\"\ntopics_exclude = [\"copy[.].*\"]", `"h:1"`, `"copy.${topic}"`, ``},
		{"copies do not match", `topics_regex = "orders\\..*"`, `"h:1"`, `"copy.${topic}"`, ``},
		{"copies elsewhere", `topics_regex = ".*"`, `"x:1"`, `"copy.${topic}"`, ``},
		{"all into one", `topics_regex = ".*"`, `"h:1"`, `"all"`, ``},
	} {
		got := strings.Join(problems(t, copying(c.source, c.brokers, c.topic)), "\n")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestNeverMatch(t *testing.T) {
	other := "bridge \"other\" {\n" + goodSource + "\nsink \"s\" {\nbrokers = [\"g:1\"]\ntopic = \"o\"\n}\n}\n"
	for _, c := range []struct {
		source, brokers, topic string
		want                   []string
	}{
		{`topics_regex = ".*"`, `"h:1"`, `"all"`, []string{"x.ledger", "all", "other.ledger"}},
		{`topics_regex = "a"`, `"h:1"`, `"copy.${topic}"`, []string{"x.ledger", "other.ledger"}},
		{`topics_regex = ".*"`, `"x:1"`, `"all"`, []string{"other.ledger"}},
		{`topics = ["a"]`, `"h:1"`, `"all"`, nil},
	} {
		f, err := Parse([]byte(copying(c.source, c.brokers, c.topic)+other), "x.hcl")
		if err != nil {
			t.Error(err)
			continue
		}
		if got := f.Bridges[0].Options.Sources[0].NeverMatch; !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q", c, got)
		}
	}
}
