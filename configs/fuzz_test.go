package configs

import (
	"errors"
	"strings"
	"testing"
)

// FuzzParse looks for panics and hangs, and for a file that is accepted and does not hold what the callers rely on.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"minimal.hcl", "reference.hcl", "two-clusters.hcl"} {
		b, err := Samples.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, s := range []string{
		"", "bridge", inSource("topics = [for x in [1] : x]"), inSink("topic = \"%{ if topic == \"a\" }b%{ endif }\""),
		withPassword("<<EOT\nx${1}\nEOT"), inSource(`start_offsets = { (1/0) = null }`), "sasl { password", "a = \"${\"${\"${",
		strings.Repeat("(", 1000), strings.Repeat("!", 10000), "a = " + strings.Repeat("-", 10000) + "1", "a = b" + strings.Repeat("[0]", 1000),
		strings.Repeat("a {\n", 1000), "a = 1" + strings.Repeat("+1", 5_000), "a = b" + strings.Repeat("[0]", 5_000), "a = b" + strings.Repeat(".c", 5_000),
		"a = b" + strings.Repeat(".*", 5_000), "a = " + strings.Repeat("1 ? 2 : ", 5000) + "3",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Parse(src, "x.hcl")
		if err != nil {
			var e *Error
			if errors.As(err, &e) && len(e.Error()) == 0 {
				t.Error("an error without text")
			}
			return
		}
		if len(file.Bridges) == 0 {
			t.Fatal("accepted without a bridge")
		}
		for _, b := range file.Bridges {
			if err := b.Options.Validate(); err != nil {
				t.Error(err)
			}
			if len(b.SourceConnections) != len(b.Options.Sources) || len(b.SinkConnection.Brokers) == 0 {
				t.Error("a connection is missing")
			}
		}
	})
}
