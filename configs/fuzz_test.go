package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"kafkabridge/semantics"
)

// fuzzSecret stands in the environment, as passwords do.
const fuzzSecret = "correct-horse-battery-staple"

// maxErrorBytes is what an error may have at most, whatever the file: about a thousand lines of a terminal.
const maxErrorBytes = 64 << 10

// FuzzParse looks for panics and hangs, for a file that is accepted and does not hold what the callers rely on, and for an
// error that has no place in the file, no end, or a secret in it.
func FuzzParse(f *testing.F) {
	f.Setenv("BRIDGE_FUZZ_SECRET", fuzzSecret)
	samples, err := fs.Glob(Samples, "*.hcl")
	if err != nil || len(samples) < 4 {
		f.Fatal(samples, err)
	}
	for _, name := range samples {
		b, err := Samples.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, s := range []string{
		"", "bridge", inSource("topics = [for x in [1] : x]"), inSink("topic = \"%{ if topic == \"a\" }b%{ endif }\""),
		withPassword("<<EOT\nx${1}\nEOT"), inSource(`start_offsets = { (1/0) = null }`), "sasl { password", "a = \"${\"${\"${",
		inSource(`topics = [env("BRIDGE_FUZZ_SECRET")]`), inSource(`topics_regex = env("BRIDGE_FUZZ_SECRET")["x"]`), withPassword(`env("BRIDGE_FUZZ_SECRET")`),
		inSink(`topic = "${env("BRIDGE_FUZZ_SECRET")}/${topic}"`), inSink(`linger = env("BRIDGE_FUZZ_SECRET")`),
		strings.Repeat("(", 1000), strings.Repeat("!", 10000), "a = " + strings.Repeat("-", 10000) + "1", "a = b" + strings.Repeat("[0]", 1000),
		strings.Repeat("a {\n", 1000), "a = 1" + strings.Repeat("+1", 5_000), "a = b" + strings.Repeat("[0]", 5_000), "a = b" + strings.Repeat(".c", 5_000),
		"a = b" + strings.Repeat(".*", 5_000), "a = " + strings.Repeat("1 ? 2 : ", 5000) + "3",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Parse(src, "x.hcl")
		if err != nil {
			checkRefusal(t, err)
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
			for _, topic := range []string{"orders", "a.b-c_D", strings.Repeat("x", 249)} {
				if name, err := b.Options.Sink.Topic(topic); err != nil && strings.Contains(err.Error(), fuzzSecret) || len(name) > 249 {
					t.Errorf("sink topic of %q: %q, %v", topic, name, err)
				}
			}
		}
	})
}

// checkRefusal: exit code 2, every problem with file, line and column, in a text of bounded size without the secret.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var class *semantics.Error
	if !errors.As(err, &class) || class.Class != semantics.Fatal || class.Exit != semantics.ExitUsage {
		t.Fatalf("exit code is not 2: %v", err)
	}
	text := err.Error()
	if len(text) > maxErrorBytes {
		t.Errorf("an error of %d bytes", len(text))
	}
	if strings.Contains(text, fuzzSecret) {
		t.Errorf("the error shows the secret: %s", text)
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("no *Error: %v", err)
	}
	if len(e.Diagnostics) == 0 {
		t.Error("an error without a problem")
	}
	for _, diag := range e.Diagnostics[:min(len(e.Diagnostics), 10)] {
		checkPlace(t, diag, text)
	}
}

func checkPlace(t *testing.T, diag *hcl.Diagnostic, text string) {
	t.Helper()
	s := diag.Subject
	if s == nil || s.Filename != "x.hcl" || s.Start.Line < 1 || s.Start.Column < 1 {
		t.Errorf("%s: at %v", diag.Summary, s)
		return
	}
	if place := fmt.Sprintf("x.hcl:%d:%d: ", s.Start.Line, s.Start.Column); !strings.Contains(text, place) {
		t.Errorf("%s is not in: %s", place, text)
	}
}
