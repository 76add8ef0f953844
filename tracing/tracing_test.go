package tracing

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

// collector is an OTLP receiver.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*otlp.Span
	service string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req coltrace.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.GetResourceSpans() {
			for _, a := range rs.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					c.service = a.GetValue().GetStringValue()
				}
			}
			for _, s := range rs.GetScopeSpans() {
				c.spans = append(c.spans, s.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func tracerTo(t *testing.T, endpoint string, log hclog.Logger) *Tracer {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	tr, err := FromEnvironment("v1", log, func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}[name]
	})
	if err != nil || tr == nil {
		t.Fatalf("%v %v", tr, err)
	}
	return tr
}

// TestEpochs: a decided epoch, one that failed while flushing, and a recovery, as the collector gets them.
func TestEpochs(t *testing.T) {
	c := newCollector(t)
	tr := tracerTo(t, c.URL, hclog.NewNullLogger())
	const opened, began = 1_700_000_000_000, 1_700_000_005_000
	tr.Observe("orders", bridge.Observation{Checkpoint: &bridge.CheckpointStatus{Epoch: 7, Result: "decided", OpenedMs: opened, BeganMs: began,
		Align: 0.25, Flush: 0.5, Persist: 0.125, Commit: 1}})
	tr.Observe("orders", bridge.Observation{Checkpoint: &bridge.CheckpointStatus{Epoch: 8, Result: "failed", OpenedMs: opened, BeganMs: began, Align: 0.25, Flush: 2}})
	tr.Observe("orders", bridge.Observation{Recovery: &semantics.Recovery{Outcome: semantics.RecoveryReplayed, Epoch: 7, Reason: "why"}, Took: 3 * time.Second})
	tr.Observe("orders", bridge.Observation{Restart: errors.New("x")})
	tr.Close()
	parents := map[string]string{}
	names := map[string]int{}
	for _, s := range c.spans {
		names[s.GetName()]++
		parents[string(s.GetSpanId())] = s.GetName()
	}
	for name, n := range map[string]int{"epoch": 2, "align": 2, "flush": 2, "persist": 1, "commit": 1, "recovery": 1} {
		if names[name] != n {
			t.Errorf("%d spans %s, want %d", names[name], name, n)
		}
	}
	if len(c.spans) != 9 || c.service != "bridge" {
		t.Errorf("%d spans of service %q: %v", len(c.spans), c.service, names)
	}
	for _, s := range c.spans {
		parent := parents[string(s.GetParentSpanId())]
		ms := int64(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano()) / 1e6
		switch s.GetName() {
		case "epoch":
			failed := s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR
			if want := map[bool]int64{false: 6875, true: 7250}[failed]; parent != "" || ms != want || s.GetStartTimeUnixNano() != opened*1e6 {
				t.Errorf("epoch, failed %t: %d ms, want %d; %v", failed, ms, want, s)
			}
		case "commit":
			if parent != "epoch" || ms != 1000 || s.GetStartTimeUnixNano() != (began+875)*1e6 {
				t.Errorf("commit below %q: %d ms, %v", parent, ms, s)
			}
		case "recovery":
			if parent != "" || ms != 3000 || !strings.Contains(s.String(), "replayed") {
				t.Errorf("recovery: %d ms, %v", ms, s)
			}
		default:
			if parent != "epoch" {
				t.Errorf("%s below %q", s.GetName(), parent)
			}
		}
	}
}

// TestCollectorIsAway: nothing blocks, the end is in time, and the log says it once.
func TestCollectorIsAway(t *testing.T) {
	stuck := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	defer c.Close()
	defer close(stuck)
	var out bytes.Buffer
	tr := tracerTo(t, c.URL, hclog.New(&hclog.LoggerOptions{Output: &out}))
	began := time.Now()
	for range 20_000 { // far more than the queue holds
		tr.Observe("orders", bridge.Observation{Checkpoint: &bridge.CheckpointStatus{Epoch: 7, Result: "decided", Align: 1, Flush: 1, Persist: 1, Commit: 1}})
	}
	tr.Close()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if n := strings.Count(out.String(), "traces could not be sent"); n != 1 {
		t.Errorf("said %d times: %s", n, out.String())
	}
}

// TestOff: nobody asks, or asks for what cannot be.
func TestOff(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		says string
	}{
		{map[string]string{}, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, `OTEL_EXPORTER_OTLP_PROTOCOL = "grpc" is not supported: set it to http/protobuf`},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "u:secret@c:4317"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no http or https URL"},
	} {
		tr, err := FromEnvironment("v1", hclog.NewNullLogger(), func(name string) string { return c.env[name] })
		if tr != nil || (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%v: %v, %v", c.env, tr, err)
		}
		var e *semantics.Error
		if err != nil && (!errors.As(err, &e) || e.Exit != semantics.ExitUsage) {
			t.Errorf("%v: %v", c.env, err)
		}
		tr.Observe("b", bridge.Observation{Checkpoint: &bridge.CheckpointStatus{}}) // off: nothing happens
		tr.Close()
	}
}

// TestHeadersAreSecret: the library would write a header that it does not understand to stderr, with its value, and go on without it.
func TestHeadersAreSecret(t *testing.T) {
	var said strings.Builder
	const endpoint = "http://127.0.0.1:1"
	for _, value := range []string{"authorization: Bearer planted", "authorization: Bearer planted==", "x-key=planted%zz", "good=1,planted"} {
		otel.SetLogger(funcr.New(func(_, args string) { said.WriteString(args + "\n") }, funcr.Options{Verbosity: 9}))
		for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
			env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, name: value}
			for k, v := range env {
				t.Setenv(k, v)
			}
			tr, err := FromEnvironment("v1", hclog.NewNullLogger(), func(name string) string { return env[name] })
			var e *semantics.Error
			if tr != nil || !errors.As(err, &e) || e.Exit != semantics.ExitUsage || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "planted") {
				t.Errorf("%s=%s: %v", name, value, err)
			}
			tr.Close()
			if tr, err := newTracer("v1", hclog.NewNullLogger()); err == nil { // as if the check above were not there
				tr.Close()
			}
			t.Setenv(name, "")
		}
	}
	if strings.Contains(said.String(), "planted") {
		t.Errorf("the library says: %s", said.String())
	}
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x, x-b=c=,"}
	tr, err := FromEnvironment("v1", hclog.NewNullLogger(), func(name string) string { return env[name] })
	if err != nil {
		t.Error(err)
	}
	tr.Close()
}
