package connect

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

const redacted = "***"

// String shows who authenticates how, never with what.
func (s SASL) String() string {
	return fmt.Sprintf("{mechanism %q, username %q, password %s, token_url %q, client_id %q, client_secret %s, token_file %q, profile %q}",
		s.Mechanism, s.Username, hidden(s.Password), plainURL(s.TokenURL), s.ClientID, hidden(s.ClientSecret), s.TokenFile.text(), s.AWS.String())
}

// GoString is String, for %#v.
func (s SASL) GoString() string { return "connect.SASL" + s.String() }

// Format is String whatever the verb; without it %d or %x would print the fields.
func (s SASL) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalJSON has the same fields as String.
func (s SASL) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{
		"mechanism": s.Mechanism, "username": s.Username, "password": hidden(s.Password),
		"token_url": plainURL(s.TokenURL), "client_id": s.ClientID, "client_secret": hidden(s.ClientSecret),
		"token_file": s.TokenFile.text(), "profile": s.AWS.String(),
	})
}

func hidden(secret string) string {
	if secret == "" {
		return ""
	}
	return redacted
}

// plainURL leaves out user, password, query and fragment, any of which may be a secret.
func plainURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return redacted
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// scrub removes our secrets from a text of others: a broker or a token server may repeat what it was sent.
func (s *SASL) scrub(text string) string {
	if s == nil {
		return text
	}
	secrets := slices.Concat([]string{s.Password, s.ClientSecret}, s.PasswordFile.all(), s.ClientSecretFile.all(), s.TokenFile.all(), s.AWS.all())
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			text = strings.ReplaceAll(text, form, redacted)
		}
	}
	return text
}
