package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
)

const token = "S3cr3t-XYZ"

// served is a surface with these options whose log goes to the buffer.
func served(o Options) (http.Handler, hclog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: &out, Mutex: &sync.Mutex{}})
	s := New("v", []Bridge{shows(unready("orders", "topic t-17 is gone"))}, NewMetrics(), log.Named("http"))
	s.Use(o)
	return s.Handler(), log, &out
}

// request is one from this machine, changed by with.
func request(method, path string, with func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:8080"
	if with != nil {
		with(r)
	}
	return r
}

func do(h http.Handler, r *http.Request) (code int, body string, header http.Header) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	b, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(b), w.Result().Header
}

func bearer(v string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", v) }
}

func TestToken(t *testing.T) {
	now := token
	h, _, out := served(Options{Token: func() string { return now }})
	for _, path := range []string{"/status", "/metrics", "/log"} {
		for sent, want := range map[string]int{"Bearer " + token: 200, "bearer " + token: 200, "": 401, "Bearer": 401, "Bearer ": 401, token: 401, "Basic " + token: 401, "Bearer " + token + "x": 401, "Bearer S3cr3t-XYz": 401} {
			code, body, header := do(h, request("GET", path, bearer(sent)))
			if code != want || want == 401 && !strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer") || strings.Contains(body+out.String(), token) {
				t.Errorf("%s with %q: %d %v %q, want %d", path, sent, code, header, body, want)
			}
			if want == 401 && strings.Contains(body, "t-17") {
				t.Errorf("%s tells without the token: %s", path, body)
			}
		}
	}
	// Probes and the page, which hold no data. The reason does.
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/": 200, "/page.css": 200, "/page.js": 200} {
		if code, body, _ := do(h, request("GET", path, nil)); code != want || strings.Contains(body, "t-17") {
			t.Errorf("%s without the token: %d %s", path, code, body)
		}
	}
	if _, body, _ := do(h, request("GET", "/readyz", bearer("Bearer "+token))); !strings.Contains(body, "t-17") {
		t.Errorf("readyz hides the reason from who has the token: %s", body)
	}
	now = "another"
	if code, _, _ := do(h, request("GET", "/status", bearer("Bearer "+token))); code != 401 {
		t.Errorf("the token was replaced, and yet the old one gets %d", code)
	}
	now = "" // whatever happened to it: nobody gets in by sending nothing
	if code, _, _ := do(h, request("GET", "/status", bearer("Bearer "))); code != 401 {
		t.Errorf("an empty token lets in: %d", code)
	}
}

func TestClientCertificate(t *testing.T) {
	h, _, _ := served(Options{ClientCertificates: true, Token: func() string { return token }})
	with := func(n int) func(*http.Request) {
		return func(r *http.Request) {
			r.TLS = &tls.ConnectionState{PeerCertificates: make([]*x509.Certificate, n)}
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	for n, want := range []int{403, 200} {
		for _, path := range []string{"/status", "/metrics", "/log"} {
			if code, body, _ := do(h, request("GET", path, with(n))); code != want || want == 403 && strings.Contains(body, "t-17") {
				t.Errorf("%s with %d certificates: %d, want %d", path, n, code, want)
			}
		}
		if code, _, _ := do(h, request("PUT", "/log?level=debug", with(n))); code != want {
			t.Errorf("PUT /log with %d certificates: %d, want %d", n, code, want)
		}
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/": 200, "/page.js": 200} { // probes have none
			code, body, _ := do(h, request("GET", path, with(n)))
			if tells := strings.Contains(body, "t-17"); code != want || tells != (path == "/readyz" && n == 1) {
				t.Errorf("%s with %d certificates: %d %s", path, n, code, body)
			}
		}
	}
}

func TestLogLevel(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		path string
		with func(*http.Request)
		code int
	}{
		"from here":               {path: "/log?level=debug", code: 200},
		"by a name of here":       {path: "/log?level=debug", with: func(r *http.Request) { r.Host = "localhost:8080" }, code: 200},
		"IPv6":                    {path: "/log?level=debug", with: func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:1", "[::1]:8080" }, code: 200},
		"with the token":          {o: Options{Token: func() string { return token }}, path: "/log?level=debug", with: func(r *http.Request) { bearer("Bearer " + token)(r); r.RemoteAddr = "192.0.2.1:1" }, code: 200},
		"from elsewhere":          {path: "/log?level=debug", with: func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, code: 403},
		"through a proxy":         {path: "/log?level=debug", with: func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }, code: 403},
		"a name made to point":    {path: "/log?level=debug", with: func(r *http.Request) { r.Host = "evil.example:8080" }, code: 403},
		"another origin":          {path: "/log?level=debug", with: func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, code: 403},
		"another site":            {path: "/log?level=debug", with: func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, code: 403},
		"another port, same site": {path: "/log?level=debug", with: func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, code: 403},
		"without the token":       {o: Options{Token: func() string { return token }}, path: "/log?level=debug", code: 401},
		"no level":                {path: "/log", code: 400},
		"two":                     {path: "/log?level=debug&level=warn", code: 400},
		"a wrong one":             {path: "/log?level=off", code: 400},
		"a list":                  {path: "/log?level=debug,+info", code: 400},
		"upper case":              {path: "/log?level=DEBUG", code: 400},
	} {
		h, log, out := served(c.o)
		sub := log.Named("orders").With("bridge", "orders").Named("pebble")
		code, body, header := do(h, request("PUT", c.path, c.with))
		if code != c.code || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %s", name, code, body)
		}
		if changed := sub.IsDebug(); changed != (c.code == 200) {
			t.Errorf("%s: debug %v after %d", name, changed, code)
		}
		if told := strings.Contains(out.String(), "log level: was=info now=debug"); told != (c.code == 200) {
			t.Errorf("%s: the log has %s", name, out)
		}
		if c.code == 200 {
			if _, body, _ := do(h, request("GET", "/log", c.with)); body != "debug\n" {
				t.Errorf("%s: GET shows %q", name, body)
			}
		}
	}
	h, log, out := served(Options{})
	do(h, request("PUT", "/log?level=error", nil))
	if log.IsWarn() || !strings.Contains(out.String(), "now=error") {
		t.Errorf("%v\n%s", log.GetLevel(), out)
	}
	if code, _, header := do(h, request("OPTIONS", "/log?level=debug", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })); code != 405 || header.Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("preflight: %d %v", code, header)
	}
}

// TestLogLevelWhileLogging is for the race detector.
func TestLogLevelWhileLogging(t *testing.T) {
	h, log, _ := served(Options{})
	var work sync.WaitGroup
	for _, level := range []string{"debug", "error"} {
		work.Go(func() {
			for range 100 {
				do(h, request("PUT", "/log?level="+level, nil))
				log.Named("x").Debug("y")
			}
		})
	}
	work.Wait()
}

func TestAlive(t *testing.T) {
	h, _, _ := served(Options{Alive: func() error { return errors.New("the driver stands still") }})
	if code, body, _ := do(h, request("GET", "/healthz", nil)); code != 503 || body != "the driver stands still\n" {
		t.Errorf("%d %q", code, body)
	}
}
