//go:build kafka

package integration

import (
	"fmt"
	"strings"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// ledger is the ledger topic's default name.
func (r *rig) ledger() string { return r.name + ".ledger" }

// expected reads the source topics as a read_committed reader sees them.
func (r *rig) expected() *oracle.Expected {
	r.t.Helper()
	want := oracle.NewExpected()
	if err := want.AddTopics(r.t.Context(), "src", r.src.Bootstrap(), oracle.Committed, r.in...); err != nil {
		r.t.Fatal(err)
	}
	return want
}

// sinkReport compares the sink topic with what is expected.
func (r *rig) sinkReport(want *oracle.Expected, place func(int32, oracle.Record) int32) oracle.Report {
	r.t.Helper()
	check := want.NewCheck()
	check.Place = place
	if err := oracle.Read(r.t.Context(), r.dst.Bootstrap(), oracle.Committed, []string{r.out}, check.Saw); err != nil {
		r.t.Fatal(err)
	}
	r.report = check.Report()
	r.t.Logf("%s on %s: %s; %d kills; recoveries %v", r.name, r.dst, r.report, r.kills, r.outcomes)
	return r.report
}

// exactlyOnce: nothing is open, and the sink shows the source, records in all, once, in order, byte for byte, in
// the partition of the same number. It returns what it expected.
func (r *rig) exactlyOnce(records int) *oracle.Expected {
	r.t.Helper()
	r.nothingOpen()
	want := r.expected()
	report := r.sinkReport(want, oracle.SamePartition)
	if err := report.ExactlyOnce(); err != nil {
		r.t.Error(err)
	}
	// A producer of the traffic that lives through a broker's death may repeat itself: then the source holds more.
	if report.Expected < records || report.Expected > records && !r.repeats {
		r.t.Errorf("the source holds %d records, but %d were produced", report.Expected, records)
	}
	return want
}

// exactlyOnceForTheConsole is exactlyOnce with Kafka's own console consumer as the reader.
func (r *rig) exactlyOnceForTheConsole(want *oracle.Expected) {
	r.t.Helper()
	check := want.NewCheck()
	check.Place = oracle.SamePartition
	console(r.t, r.dst, r.out, check, want.Len())
	if err := check.Report().ExactlyOnce(); err != nil {
		r.t.Errorf("console consumer: %v", err)
	}
}

// nothingOpen: no transaction hangs on the sink topic or the ledger.
func (r *rig) nothingOpen() {
	r.t.Helper()
	if err := oracle.NothingOpen(r.t.Context(), r.dst.Admin(), r.out, r.ledger()); err != nil {
		r.t.Error(err)
	}
}

// drained waits until the positions that the bridge publishes after each decided epoch have reached the ends of
// the sources (which also says that it steps over control records and gaps), and its own lag metric is 0.
func (r *rig) drained(d *daemon.Daemon) {
	r.t.Helper()
	ctx, cancel := contextWithTimeout(r.t, drainLimit)
	defer cancel()
	var behind string
	for {
		if !d.Running() {
			r.t.Fatalf("the bridge ended while it should drain\n%s", d.LogTail())
		}
		err := kafka.Poll(ctx, "the sources are drained", func() (bool, error) {
			var err error
			behind, err = r.behind()
			return behind == "" && r.lag(d) == 0, err
		})
		if err == nil {
			return
		}
		if ctx.Err() != nil || !d.Running() {
			r.t.Fatalf("%v: %s; lag metric %v; /readyz: %s", err, behind, r.lag(d), d.WhyNotReady(r.t.Context()))
		}
	}
}

// behind names the source partitions whose committed position is short of the last stable offset.
func (r *rig) behind() (string, error) {
	ctx := r.t.Context()
	ends, err := r.src.Admin().ListCommittedOffsets(ctx, r.in...)
	if err != nil {
		return "", fmt.Errorf("ends of the sources: %w", err)
	}
	committed, err := r.src.Admin().FetchOffsets(ctx, r.name+"-group")
	if err != nil {
		return "nothing committed yet", nil
	}
	var behind strings.Builder
	for topic, partitions := range ends {
		for partition, end := range partitions {
			at, found := committed.Lookup(topic, partition)
			if end.Offset > 0 && (!found || at.At < end.Offset) {
				fmt.Fprintf(&behind, "%s/%d at %d of %d; ", topic, partition, at.At, end.Offset)
			}
		}
	}
	return behind.String(), nil
}

// lag is the lag metric over all partitions, -1 when it is not there.
func (r *rig) lag(d *daemon.Daemon) float64 {
	m, err := d.Metrics(r.t.Context())
	if err != nil {
		return -1
	}
	if lag, found := m.Sum("bridge_source_lag_records"); found {
		return lag
	}
	return -1
}

// metric reads a metric that must be there.
func (r *rig) metric(d *daemon.Daemon, name string, labels ...string) float64 {
	r.t.Helper()
	m, err := d.Metrics(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	v, found := m.Sum(name, labels...)
	if !found {
		r.t.Errorf("no metric %s %v", name, labels)
	}
	return v
}

// says wants each of the texts in a log, whatever the case.
func (r *rig) says(log string, texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if !strings.Contains(strings.ToLower(log), strings.ToLower(text)) {
			r.t.Errorf("the log does not say %q:\n%s", text, log[max(0, len(log)-4000):])
		}
	}
}

// background produces a plan while the test goes on; the returned function waits for its end.
func (r *rig) background(p traffic.Plan) (wait func() traffic.Count) {
	type result struct {
		count traffic.Count
		err   error
	}
	done := make(chan result, 1)
	ctx := r.t.Context()
	go func() {
		n, err := traffic.Produce(ctx, p)
		done <- result{n, err}
	}()
	return func() traffic.Count {
		r.t.Helper()
		res := <-done
		if res.err != nil {
			r.t.Fatal(res.err)
		}
		return res.count
	}
}

// plan is plain traffic for the first source topic.
func (r *rig) plan(partitions int32, perPartition, perSecond int) traffic.Plan {
	return traffic.Plan{Bootstrap: r.src.Bootstrap(), Topic: r.in[0], Partitions: traffic.Range(partitions),
		Records: perPartition, PerSecond: perSecond, Batches: []int{1, 100, 200, 500}, Codecs: traffic.Codecs()}
}

// pause lets the bridge work for a while: the length of a fault, never a synchronisation.
func pause(d time.Duration) { <-time.After(d) }
