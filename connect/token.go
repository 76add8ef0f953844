package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// Limits of the token request, and how a token's age is judged.
const (
	tokenTimeout  = 10 * time.Second
	maxTokenBytes = 1 << 20
	// tokenMargin is how long before its end a token is replaced: the broker's clock may be ahead of ours.
	tokenMargin = 30 * time.Second
	// tokenDefaultLife is assumed when the server names no life time (RFC 6749, 5.1: expires_in is only recommended).
	tokenDefaultLife = time.Minute
)

// tokens fetches bearer tokens by the client credentials grant (RFC 6749, 4.4). Safe for concurrent use: many connections
// that start at once share one request.
type tokens struct {
	sasl SASL
	log  hclog.Logger
	http *http.Client
	now  func() time.Time

	turn  chan struct{} // holds one element while nobody fetches; a mutex would not give way to a context
	token string
	until time.Time
}

func newTokens(s SASL, log hclog.Logger) *tokens {
	t := &tokens{sasl: s, log: log, http: &http.Client{Timeout: tokenTimeout, CheckRedirect: noRedirect}, now: time.Now, turn: make(chan struct{}, 1)}
	t.turn <- struct{}{}
	return t
}

// noRedirect keeps the client secret from being sent on to another address.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// authenticate is kgo's callback, called for every connection.
func (t *tokens) authenticate(ctx context.Context) (oauth.Auth, error) {
	select {
	case <-t.turn:
	case <-ctx.Done():
		return oauth.Auth{}, fmt.Errorf("token: %w", context.Cause(ctx))
	}
	defer func() { t.turn <- struct{}{} }()
	if t.token != "" && t.now().Before(t.until) {
		return oauth.Auth{Token: t.token}, nil
	}
	token, life, err := t.fetch(ctx)
	if err != nil {
		return oauth.Auth{}, &tokenError{where: plainURL(t.sasl.TokenURL), err: err}
	}
	t.token, t.until = token, t.now().Add(life-min(tokenMargin, life/4))
	return oauth.Auth{Token: token}, nil
}

// tokenError is a failure before the broker was asked anything.
type tokenError struct {
	where string
	err   error
}

func (e *tokenError) Error() string { return "token from " + e.where + ": " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

func (t *tokens) fetch(ctx context.Context) (token string, life time.Duration, err error) {
	body := strings.NewReader(url.Values{"grant_type": {"client_credentials"}}.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.sasl.TokenURL, body)
	if err != nil {
		return "", 0, errors.New("token_url is no URL") // the error would repeat it
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	// RFC 6749, 2.3.1: both are form-encoded before they go into the basic header.
	req.SetBasicAuth(url.QueryEscape(t.sasl.ClientID), url.QueryEscape(t.sasl.clientSecret(t.log)))
	resp, err := t.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the outer one repeats the URL
		}
		return "", 0, err
	}
	defer func() { _ = resp.Body.Close() }() // everything of interest was read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenBytes+1))
	if err != nil {
		return "", 0, fmt.Errorf("read answer: %w", err)
	}
	if len(raw) > maxTokenBytes {
		return "", 0, fmt.Errorf("the answer is longer than %d bytes", maxTokenBytes)
	}
	return t.parse(resp.StatusCode, raw)
}

func (t *tokens) parse(status int, raw []byte) (token string, life time.Duration, err error) {
	var a struct {
		AccessToken string      `json:"access_token"`
		TokenType   string      `json:"token_type"`
		ExpiresIn   json.Number `json:"expires_in"` // some servers send a string
		Error       string      `json:"error"`
		Description string      `json:"error_description"`
	}
	parseErr := json.Unmarshal(raw, &a)
	if status != http.StatusOK {
		const most = 200 // of a text that somebody else wrote
		text := t.sasl.scrub(strings.TrimSpace(a.Error + " " + a.Description))
		return "", 0, fmt.Errorf("HTTP status %d %.*s", status, most, text)
	}
	if parseErr != nil {
		return "", 0, errors.New("the answer is not the JSON of RFC 6749") // the error could show a part of the token
	}
	if a.AccessToken == "" || a.TokenType != "" && !strings.EqualFold(a.TokenType, "bearer") {
		return "", 0, fmt.Errorf("the answer holds no bearer token (token_type %q)", a.TokenType)
	}
	life = tokenDefaultLife
	if seconds, err := a.ExpiresIn.Int64(); err == nil && seconds > 0 {
		life = min(time.Duration(seconds), 86400) * time.Second
	}
	return a.AccessToken, life, nil
}
