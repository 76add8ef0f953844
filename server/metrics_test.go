package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
)

func scrape(t *testing.T, h http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	resp, body := get(t, h, http.MethodGet, "/metrics")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	return families
}

// series writes every sample as label=value,…:number, sorted.
func series(f *dto.MetricFamily) []string {
	var out []string
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		var v any
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			v = m.GetCounter().GetValue()
		case dto.MetricType_GAUGE:
			v = m.GetGauge().GetValue()
		case dto.MetricType_HISTOGRAM:
			v = m.GetHistogram().GetSampleCount()
		default:
			v = f.GetType()
		}
		slices.Sort(labels)
		out = append(out, fmt.Sprintf("%s:%v", strings.Join(labels, ","), v))
	}
	slices.Sort(out)
	return out
}

// TestMetrics holds names, types and labels against the contract, where this test has them from, and the numbers against the
// status they come from.
func TestMetrics(t *testing.T) {
	h, metrics := handlerOf(busy())
	metrics.Observe("orders", decided(0.1))
	metrics.Observe("orders", decided(0.2))
	metrics.Observe("orders", bridge.Observation{Checkpoint: &bridge.CheckpointStatus{Result: "failed", Align: 1}})
	metrics.Observe("orders", bridge.Observation{Restart: fmt.Errorf("x")})
	written := metrics.Written("orders")
	written.Add("copy", 0, 7)
	written.Add("copy", 2, 20)
	written.Add("copy", 0, 1)
	families := scrape(t, h)
	const counter, gauge, histogram = dto.MetricType_COUNTER, dto.MetricType_GAUGE, dto.MetricType_HISTOGRAM
	for _, want := range []struct {
		name   string
		kind   dto.MetricType
		series []string
	}{
		{"bridge_records_in_total", counter, []string{"bridge=orders,partition=0,source=east,topic=orders:10", "bridge=orders,partition=1,source=east,topic=orders:20", "bridge=orders,partition=2,source=east,topic=orders:0"}},
		{"bridge_records_out_total", counter, []string{"bridge=orders,partition=0,topic=copy:8", "bridge=orders,partition=2,topic=copy:20"}},
		{"bridge_records_dropped_total", counter, []string{"bridge=orders,map=filter:2"}},
		{"bridge_map_errors_total", counter, []string{"bridge=orders,map=jq,policy=dead_letter:4", "bridge=orders,map=jq,policy=skip:3"}},
		{"bridge_dead_letters_total", counter, []string{"bridge=orders:6"}},
		{"bridge_bytes_in_total", counter, []string{"bridge=orders,source=east:4000"}},
		{"bridge_bytes_out_total", counter, []string{"bridge=orders:3500"}},
		{"bridge_source_lag_records", gauge, []string{"bridge=orders,partition=0,source=east,topic=orders:0", "bridge=orders,partition=1,source=east,topic=orders:5"}}, // not known: absent
		{"bridge_source_held_back_records", gauge, []string{"bridge=orders,partition=0,source=east,topic=orders:0", "bridge=orders,partition=1,source=east,topic=orders:3"}},
		{"bridge_checkpoints_total", counter, []string{"bridge=orders,result=decided:7", "bridge=orders,result=failed:1"}},
		{"bridge_checkpoint_phase_seconds", histogram, []string{"bridge=orders,phase=align:2", "bridge=orders,phase=commit:2", "bridge=orders,phase=flush:2", "bridge=orders,phase=persist:2"}},
		{"bridge_epoch", gauge, []string{"bridge=orders:8"}},
		{"bridge_decided_epoch", gauge, []string{"bridge=orders:7"}},
		{"bridge_last_decided_timestamp_seconds", gauge, []string{"bridge=orders:1.7000000005e+09"}},
		{"bridge_transaction_open_seconds", gauge, []string{"bridge=orders:1.5"}},
		{"bridge_transaction_timeout_seconds", gauge, []string{"bridge=orders:900"}},
		{"bridge_recoveries_total", counter, []string{"bridge=orders,outcome=adopted:0", "bridge=orders,outcome=clean:1", "bridge=orders,outcome=committed:0", "bridge=orders,outcome=replayed:2", "bridge=orders,outcome=stale:0"}},
		{"bridge_replayed_records_total", counter, []string{"bridge=orders:11"}},
		{"bridge_source_gaps_total", counter, []string{"bridge=orders,partition=0,source=east,topic=orders:0", "bridge=orders,partition=1,source=east,topic=orders:1", "bridge=orders,partition=2,source=east,topic=orders:0"}},
		{"bridge_restarts_total", counter, []string{"bridge=orders:3"}},
		{"bridge_downtime_budget_seconds", gauge, []string{"bridge=orders:898.5"}},
		{"bridge_checkpoint_size_bytes", gauge, []string{"bridge=orders:321"}},
		{"bridge_source_held_back_seconds", gauge, []string{"bridge=orders,partition=1,source=east,topic=orders:12.5"}},
		{"bridge_source_held_back_by", gauge, []string{"bridge=orders,partition=1,source=east,topic=orders,transactional_id=other:1"}},
		{"bridge_ready", gauge, []string{"bridge=orders:1"}},
	} {
		f := families[want.name]
		if f == nil {
			t.Errorf("%s is absent", want.name)
			continue
		}
		if f.GetType() != want.kind || f.GetHelp() == "" {
			t.Errorf("%s: type %s, want %s; help %q", want.name, f.GetType(), want.kind, f.GetHelp())
		}
		if got := series(f); !slices.Equal(got, want.series) {
			t.Errorf("%s:\n%s\nwant\n%s", want.name, strings.Join(got, "\n"), strings.Join(want.series, "\n"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		if strings.HasSuffix(name, "_total") != (f.GetType() == counter) {
			t.Errorf("%s is a %s", name, f.GetType())
		}
		for _, m := range f.GetMetric() {
			if strings.HasPrefix(name, "bridge_") && !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "bridge" }) {
				t.Errorf("%s without the label bridge", name)
			}
		}
	}
}

// TestHeldIsBounded: transactional ids come and go without end; the ten partitions that are held longest are named.
func TestHeldIsBounded(t *testing.T) {
	s := busy()
	for i := range 500 {
		s.Sources[0].Partitions = append(s.Sources[0].Partitions, bridge.PartitionStatus{Topic: "many", Partition: int32(i), Lag: -1,
			HeldSecs: float64(100 + i), HeldBy: &bridge.Holder{TransactionalID: fmt.Sprint("id-", i)}})
	}
	s.Sources[0].Partitions[len(s.Sources[0].Partitions)-1].HeldBy = &bridge.Holder{ProducerID: 7} // nobody knows its name
	h, _ := handlerOf(s)
	families := scrape(t, h)
	named := series(families["bridge_source_held_back_by"])
	if len(named) != 10 || named[0] != "bridge=orders,partition=489,source=east,topic=many,transactional_id=id-489:1" || !strings.Contains(named[9], "id-498") {
		t.Errorf("%d: %v", len(named), named)
	}
	if n := len(families["bridge_source_held_back_seconds"].GetMetric()); n != 501 {
		t.Errorf("%d are held", n)
	}
}

// TestClientMetrics: a client that takes the place of another is in the scrape once; the end of the earlier does not take it away.
func TestClientMetrics(t *testing.T) {
	h, metrics := handlerOf(busy())
	open := func() *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.WithHooks(metrics.Client("orders", "source", "east")))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_ = cl.Ping(ctx) // nobody listens there: a connect error
		return cl
	}
	first := open()
	second := open()
	first.Close()
	if f := scrape(t, h)["bridge_client_connect_errors_total"]; f == nil || len(f.GetMetric()) != 1 {
		t.Errorf("%v", f)
	}
	second.Close()
	if f := scrape(t, h)["bridge_client_connect_errors_total"]; f != nil {
		t.Errorf("left behind: %v", f)
	}
	if f := scrape(t, h)["bridge_client_buffered_fetch_bytes"]; f != nil {
		t.Errorf("%v", f)
	}
}

// TestMetricsOfTwoBridges: names in common are told apart, and one that is not ready shows it.
func TestMetricsOfTwoBridges(t *testing.T) {
	h, _ := handlerOf(busy(), unready("other", "why"))
	families := scrape(t, h)
	if got, want := series(families["bridge_ready"]), []string{"bridge=orders:1", "bridge=other:0"}; !slices.Equal(got, want) {
		t.Errorf("bridge_ready %v, want %v", got, want)
	}
	if got, want := series(families["bridge_restarts_total"]), []string{"bridge=orders:3", "bridge=other:0"}; !slices.Equal(got, want) {
		t.Errorf("bridge_restarts_total %v, want %v", got, want)
	}
	if f := families["bridge_last_decided_timestamp_seconds"]; f != nil && len(f.GetMetric()) != 1 {
		t.Errorf("a bridge that decided nothing in this run shows a time: %v", series(f))
	}
}
