package server

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"kafkabridge/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHealth(t *testing.T) {
	// A bridge that is not ready is no reason to kill the process.
	h, _ := handlerOf(unready("orders", "the bridge is waiting"))
	resp, body := get(t, h, http.MethodGet, "/healthz")
	if resp.StatusCode != http.StatusOK || body != "ok\n" {
		t.Fatalf("%d %q", resp.StatusCode, body)
	}
}

func TestReady(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses []bridge.Status
		code     int
		body     string
	}{
		{"all", []bridge.Status{busy()}, http.StatusOK, "orders: ready\n"},
		{"none", []bridge.Status{unready("orders", "why")}, http.StatusServiceUnavailable, "orders: not ready: why\n"},
		{"one of two", []bridge.Status{busy(), unready("other", "brokers are gone")}, http.StatusServiceUnavailable, "orders: ready\nother: not ready: brokers are gone\n"},
		{"one of two, the first", []bridge.Status{unready("other", "brokers are gone"), busy()}, http.StatusServiceUnavailable, "other: not ready: brokers are gone\norders: ready\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := handlerOf(c.statuses...)
			resp, body := get(t, h, http.MethodGet, "/readyz")
			if resp.StatusCode != c.code || body != c.body {
				t.Fatalf("%d %q, want %d %q", resp.StatusCode, body, c.code, c.body)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	h, _ := handlerOf(busy(), unready("other", "why"))
	resp, body := get(t, h, http.MethodGet, "/status")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", resp.StatusCode, resp.Header)
	}
	var d Document
	strict := json.NewDecoder(strings.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&d); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	want := Document{Version: "v1.2.3", Ready: false, Bridges: []bridge.Status{busy(), unready("other", "why")}}
	if !reflect.DeepEqual(d, want) {
		t.Fatalf("%+v, want %+v", d, want)
	}
	for _, name := range []string{`"decided_epoch": 7`, `"lag": 5`, `"restarts": 3`, `"reason": "why"`} { // tools go by these
		if !strings.Contains(body, name) {
			t.Errorf("no %s in %s", name, body)
		}
	}
}

func TestOnlyReading(t *testing.T) {
	h, _ := handlerOf(busy())
	for _, path := range []string{"/healthz", "/readyz", "/status", "/metrics"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			if resp, _ := get(t, h, method, path); resp.StatusCode != http.StatusMethodNotAllowed || !strings.Contains(resp.Header.Get("Allow"), http.MethodGet) {
				t.Errorf("%s %s: %d, Allow %q", method, path, resp.StatusCode, resp.Header.Get("Allow"))
			}
		}
		if resp, body := get(t, h, http.MethodHead, path); resp.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: %d %s", path, resp.StatusCode, body)
		}
	}
	if resp, _ := get(t, h, http.MethodGet, "/nonsense"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET /nonsense: %d", resp.StatusCode)
	}
	if resp, _ := get(t, h, http.MethodGet, "/debug/pprof/"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("pprof is open to everybody: %d", resp.StatusCode)
	}
}

// TestStartAndClose: a taken address is an error that names it, and Close leaves nothing behind (goleak) and no listener.
func TestStartAndClose(t *testing.T) {
	s := New("v", []Bridge{shows(busy())}, NewMetrics(), hclog.NewNullLogger())
	addr, err := s.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := New("v", nil, NewMetrics(), hclog.NewNullLogger())
	if _, err := other.Start(addr.String()); err == nil || !strings.Contains(err.Error(), addr.String()) {
		t.Errorf("second listener at %s: %v", addr, err)
	}
	if code := fetch(t, "http://"+addr.String()+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d", code)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := New("v", nil, NewMetrics(), hclog.NewNullLogger())
	if _, err := again.Start(addr.String()); err != nil {
		t.Fatalf("the address is not free after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	cl := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := cl.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestConcurrentScrapes is for the race detector: scrapes meet observations and each other.
func TestConcurrentScrapes(t *testing.T) {
	h, metrics := handlerOf(busy())
	written := metrics.Written("orders")
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 20 {
				for _, path := range []string{"/metrics", "/status", "/readyz"} {
					if resp, _ := get(t, h, http.MethodGet, path); resp.StatusCode != http.StatusOK {
						t.Errorf("%s: %d", path, resp.StatusCode)
					}
				}
			}
		})
		work.Go(func() {
			for range 200 {
				metrics.Observe("orders", decided(1))
				written.Add("copy", 0, 1)
			}
		})
	}
	work.Wait()
}

func decided(seconds float64) bridge.Observation {
	return bridge.Observation{Checkpoint: &bridge.CheckpointStatus{Result: "decided", Align: seconds, Flush: seconds, Persist: seconds, Commit: seconds}}
}

// TestPage: nothing of the page comes from elsewhere, and nothing that a status holds is taken for markup.
func TestPage(t *testing.T) {
	s := New("v", nil, NewMetrics(), hclog.NewNullLogger())
	for path, kind := range map[string]string{"/": "text/html", "/page.js": "javascript", "/view.js": "javascript", "/rates.js": "javascript", "/dom.js": "javascript", "/page.css": "text/css"} {
		r := httptest.NewRecorder()
		s.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
		body := r.Body.String()
		if r.Code != http.StatusOK || !strings.Contains(r.Header().Get("Content-Type"), kind) || !strings.HasPrefix(r.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
			t.Errorf("%s: %d, %v", path, r.Code, r.Header())
		}
		for _, bad := range []string{"innerHTML", "insertAdjacentHTML", "document.write", "eval(", "<script>", "style=", "onclick", "src=\"http", "href=\"http"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
	r := httptest.NewRecorder()
	s.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/page/index.html", nil))
	if r.Code != http.StatusNotFound {
		t.Errorf("other paths: %d", r.Code)
	}
	if pictures, err := fs.Glob(pageFiles, "page/*.png"); err != nil || pictures != nil { // of the README
		t.Errorf("in the binary: %v, %v", pictures, err)
	}
}
