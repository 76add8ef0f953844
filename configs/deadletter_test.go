package configs

import (
	"slices"
	"strings"
	"testing"

	"kafkabridge/bridge"
)

func withDeadLetters(source, sinkBrokers, sink, dead string) string {
	return inBridge("source \"in\" {\nbrokers = [\"h:1\"]\n"+source+"\n}", "sink \"out\" {\nbrokers = ["+sinkBrokers+"]\n"+sink+"\ndead_letter { topic = \""+dead+"\" }\n}")
}

func TestDeadLetterTopicIsApart(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"a topic of its own", withDeadLetters(`topics = ["a"]`, `"h:1"`, `topic = "b"`, "d"), ""},
		{"the sink's", withDeadLetters(`topics = ["a"]`, `"h:1"`, `topic = "d"`, "d"), `9:23: Unsuitable value for topic: "d" is a topic of the sink block`},
		{"the sink's for one topic", withDeadLetters(`topics = ["a", "b"]`, `"h:1"`, `topic = "${topic}.x"`, "b.x"), `9:23: Unsuitable value for topic: "b.x" is a topic of the sink block`},
		{"the sink's with a regex", withDeadLetters(`topics_regex = "a.*"`, `"h:1"`, `topic = "d"`, "d"), `9:23: Unsuitable value for topic: "d" is a topic of the sink block`},
		{"read again", withDeadLetters(`topics = ["a", "d"]`, `"h:1"`, `topic = "b"`, "d"), `9:23: Unsuitable value for topic: On the same brokers the source "in" reads topic "d"`},
		{"read on another cluster", withDeadLetters(`topics = ["a", "d"]`, `"i:1"`, `topic = "b"`, "d"), ""},
		{"the ledger", withDeadLetters(`topics = ["a"]`, `"i:1"`, "topic = \"b\"\nledger_topic = \"l\"", "l"), `10:23: Unsuitable value for topic: "l" is the bridge's own ledger topic.`},
		{"no ledger", withDeadLetters(`topics = ["a"]`, `"i:1"`, "topic = \"b\"\nledger = false", "x.ledger"), ""},
	} {
		got := problems(t, c.src)
		if c.want == "" && got != nil || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDeadLetterTranslation(t *testing.T) {
	src := inBridge("source \"in\" {\nbrokers = [\"h:1\"]\ntopics_regex = \"[a-d].*\"\n}", "source \"far\" {\nbrokers = [\"f:1\"]\ntopics = [\"a\"]\n}",
		"map \"headers\" {\nremove = [\"a\"]\non_error = \"skip\"\n}", "map \"headers\" {\nremove = [\"a\"]\non_error = \"dead_letter\"\n}", "map \"headers\" {\nremove = [\"a\"]\n}",
		"sink \"out\" {\nbrokers = [\"h:1\"]\ntopic = \"out\"\non_reject = \"dead_letter\"\ndead_letter { topic = \"dead\" }\n}")
	f, err := Parse([]byte(src), "x.hcl")
	if err != nil {
		t.Fatal(err)
	}
	b := f.Bridges[0]
	var policies []bridge.Policy
	for _, m := range b.Options.Maps {
		policies = append(policies, m.OnError)
	}
	if !slices.Equal(policies, []bridge.Policy{"skip", "dead_letter", "fail"}) {
		t.Errorf("on_error %q", policies)
	}
	if o := b.Options.Sink; o.OnReject != "dead_letter" || o.DeadLetterTopic != "dead" || !slices.Equal(o.Reserved, []string{"x.ledger"}) || b.Sink.DeadLetterTopic != "dead" {
		t.Errorf("%+v, %q", o, b.Sink.DeadLetterTopic)
	}
	s := b.Options.Sources
	if !s[0].OnSinkCluster || s[1].OnSinkCluster || !slices.Contains(s[0].NeverMatch, "dead") || slices.Contains(s[1].NeverMatch, "dead") {
		t.Errorf("%+v", s)
	}
}
