package configs

import (
	"regexp"
	"strings"
	"testing"
)

const planted = "S3cr3t-XYZ"

// secretPlaces are ways to get the planted secret into an attribute.
func secretPlaces(t *testing.T, dir string) map[string]string {
	t.Setenv("PLANTED", planted)
	writeFile(t, dir, "planted", planted+"\n")
	return map[string]string{
		"env":      `env("PLANTED")`,
		"file":     `file("planted")`,
		"default":  `env("NO_SUCH_VARIABLE", env("PLANTED"))`,
		"template": `"x${env("PLANTED")}"`,
		"choice":   `env("PLANTED") == "" ? "a" : env("PLANTED")`,
		"list":     `[env("PLANTED")]`,
		"map":      `{ (env("PLANTED")) = env("PLANTED") }`,
		"map2":     `{ a = env("PLANTED") }`,
		"key":      `{ (env("PLANTED")) = [] }`,
		"missing":  `{ a = 1 }[env("PLANTED")]`,
		"index":    `[1, 2][env("PLANTED")]`,
		"sum":      `1 + env("PLANTED")`,
		"attr":     `env("PLANTED").x`,
		"for":      `{ for k in [env("PLANTED")] : k => [k] }`,
		"twice":    `{ for k in [env("PLANTED"), env("PLANTED")] : k => k }`,
		"name":     `env(env("PLANTED"))`,
		"path":     `file(env("PLANTED"))`,
		"splat":    `env("PLANTED").*.x`,
	}
}

// TestSecretsOfTheEnvironment puts the secret into every attribute of the grammar, in every way, and looks for it in what comes out.
func TestSecretsOfTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	places := secretPlaces(t, dir)
	src := regexp.MustCompile(`(?m)\s*#.*$`).ReplaceAllString(string(uncommented(t)), "") // shorter is faster
	failed, tried, every := 0, 0, 1
	if raceDetector {
		every = 8 // no goroutine is in it; all of them run without the detector
	}
	for path, a := range paths(t, []byte(src)) {
		if a == nil {
			continue
		}
		for place, expr := range places {
			if tried++; tried%every != 0 {
				continue
			}
			cut := src[:a.Expr.Range().Start.Byte] + expr + src[a.Expr.Range().End.Byte:]
			_, err := Parse([]byte(cut), dir+"/x.hcl")
			if err == nil {
				continue
			}
			failed++
			if text := err.Error(); strings.Contains(text, planted) {
				t.Errorf("%s = %s shows the secret:\n%v", path, place, err)
			}
		}
	}
	if failed < 300/every {
		t.Errorf("only %d of the texts were errors", failed)
	}
}

// TestSecretsInTheFile writes the secret into the file itself, in ways right and wrong.
func TestSecretsInTheFile(t *testing.T) {
	for _, line := range []string{
		`password = "S3cr3t-XYZ"`,
		`password = "a${S3cr3t-XYZ}"`,
		`password = "a%{S3cr3t-XYZ}"`,
		`password = "a\S3cr3t-XYZ"`,
		`password = "S3cr3t-XYZ\q"`,
		`password = S3cr3t-XYZ`,
		`password = S3cr3t`,
		`password = 'S3cr3t-XYZ'`,
		`password = "S3cr3t-XYZ`,
		`password = S3cr3t-XYZ"`,
		`password = S3cr3t-XYZ("x")`,
		`password = env("PW", "S3cr3t-XYZ")`,
		`password = env("PW", "S3cr3t-XYZ"`,
		`password = ["S3cr3t-XYZ"]`,
		`password = { a = "S3cr3t-XYZ" }`,
		`password = ["x"]["S3cr3t-XYZ"]`,
		"password = (\n\"S3cr3t-XYZ\"\n+ 1)",
		"password = [\n\"x\",\n\"S3cr3t-XYZ\"\n",
		"password = <<EOT\nS3cr3t-XYZ\nEOT\n",
		"password = <<EOT\nS3cr3t-XYZ",
		"password = <<-EOT\n  S3cr3t-XYZ ${x}\n  EOT\n",
		`password "S3cr3t-XYZ"`,
		`password "S3cr3t-XYZ" {}`,
		`password: "S3cr3t-XYZ"`,
		`pasword = "S3cr3t-XYZ"`,
		`Password = "S3cr3t-XYZ"`,
		`pw = "S3cr3t-XYZ"`,
		`key = "S3cr3t-XYZ"`,
		`client-secret = "S3cr3t-XYZ"`,
		`client_secret = "S3cr3t-XYZ"`,
		`client_secret = S3cr3t-XYZ`,
		"password = \"x\"\npassword = \"S3cr3t-XYZ\"",
		`password = "S3cr3t-XYZ" username = "u"`,
		`username = "u" password = "S3cr3t-XYZ"`,
		"client_secrets {\n a = \"S3cr3t-XYZ\"\n}",
	} {
		for _, form := range []string{"sasl {\nmechanism = \"OAUTHBEARER\"\nusername = 5\n%s\n}", "%s\nlog {}", "sasl { %s }"} {
			text := strings.ReplaceAll(form, "%s", line)
			if strings.HasPrefix(text, "key") {
				continue // outside of sasl a key is no secret
			}
			_, err := Parse([]byte(inSource("topics = [\"a\"]\n"+text)), "x.hcl")
			if err == nil {
				t.Errorf("no error:\n%s", text)
				continue
			}
			if out := err.Error(); strings.Contains(out, "S3cr3t") || strings.Contains(out, "XYZ") {
				t.Errorf("%s\nshows the secret:\n%v", text, err)
			}
		}
	}
}

// TestNameInEnvIsShown: only the secret is blanked, the variable's name is what the user needs to know.
func TestNameInEnvIsShown(t *testing.T) {
	_, err := Parse([]byte(inSource("topics = [\"a\"]\nsasl {\nmechanism = \"PLAIN\"\nusername = \"u\"\npassword = env(\"NO_SUCH_VARIABLE\")\n}")), "x.hcl")
	for _, want := range []string{"x.hcl:8:12", `   8: password = env("NO_SUCH_VARIABLE")`, `environment variable "NO_SUCH_VARIABLE" is not set`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// TestSinkTopicKeepsSecrets: the topic function runs later, in other logs.
func TestSinkTopicKeepsSecrets(t *testing.T) {
	t.Setenv("PLANTED", planted)
	f, err := Parse([]byte(inSink(`topic = topic == "bad" ? env("PLANTED").x : (topic == "worse" ? "${env("PLANTED")}/" : "x")`)), "x.hcl")
	if err != nil {
		t.Skip("refused already at the start: ", err)
	}
	for _, topic := range []string{"bad", "worse"} {
		if to, err := f.Bridges[0].Options.Sink.Topic(topic); err == nil || strings.Contains(err.Error(), planted) {
			t.Errorf("%s: %q, %v", topic, to, err)
		}
	}
}
