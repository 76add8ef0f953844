package server

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"kafkabridge/bridge"
)

// Metrics turns statuses and observations into Prometheus metrics. Counters come from the status at the moment of the
// scrape, so the hot path pays nothing; only phases are observed one by one.
type Metrics struct {
	read    []Bridge
	phases  *prometheus.HistogramVec
	written map[string]*Written // by bridge; fixed once the server starts
}

// NewMetrics makes the metrics of one daemon.
func NewMetrics() *Metrics {
	return &Metrics{written: map[string]*Written{}, phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "bridge_checkpoint_phase_seconds",
		Help:    "Time of one phase of a checkpoint that was decided.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"bridge", "phase"})}
}

// Observe counts an observation of one bridge. Safe for concurrent use.
func (m *Metrics) Observe(name string, o bridge.Observation) {
	if o.Checkpoint == nil || o.Checkpoint.Result != "decided" {
		return
	}
	for phase, seconds := range map[string]float64{"align": o.Checkpoint.Align, "flush": o.Checkpoint.Flush,
		"persist": o.Checkpoint.Persist, "commit": o.Checkpoint.Commit} {
		m.phases.WithLabelValues(name, phase).Observe(seconds)
	}
}

// metric is one family whose values come from a status.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (m metric) send(out chan<- prometheus.Metric, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

func itoa(partition int32) string { return strconv.Itoa(int(partition)) }

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, append([]string{"bridge"}, labels...), nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, append([]string{"bridge"}, labels...), nil), prometheus.GaugeValue}
}

// families are all metrics that come from a status. They are built once.
var families = sync.OnceValue(func() *familySet {
	return &familySet{
		recordsIn:   counter("bridge_records_in_total", "Records handed over by the source task, in whole batches.", "source", "topic", "partition"),
		recordsOut:  counter("bridge_records_out_total", "Records written to the sink, those of aborted epochs included.", "topic", "partition"),
		bytesIn:     counter("bridge_bytes_in_total", "Bytes of source batches as fetched.", "source"),
		bytesOut:    counter("bridge_bytes_out_total", "Bytes of batches written to the sink, after compression."),
		dropped:     counter("bridge_records_dropped_total", "Records for which a map emitted nothing.", "map"),
		mapErrors:   counter("bridge_map_errors_total", "Records for which a map failed, those of aborted epochs included.", "map", "policy"),
		deadLetters: counter("bridge_dead_letters_total", "Records that went to the dead letter topic, those of aborted epochs included."),
		lag:         gauge("bridge_source_lag_records", "Offsets between the position and the last stable offset.", "source", "topic", "partition"),
		heldBack:    gauge("bridge_source_held_back_records", "Offsets between the last stable offset and the high watermark: what open transactions of the source hold back.", "source", "topic", "partition"),
		gaps:        counter("bridge_source_gaps_total", "Ranges of the source that were gone before they were read.", "source", "topic", "partition"),
		checkpoints: counter("bridge_checkpoints_total", "Checkpoints by result.", "result"),
		epoch:       gauge("bridge_epoch", "The open epoch."),
		decided:     gauge("bridge_decided_epoch", "The last decided epoch."),
		lastDecided: gauge("bridge_last_decided_timestamp_seconds", "When the last epoch was decided, Unix time; absent while this run has decided none."),
		openFor:     gauge("bridge_transaction_open_seconds", "How long the oldest transaction has been open."),
		timeout:     gauge("bridge_transaction_timeout_seconds", "The transaction timeout."),
		recoveries:  counter("bridge_recoveries_total", "Recoveries by outcome.", "outcome"),
		replayed:    counter("bridge_replayed_records_total", "Offsets read again because their transaction was aborted."),
		restarts:    counter("bridge_restarts_total", "Recoveries inside the process after a failure."),
		ready:       gauge("bridge_ready", "1 when the bridge is running and nothing is overdue."),
		batches:     counter("bridge_source_batches_total", "Source batches by how they went on: untouched, or the reason for which they were encoded anew.", "how"),
		inFlight:    gauge("bridge_in_flight_bytes", "Bytes fetched and not released.", "source"),
	}
})

type familySet struct {
	recordsIn, recordsOut, bytesIn, bytesOut, dropped, mapErrors, deadLetters, lag, heldBack, gaps, checkpoints, epoch, decided, lastDecided, openFor, timeout,
	recoveries, replayed, restarts, ready, batches, inFlight metric
}

// Describe sends nothing: the metrics are unchecked, since label values appear and go with topics.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect reads every bridge's status.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.phases.Collect(out)
	for _, b := range m.read {
		collect(b.Status(), out)
	}
	for name, w := range m.written {
		w.collect(name, out)
	}
}

func collect(s bridge.Status, out chan<- prometheus.Metric) {
	f := families()
	send := func(m metric, v float64, labels ...string) {
		m.send(out, v, append([]string{s.Bridge}, labels...)...)
	}
	for _, src := range s.Sources {
		collectSource(f, src, send)
	}
	send(f.bytesOut, float64(s.Maps.BytesOut))
	for kind, n := range s.Maps.DroppedBy {
		send(f.dropped, float64(n), kind)
	}
	for kind, by := range s.Maps.MapErrors {
		for policy, n := range by {
			send(f.mapErrors, float64(n), kind, string(policy))
		}
	}
	send(f.deadLetters, float64(s.Maps.DeadLetters))
	for _, result := range []string{"decided", "failed"} {
		send(f.checkpoints, float64(s.Checkpoints[result]), result)
	}
	send(f.epoch, float64(s.Epoch))
	send(f.decided, float64(s.DecidedEpoch))
	if s.LastDecidedMs > 0 {
		send(f.lastDecided, float64(s.LastDecidedMs)/1000)
	}
	send(f.openFor, s.Transaction.OpenSecs)
	send(f.timeout, s.Transaction.TimeoutSec)
	for _, outcome := range []string{"clean", "committed", "replayed", "adopted", "stale"} {
		send(f.recoveries, float64(s.Recoveries[outcome]), outcome)
	}
	send(f.replayed, float64(s.Replayed))
	send(f.restarts, float64(s.Restarts))
	ready := 0.0
	if s.Ready {
		ready = 1
	}
	send(f.ready, ready)
	send(f.batches, float64(s.Maps.Untouched), "untouched")
	for reason, n := range s.Maps.Reencoded {
		send(f.batches, float64(n), reason)
	}
}

func collectSource(f *familySet, src bridge.SourceStatus, send func(metric, float64, ...string)) {
	send(f.bytesIn, float64(src.BytesIn), src.Name)
	send(f.inFlight, float64(src.InFlight), src.Name)
	for _, p := range src.Partitions {
		number := itoa(p.Partition)
		send(f.recordsIn, float64(p.RecordsIn), src.Name, p.Topic, number)
		send(f.gaps, float64(p.Gaps), src.Name, p.Topic, number)
		if p.Lag >= 0 {
			send(f.lag, float64(p.Lag), src.Name, p.Topic, number)
			send(f.heldBack, float64(max(0, p.HighWatermark-p.LastStable)), src.Name, p.Topic, number)
		}
	}
}
