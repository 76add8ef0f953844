package configs

import (
	"path/filepath"
	"strings"
	"testing"

	"kafkabridge/connect"
)

func saslOf(t *testing.T, src, dir string) *connect.SASL {
	t.Helper()
	f, err := Parse([]byte(src), filepath.Join(dir, "x.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Bridges[0].SourceConnections[0].SASL
}

func withPassword(expr string) string {
	return inSource("topics = [\"a\"]\nsasl {\nmechanism = \"PLAIN\"\nusername = \"u\"\npassword = " + expr + "\n}")
}

// TestPasswordsByteForByte: passwords as generators make them, with everything that HCL gives a meaning to.
func TestPasswordsByteForByte(t *testing.T) {
	for _, pw := range []string{
		`a$b$${c}%{d}\"e`, `${x}`, `$`, `%`, "with space ", "tab\t", "two\nlines", "a\rb", "ends with newline\n", `"quoted"`, `\n`,
		"e\u0301", // not in Unicode's normal form, to which HCL would bring it
		"\xff\xfe",
	} {
		dir := t.TempDir()
		t.Setenv("PW", pw)
		writeFile(t, dir, "pw", pw+"\n")
		writeFile(t, dir, "pw-crlf", pw+"\r\n")
		for _, expr := range []string{`env("PW")`, `"${env("PW")}"`, `file("pw")`, `file("pw-crlf")`, `env("NO_SUCH_VARIABLE", env("PW"))`} {
			if got := saslOf(t, withPassword(expr), dir).Password; got != pw {
				t.Errorf("%s is %q, want %q", expr, got, pw)
			}
		}
	}
}

func TestPasswordInQuotes(t *testing.T) {
	const want = `a$b$${c}%{d}\"e`
	if got := saslOf(t, withPassword(`"a$b$$${c}%%{d}\\\"e"`), "").Password; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHeredocPasswordIsRefused(t *testing.T) {
	got := problems(t, withPassword("<<EOT\nabc\nEOT\n"))
	if len(got) != 1 || !strings.HasPrefix(got[0], "8:12: Unsuitable value for password: password ends with a line break") {
		t.Error(got)
	}
}

func TestEnv(t *testing.T) {
	t.Setenv("EMPTY", "")
	for expr, want := range map[string]string{
		`env("EMPTY")`: "", `env("EMPTY", "x")`: "", `env("NO_SUCH_VARIABLE", "")`: "", `env("NO_SUCH_VARIABLE", "127.0.0.1:9")`: "127.0.0.1:9",
	} {
		f, err := Parse([]byte(inBridge(goodSource, goodSink)+"server {\nlisten = "+expr+"\n}"), "x.hcl")
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		} else if f.Server.Listen != want {
			t.Errorf("%s is %q, want %q", expr, f.Server.Listen, want)
		}
	}
}

// TestEnvHasEveryType: numbers and booleans come out of the environment as strings.
func TestEnvHasEveryType(t *testing.T) {
	t.Setenv("N", "3")
	t.Setenv("B", "false")
	t.Setenv("S", "2048")
	f, err := Parse([]byte(inBridge(`workers = env("N")`, goodSource, "sink \"out\" {\nbrokers = [\"h:1\"]\ntopic = \"b\"\ncreate_topics = env(\"B\")\nmax_message_bytes = env(\"S\")\n}")), "x.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if o := f.Bridges[0].Options; o.Workers != 3 || o.Sink.CreateTopics || o.Sink.MaxMessageBytes != 2048 {
		t.Errorf("%+v", o)
	}
}

func TestLineEndsAndByteOrderMark(t *testing.T) {
	src := "\ufeff" + strings.ReplaceAll(inBridge("\t# ä", goodSource, goodSink), "\n", "\r\n")
	f, err := Parse([]byte(src), "x.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Bridges[0].Options.Sources[0].Topics; len(got) != 1 || got[0] != "a" {
		t.Errorf("%q", got)
	}
}

func TestSizesAndDurations(t *testing.T) {
	for expr, want := range map[string]int32{`"1024B"`: 1024, `"2KiB"`: 2048, `"3 MiB"`: 3 << 20, `"1GiB"`: 1 << 30, `4096`: 4096} {
		f, err := Parse([]byte(inSource("topics = [\"a\"]\nfetch_max_bytes = "+expr)), "x.hcl")
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		} else if got := f.Bridges[0].Options.Sources[0].FetchMaxBytes; got != want {
			t.Errorf("%s is %d, want %d", expr, got, want)
		}
	}
	for expr, want := range map[string]float64{`"1s"`: 1, `"1h30m"`: 5400, `"500ms"`: 0.5} {
		f, err := Parse([]byte(inSource("topics = [\"a\"]\ndiscover = "+expr)), "x.hcl")
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		} else if got := f.Bridges[0].Options.Sources[0].Discover.Seconds(); got != want {
			t.Errorf("%s is %v, want %v", expr, got, want)
		}
	}
}

// TestFileOfAPassword: only what is wholly a file's text is read again later.
func TestFileOfAPassword(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "pw", "x\n")
	t.Setenv("PW", "x")
	t.Setenv("PW_FILE", "pw")
	for expr, want := range map[string]string{
		`file("pw")`: "pw", `file(env("PW_FILE"))`: "pw", `env("PW")`: "", `"x"`: "", `"y${file("pw")}"`: "", `"${env("PW")}${file("pw")}"`: "",
	} {
		s := saslOf(t, withPassword(expr), dir)
		switch {
		case want == "" && s.PasswordFile != nil:
			t.Errorf("%s is read again from %s", expr, s.PasswordFile)
		case want != "" && (s.PasswordFile == nil || s.PasswordFile.String() != filepath.Join(dir, want)):
			t.Errorf("%s: file %v", expr, s.PasswordFile)
		}
	}
}
