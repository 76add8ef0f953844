package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/configs"
	"kafkabridge/server"
)

// contractFamilies are the metrics of the contract and those beside it, with their unit, as a word that the help must have, and
// their labels. Written by hand: the program must not say what is expected of it. absent: only in a situation that this test does not make.
var contractFamilies = map[string]struct {
	unit, labels string
	absent       bool
}{
	"bridge_records_in_total":               {"Records", "bridge partition source topic", false},
	"bridge_records_out_total":              {"Records", "bridge partition topic", false},
	"bridge_bytes_in_total":                 {"Bytes", "bridge source", false},
	"bridge_bytes_out_total":                {"Bytes", "bridge", false},
	"bridge_records_dropped_total":          {"Records", "bridge map", true},
	"bridge_map_errors_total":               {"Records", "bridge map policy", true},
	"bridge_dead_letters_total":             {"Records", "bridge", false},
	"bridge_source_lag_records":             {"Records", "bridge partition source topic", false},
	"bridge_checkpoints_total":              {"Checkpoints", "bridge result", false},
	"bridge_checkpoint_phase_seconds":       {"Seconds", "bridge phase", false},
	"bridge_checkpoint_size_bytes":          {"Bytes", "bridge", false},
	"bridge_epoch":                          {"epoch", "bridge", false},
	"bridge_decided_epoch":                  {"epoch", "bridge", false},
	"bridge_last_decided_timestamp_seconds": {"seconds", "bridge", false},
	"bridge_transaction_open_seconds":       {"Seconds", "bridge", false},
	"bridge_transaction_timeout_seconds":    {"seconds", "bridge", false},
	"bridge_recoveries_total":               {"Recoveries", "bridge outcome", false},
	"bridge_replayed_records_total":         {"Records", "bridge", false},
	"bridge_source_gaps_total":              {"Ranges", "bridge partition source topic", false},
	"bridge_restarts_total":                 {"Recoveries", "bridge", false},
	"bridge_ready":                          {"1 when", "bridge", false},

	"bridge_downtime_budget_seconds":             {"Seconds", "bridge", false},
	"bridge_in_flight_bytes":                     {"Bytes", "bridge source", false},
	"bridge_source_batches_total":                {"batches", "bridge how", false},
	"bridge_source_held_back_records":            {"Records", "bridge partition source topic", false},
	"bridge_source_held_back_seconds":            {"Seconds", "bridge partition source topic", true},
	"bridge_source_held_back_by":                 {"Always 1", "bridge partition source topic transactional_id", true},
	"bridge_client_connects_total":               {"connections", "bridge cluster node_id role", false},
	"bridge_client_disconnects_total":            {"connections", "bridge cluster node_id role", true},
	"bridge_client_connect_errors_total":         {"connection errors", "bridge cluster node_id role", true},
	"bridge_client_write_bytes_total":            {"bytes", "bridge cluster node_id role", false},
	"bridge_client_write_errors_total":           {"write errors", "bridge cluster node_id role", true},
	"bridge_client_read_bytes_total":             {"bytes", "bridge cluster node_id role", false},
	"bridge_client_read_errors_total":            {"read errors", "bridge cluster node_id role", true},
	"bridge_client_request_duration_e2e_seconds": {"Time", "bridge cluster node_id role", false},
	"bridge_client_request_throttled_seconds":    {"Time", "bridge cluster node_id role", true},
}

// meter is a bridge of this process whose metrics can be scraped while it runs.
type meter struct {
	t       *testing.T
	metrics *server.Metrics
	broker  *kfake.Cluster
	file    *configs.File
}

func newMeter(t *testing.T, partitions int32) *meter {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "orders"), kfake.SeedTopics(partitions, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	dir := t.TempDir()
	text := fmt.Sprintf(`
bridge "b" {
  semantic = "EXACTLY_ONCE"
  source "s" {
    brokers = [%[1]q]
    topics  = ["orders"]
  }
  sink "t" {
    brokers = [%[1]q]
    topic   = "copy"
  }
  checkpoint {
    path     = %[2]q
    interval = "100ms"
    timeout  = "60s"
  }
}
server { listen = "" }
`, broker.ListenAddrs()[0], filepath.Join(dir, "state"))
	file, err := configs.Parse([]byte(text), filepath.Join(dir, "bridge.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	return &meter{t: t, metrics: server.NewMetrics(), broker: broker, file: file}
}

// during runs the bridge and calls look when an epoch with the produced records is decided and the next one is under way; a record
// goes to every partition twice.
func (m *meter) during(partitions int32, look func(map[string]*dto.MetricFamily)) {
	m.t.Helper()
	steps := make(chan struct{}, 1000)
	b := wire(m.file.Bridges[0], m.metrics, nil, hclog.NewNullLogger(), func(step string) {
		if step == "after-commit" {
			steps <- struct{}{}
		}
	})
	s := server.New("test", []server.Bridge{b}, m.metrics, hclog.NewNullLogger())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(m.t.Context()) }()
	for range 3 { // the commit that follows another one has seen that one decided
		m.produce(partitions)
		select {
		case <-steps:
		case err := <-ended:
			m.t.Fatalf("the bridge ended: %v", err)
		case <-time.After(2 * time.Minute):
			m.t.Fatalf("no commit; %+v", b.Status().WaitsFor)
		}
	}
	look(m.scrape(s.Handler()))
	b.Stop()
	if err := <-ended; err != nil {
		m.t.Fatal(err)
	}
	for name, f := range m.scrape(s.Handler()) {
		if strings.HasPrefix(name, "bridge_client_") {
			m.t.Errorf("%s is still there after the end, with %d series", name, len(f.GetMetric()))
		}
	}
}

func (m *meter) produce(partitions int32) {
	m.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(m.broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		m.t.Fatal(err)
	}
	defer cl.Close()
	var records []*kgo.Record
	for p := range partitions {
		records = append(records, &kgo.Record{Topic: "orders", Partition: p, Value: []byte("v")})
	}
	if err := cl.ProduceSync(m.t.Context(), records...).FirstErr(); err != nil {
		m.t.Fatal(err)
	}
}

// grow adds partitions to the source topic; the bridge adds those of the sink.
func (m *meter) grow(partitions int32) {
	m.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(m.broker.ListenAddrs()...))
	if err != nil {
		m.t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).UpdatePartitions(m.t.Context(), int(partitions), "orders"); err != nil {
		m.t.Fatal(err)
	}
}

func (m *meter) scrape(h http.Handler) map[string]*dto.MetricFamily {
	m.t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		m.t.Fatalf("%d %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		m.t.Fatal(err)
	}
	maps.DeleteFunc(families, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "bridge_") })
	return families
}

// TestContractMetrics holds what a running bridge shows against the contract.
func TestContractMetrics(t *testing.T) {
	newMeter(t, 2).during(2, func(families map[string]*dto.MetricFamily) {
		for name, want := range contractFamilies {
			f := families[name]
			switch {
			case f == nil && !want.absent:
				t.Errorf("%s is absent", name)
			case f != nil && !strings.Contains(f.GetHelp(), want.unit):
				t.Errorf("%s: the help does not say the unit %q: %q", name, want.unit, f.GetHelp())
			}
		}
		for name, f := range families {
			want, known := contractFamilies[name]
			if !known {
				t.Errorf("%s is not in the list", name)
			}
			for _, metric := range f.GetMetric() {
				var labels []string
				for _, l := range metric.GetLabel() {
					labels = append(labels, l.GetName())
				}
				slices.Sort(labels)
				if got := strings.Join(labels, " "); got != want.labels {
					t.Errorf("%s has labels %s, want %s", name, got, want.labels)
				}
			}
			if strings.HasSuffix(name, "_total") != (f.GetType() == dto.MetricType_COUNTER) {
				t.Errorf("%s is a %s", name, f.GetType())
			}
		}
		budget := families["bridge_downtime_budget_seconds"].GetMetric()[0].GetGauge().GetValue()
		if timeout := families["bridge_transaction_timeout_seconds"].GetMetric()[0].GetGauge().GetValue(); budget > timeout || budget < timeout-60 {
			t.Errorf("budget %v of %v", budget, timeout)
		}
		if size := families["bridge_checkpoint_size_bytes"].GetMetric()[0].GetGauge().GetValue(); size < 100 || size > 1000 {
			t.Errorf("a checkpoint of two partitions has %v bytes", size)
		}
	})
}

// TestSeriesAreBounded: with a thousand partitions only what the contract labels with the partition has a thousand series, and that
// several runs in one process add nothing.
func TestSeriesAreBounded(t *testing.T) {
	m := newMeter(t, 1000)
	for i, partitions := range []int32{1000, 1000, 1200} {
		if i == 2 {
			m.grow(partitions)
		}
		m.during(partitions, func(families map[string]*dto.MetricFamily) {
			total := 0
			for name, f := range families {
				n := len(f.GetMetric())
				switch {
				case strings.Contains(contractFamilies[name].labels, "partition"):
					if n != int(partitions) {
						t.Errorf("%s has %d series, want %d", name, n, partitions)
					}
				case strings.HasPrefix(name, "bridge_client_"):
					if n > 4 { // two clients, each with one broker and one seed
						t.Errorf("%s has %d series, want at most 4", name, n)
					}
				case n > 5: // the five outcomes of recoveries are the most
					t.Errorf("%s has %d series", name, n)
				}
				total += n
			}
			// records in and out, lag, held back, gaps: 5000. Eight phases, results, …: 2 checkpoints, 4 phases, 5 outcomes, 14 single ones,
			// at most 3 ways of batches; clients at most 9 families of 4.
			if total < 5*int(partitions) || total > 5*int(partitions)+2+4+5+14+3+9*4 {
				t.Errorf("%d series", total)
			}
		})
	}
}
