package connect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const planted = "S3cr3t-XYZ"

func TestValidateReportsAllProblemsAtOnce(t *testing.T) {
	o := Options{
		Brokers: []string{"kafka://a:9092", "b:99999", "ok:9092", "alone", "[::1]:9092"},
		TLS:     &TLS{CertFile: "c.pem"},
		SASL:    &SASL{Mechanism: "SCRAM-SHA-512", TokenURL: "http://x"},
	}
	got := fmt.Sprint(o.Validate())
	for _, want := range []string{`"kafka://a:9092"`, `"b:99999"`, "key_file", "username is missing", "password is missing", "token_url is not for"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 6 {
		t.Errorf("%d problems, want 6:\n%s", n, got)
	}
	for want, o := range map[string]Options{
		"brokers: none":          {},
		`mechanism "PLIAN"`:      {Brokers: []string{"a"}, SASL: &SASL{Mechanism: "PLIAN"}},
		"client_secret":          {Brokers: []string{"a"}, SASL: &SASL{Mechanism: OAuthBearer, TokenURL: "https://a", ClientID: "x"}},
		"no http or https":       {Brokers: []string{"a"}, SASL: &SASL{Mechanism: OAuthBearer, TokenURL: "ftp://a", ClientID: "x", ClientSecret: "y"}},
		"makes ca_file and serv": {Brokers: []string{"a"}, TLS: &TLS{CAFile: "x", InsecureSkipVerify: true}},
	} {
		if got := fmt.Sprint(o.Validate()); !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%q, want one line with %q", got, want)
		}
	}
	good := Options{Brokers: []string{"a:1", "b"}, TLS: &TLS{}, SASL: &SASL{Mechanism: Plain, Username: "u", Password: "p"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	s := SASL{Mechanism: Plain, Username: "u", Password: planted, ClientSecret: planted, TokenURL: "https://" + planted + ":" + planted + "@idp/token?key=" + planted}
	o := Options{SASL: &s}
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{s, &s, o, &o, []SASL{s}, map[string]SASL{"a": s}, struct{ S SASL }{s}} {
			texts = append(texts, verb+" "+fmt.Sprintf(verb, v))
		}
	}
	j, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts, string(j), s.String(), s.GoString(), Explain(errors.New("broker says "+planted), o).Error())
	for _, text := range texts {
		if strings.Contains(text, planted) || strings.Contains(text, fmt.Sprintf("%x", planted)) {
			t.Errorf("secret in %s", text)
		}
	}
	if !strings.Contains(string(j), "https://idp/token") {
		t.Errorf("%s does not help anybody", j)
	}
}
