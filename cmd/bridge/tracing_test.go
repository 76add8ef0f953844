package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestRunSendsTraces: a daemon with a collector in its environment sends an epoch with its four steps and the recovery of its start, also
// those of its last moments; with a protocol that it does not speak it does not start.
func TestRunSendsTraces(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	var mu sync.Mutex
	spans, below := map[string]int{}, map[string]int{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var req coltrace.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err != nil || proto.Unmarshal(body, &req) != nil {
			t.Error("no trace")
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					spans[s.GetName()]++
					if len(s.GetParentSpanId()) > 0 {
						below[s.GetName()]++
					}
				}
			}
		}
	}))
	defer collector.Close()
	path := filepath.Join(t.TempDir(), "bridge.hcl")
	writeConfig(t, path, broker, "")
	m := &meter{t: t, broker: broker}
	m.produce(2)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	start := func() error {
		return run([]string{"run", "--until-end", "-c", path}, environment{stdout: io.Discard, stderr: t.Output(), stop: make(chan struct{})})
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if spans["recovery"] != 1 || spans["epoch"] == 0 || below["recovery"] != 0 || below["epoch"] != 0 {
		t.Errorf("spans %v, of them below another %v", spans, below)
	}
	for _, step := range []string{"align", "flush", "persist", "commit"} {
		if spans[step] != spans["epoch"] || below[step] != spans[step] {
			t.Errorf("%s: spans %v, of them below another %v", step, spans, below)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if err := start(); exitCode(err) != 2 || !strings.Contains(err.Error(), "http/protobuf") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
