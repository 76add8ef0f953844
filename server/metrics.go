package server

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
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
	clients clients
}

// NewMetrics makes the metrics of one daemon.
func NewMetrics() *Metrics {
	return &Metrics{written: map[string]*Written{}, phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "bridge_checkpoint_phase_seconds",
		Help:    "Seconds that one phase of a checkpoint took that was decided.",
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
	for i := range labels { // one that is no UTF-8, which only a transactional id of others can be, would make the whole scrape an error
		labels[i] = strings.ToValidUTF8(labels[i], "\ufffd")
	}
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
		lag:         gauge("bridge_source_lag_records", "Records (offsets) between the position and the last stable offset.", "source", "topic", "partition"),
		heldBack:    gauge("bridge_source_held_back_records", "Records (offsets) between the last stable offset and the high watermark: what open transactions of the source hold back.", "source", "topic", "partition"),
		heldFor:     gauge("bridge_source_held_back_seconds", "Seconds for which an open transaction has held the last stable offset where it is; absent while that is ordinary.", "source", "topic", "partition"),
		heldBy:      gauge("bridge_source_held_back_by", "Always 1: the transactional id that holds the last stable offset; the 10 partitions of a source that are held longest.", "source", "topic", "partition", "transactional_id"),
		gaps:        counter("bridge_source_gaps_total", "Ranges of the source that were gone before they were read.", "source", "topic", "partition"),
		checkpoints: counter("bridge_checkpoints_total", "Checkpoints by result.", "result"),
		epoch:       gauge("bridge_epoch", "The open epoch."),
		decided:     gauge("bridge_decided_epoch", "The last decided epoch."),
		lastDecided: gauge("bridge_last_decided_timestamp_seconds", "When the last epoch was decided, in seconds of Unix time; absent while this run has decided none."),
		openFor:     gauge("bridge_transaction_open_seconds", "Seconds for which the oldest transaction has been open, as the broker counts them."),
		timeout:     gauge("bridge_transaction_timeout_seconds", "The transaction timeout in seconds."),
		budget:      gauge("bridge_downtime_budget_seconds", "Seconds that the bridge may be down from now before what it has prepared must be read again instead of committed; absent without transactions."),
		size:        gauge("bridge_checkpoint_size_bytes", "Bytes of the newest checkpoint as it was written to the state directory; absent without one."),
		recoveries:  counter("bridge_recoveries_total", "Recoveries by outcome.", "outcome"),
		replayed:    counter("bridge_replayed_records_total", "Records (offsets) read again because their transaction was aborted."),
		restarts:    counter("bridge_restarts_total", "Recoveries inside the process after a failure."),
		ready:       gauge("bridge_ready", "1 when the bridge is running and nothing is overdue."),
		batches:     counter("bridge_source_batches_total", "Source batches by how they went on: untouched, or the reason for which they were encoded anew.", "how"),
		inFlight:    gauge("bridge_in_flight_bytes", "Bytes fetched and not released.", "source"),
	}
})

type familySet struct {
	recordsIn, recordsOut, bytesIn, bytesOut, dropped, mapErrors, deadLetters, lag, heldBack, gaps, checkpoints, epoch, decided, lastDecided, openFor, timeout,
	recoveries, replayed, restarts, ready, batches, inFlight, heldFor, heldBy, budget, size metric
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
	m.clients.collect(out)
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
	if s.CheckpointBytes > 0 {
		send(f.size, float64(s.CheckpointBytes))
	}
	send(f.epoch, float64(s.Epoch))
	send(f.decided, float64(s.DecidedEpoch))
	if s.LastDecidedMs > 0 {
		send(f.lastDecided, float64(s.LastDecidedMs)/1000)
	}
	send(f.openFor, s.Transaction.OpenSecs)
	send(f.timeout, s.Transaction.TimeoutSec)
	if s.Transaction.Budget != nil {
		send(f.budget, *s.Transaction.Budget)
	}
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
		if p.Gone {
			continue // its series go with the topic; the counters go on if it comes back
		}
		number := itoa(p.Partition)
		send(f.recordsIn, float64(p.RecordsIn), src.Name, p.Topic, number)
		send(f.gaps, float64(p.Gaps), src.Name, p.Topic, number)
		if p.Lag >= 0 {
			send(f.lag, float64(p.Lag), src.Name, p.Topic, number)
			send(f.heldBack, float64(max(0, p.HighWatermark-p.LastStable)), src.Name, p.Topic, number)
		}
	}
	collectHeld(f, src, send)
}

// heldShown bounds the series that name a transactional id: there may be a new one in every transaction.
const heldShown = 10

func collectHeld(f *familySet, src bridge.SourceStatus, send func(metric, float64, ...string)) {
	var named []bridge.PartitionStatus
	for _, p := range src.Partitions {
		if p.HeldSecs <= 0 || p.Gone {
			continue
		}
		send(f.heldFor, p.HeldSecs, src.Name, p.Topic, itoa(p.Partition))
		if p.HeldBy != nil && p.HeldBy.TransactionalID != "" {
			named = append(named, p)
		}
	}
	slices.SortStableFunc(named, func(a, b bridge.PartitionStatus) int { return cmp.Compare(b.HeldSecs, a.HeldSecs) })
	for _, p := range named[:min(len(named), heldShown)] {
		send(f.heldBy, 1, src.Name, p.Topic, itoa(p.Partition), p.HeldBy.TransactionalID)
	}
}
