package connect

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// tokenServer speaks RFC 6749 as far as the client credentials grant goes.
func tokenServer(t *testing.T, answer func(n int64) (status int, body string)) (SASL, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		// RFC 6749, 2.3.1: form-encoded, so the space is a plus and the slash %2F.
		if user != "my+client" || pass != "S3cr3t-XYZ%2F1" || r.FormValue("grant_type") != "client_credentials" || r.Method != "POST" {
			t.Errorf("request %s %q %q %v", r.Method, user, pass, r.Form)
		}
		status, body := answer(calls.Add(1))
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(srv.Close)
	return SASL{Mechanism: OAuthBearer, TokenURL: srv.URL, ClientID: "my client", ClientSecret: planted + "/1"}, &calls
}

func TestTokenIsKeptUntilShortlyBeforeItsEnd(t *testing.T) {
	s, calls := tokenServer(t, func(n int64) (int, string) {
		return 200, fmt.Sprintf(`{"access_token":"token-%d","token_type":"Bearer","expires_in":"3600"}`, n)
	})
	tok := newTokens(s, hclog.NewNullLogger())
	clock := time.Unix(1000, 0)
	tok.now = func() time.Time { return clock }
	get := func() string {
		a, err := tok.authenticate(context.Background())
		if err != nil {
			t.Error(err)
		}
		return a.Token
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got := get(); got != "token-1" {
				t.Errorf("got %s", got)
			}
		})
	}
	wg.Wait()
	clock = clock.Add(3569 * time.Second)
	if got := get(); got != "token-1" || calls.Load() != 1 {
		t.Fatalf("31 s before its end: %s after %d calls", got, calls.Load())
	}
	clock = clock.Add(2 * time.Second)
	if got := get(); got != "token-2" {
		t.Fatalf("29 s before its end: %s", got)
	}
}

func TestTokenFailures(t *testing.T) {
	for want, a := range map[string]struct {
		status int
		body   string
	}{
		"HTTP status 401 invalid_client no ***": {401, `{"error":"invalid_client","error_description":"no ` + planted + `/1 here"}`},
		"HTTP status 302":                       {302, ""},
		"not the JSON":                          {200, "<html>" + planted + "/1"},
		"no bearer token":                       {200, `{"access_token":"x","token_type":"mac"}`},
		"longer than":                           {200, strings.Repeat("x", maxTokenBytes+1)},
	} {
		s, _ := tokenServer(t, func(int64) (int, string) { return a.status, a.body })
		_, err := newTokens(s, hclog.NewNullLogger()).authenticate(context.Background())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), planted) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := SASL{Mechanism: OAuthBearer, TokenURL: "http://u:" + planted + "@127.0.0.1:1/token?k=" + planted, ClientID: "c", ClientSecret: "x"}
	_, err := newTokens(s, hclog.NewNullLogger()).authenticate(context.Background())
	if err == nil || strings.Contains(err.Error(), planted) || !strings.Contains(err.Error(), "http://127.0.0.1:1/token") {
		t.Errorf("%v", err)
	}
}

func TestTokenWaitGivesWayToTheContext(t *testing.T) {
	tok := newTokens(SASL{}, hclog.NewNullLogger())
	<-tok.turn // somebody fetches
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tok.authenticate(ctx); err == nil {
		t.Fatal("no error")
	}
}
