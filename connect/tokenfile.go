package connect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// fileTokens are bearer tokens that somebody else puts into a file, such as the projected token of a Kubernetes service
// account: the file is read for every connection, and each time the broker wants proof again. Safe for concurrent use.
type fileTokens struct {
	file *SecretFile
	log  hclog.Logger
	now  func() time.Time
}

// authenticate is kgo's callback. A token that has ended is not sent: the broker would say no more than "refused", and some
// count refusals.
func (t *fileTokens) authenticate(context.Context) (oauth.Auth, error) {
	token := strings.TrimSpace(t.file.read(t.log))
	if token == "" || strings.ContainsFunc(token, invisible) {
		return oauth.Auth{}, &tokenError{where: t.file.String(), err: errors.New("the file holds no token: one line of visible ASCII is wanted")}
	}
	claims, ok := claimsOf(token)
	if !ok || claims.end.IsZero() {
		return oauth.Auth{Token: token}, nil // opaque, or without an end: only the broker can tell
	}
	switch left := claims.end.Sub(t.now()); {
	case left <= 0:
		return oauth.Auth{}, &tokenError{where: t.file.String(), err: fmt.Errorf("it ended at %s and nobody has renewed it", claims.end.UTC().Format(time.RFC3339))}
	case left < claims.soon():
		t.log.Warn("sasl: the token of the file ends soon and has not been renewed", "file", t.file.String(), "not_after", claims.end.UTC().Format(time.RFC3339))
	}
	return oauth.Auth{Token: token}, nil
}

// claims are what is used of a JWT (RFC 7519, 4.1). Nothing is verified: that is the broker's part.
type claims struct {
	subject    string
	begin, end time.Time // zero: not told
}

// soon is how long before its end a token is warned about: a tenth of its life (kubelet renews after four fifths), or tokenMargin.
func (c claims) soon() time.Duration {
	if c.begin.IsZero() {
		return tokenMargin
	}
	return max(tokenMargin, c.end.Sub(c.begin)/10)
}

// claimsOf reads the middle part of a JWT; false for a token of another kind. Errors of the decoder are not told: they could
// show a part of the token.
func claimsOf(token string) (claims, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return claims{}, false
	}
	var c struct {
		Subject string  `json:"sub"`
		Issued  float64 `json:"iat"` // NumericDate may have a fraction
		End     float64 `json:"exp"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return claims{}, false
	}
	return claims{c.Subject, date(c.Issued), date(c.End)}, true
}

// date is zero for what is no plausible date, so that arithmetic with it cannot overflow.
func date(seconds float64) time.Time {
	if !(seconds > 0 && seconds < 1<<40) {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// Subject is the subject of the token that was read last, which is the name that brokers give its bearer by default; "" for a
// token that is no JWT.
func (f *SecretFile) Subject() string {
	all := f.all()
	c, _ := claimsOf(strings.TrimSpace(all[len(all)-1]))
	return c.subject
}
