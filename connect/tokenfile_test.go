package connect

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// jwt has the claims in the place where RFC 7519 wants them, and no signature that anybody checks.
func jwt(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte(planted))
}

func TestTokenFileIsReadForEachConnection(t *testing.T) {
	p, brokers := proofBroker(t, OAuthBearer, nil)
	path := filepath.Join(t.TempDir(), "token")
	first, second := jwt(fmt.Sprintf(`{"sub":"bridge","exp":%d}`, time.Now().Add(time.Hour).Unix())), planted+"-opaque"
	write(t, path, []byte(first+"\n"))
	f, token, err := OpenSecretFile(path)
	must(t, err)
	if token != first {
		t.Fatalf("read %q", token)
	}
	o := Options{Brokers: brokers, SASL: &SASL{Mechanism: OAuthBearer, TokenFile: f}}
	_, err = tryOut(t, o)
	must(t, err)
	// RFC 7628, 3.1: the GS2 header without channel binding, then key=value pairs, each ended by 0x01.
	if got, want := string(p.last(t)), "n,,\x01auth=Bearer "+first+"\x01\x01"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	write(t, path, []byte(second))
	log, err := tryOut(t, o)
	must(t, err)
	if !strings.Contains(string(p.last(t)), second) || !strings.Contains(log, "the secret has been replaced") {
		t.Errorf("sent %q\n%s", p.last(t), log)
	}
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	more, err := tryOut(t, o)
	if err == nil || !strings.Contains(err.Error(), "refuses the token of "+path) {
		t.Errorf("%v", err)
	}
	if text := log + more + fmt.Sprint(err, o, *o.SASL, o.SASL); strings.Contains(text, second) || strings.Contains(text, first) {
		t.Errorf("a token is shown: %s", text)
	}
}

func TestTokenFileRespectsTheEnd(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct{ token, err, warning string }{
		"long":         {jwt(`{"iat":1799999000,"exp":1800003600}`), "", ""},
		"soon":         {jwt(`{"iat":1799996500,"exp":1800000100}`), "", "ends soon"},
		"soon, no iat": {jwt(`{"exp":1800000020}`), "", "ends soon"},
		"ended":        {jwt(`{"exp":1799999999}`), "ended at 2027-01-15T07:59:59Z", ""},
		"no end":       {jwt(`{"sub":"x"}`), "", ""},
		"absurd end":   {jwt(`{"exp":1e300}`), "", ""},
		"opaque":       {"abc", "", ""},
		"a.b.c":        {"a.b.c", "", ""},
		"two lines":    {"a\nb", "one line", ""},
	} {
		var log buffer
		tokens := fileTokens{file: NewSecretFile(write(t, filepath.Join(t.TempDir(), "token"), []byte(c.token)), c.token),
			log: hclog.New(&hclog.LoggerOptions{Output: &log}), now: func() time.Time { return now }}
		auth, err := tokens.authenticate(t.Context())
		switch {
		case c.err == "" && (err != nil || auth.Token != c.token):
			t.Errorf("%s: %v %q", name, err, auth.Token)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v", name, err)
		}
		if text := log.String(); c.warning == "" && text != "" || !strings.Contains(text, c.warning) || strings.Contains(text, c.token) {
			t.Errorf("%s: logged %q", name, text)
		}
	}
}

func TestExposed(t *testing.T) {
	for want, o := range map[string]Options{
		"the password": {Brokers: []string{"127.0.0.1:1", "kafka.example"}, SASL: &SASL{Mechanism: Plain}},
		"the token":    {Brokers: []string{"10.0.0.1:9092"}, SASL: &SASL{Mechanism: OAuthBearer}},
		"":             {Brokers: []string{"127.0.0.1:1", "localhost", "[::1]:9092"}, SASL: &SASL{Mechanism: Plain}},
	} {
		if got := o.Exposed(); got != want {
			t.Errorf("%v: %q, want %q", o.Brokers, got, want)
		}
		o.TLS = &TLS{}
		if got := o.Exposed(); got != "" {
			t.Errorf("%v with TLS: %q", o.Brokers, got)
		}
	}
}
