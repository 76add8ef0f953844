//go:build kafka

package integration

import (
	"strings"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// TestScenario10Idle: nothing flows. The bridge is killed and stopped again and again: every start is ready,
// nothing is left open, no error is logged, and what comes afterwards arrives once.
func TestScenario10Idle(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 2)
	for i := range 6 {
		d := r.start("")
		r.ready(d)
		pause(time.Duration(i) * 300 * time.Millisecond)
		r.quiet(d)
		if i%2 == 0 {
			r.kill(d)
		} else {
			r.terminate(d)
		}
		r.nothingOpen()
	}
	produce(t, r.plan(2, 50, 0))
	d := r.start("")
	r.drained(d)
	r.quiet(d)
	r.terminate(d)
	r.exactlyOnce(100)
}

// TestScenario10DropsEverything: a map lets nothing through. Positions move all the same: lag 0, and a restart
// does not read again what was dropped. The dropping map exists only in binaries with failpoints.
func TestScenario10DropsEverything(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 2)
	r.env = []string{"BRIDGE_TEST_MAP=drop"}
	wait := r.background(r.plan(2, 20_000, 8_000))
	r.killLoop(3)
	wait()
	d := r.start("")
	r.ready(d)
	r.drained(d)
	r.terminate(d)
	d = r.start("")
	r.ready(d)
	r.drained(d)
	m, err := d.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := m.Sum("bridge_records_in_total"); n != 0 {
		t.Errorf("%v records read again after a clean stop", n)
	}
	r.terminate(d)
	r.nothingOpen()
	seen, err := oracle.ReadAll(t.Context(), c.Bootstrap(), oracle.Committed, r.out)
	if err != nil || len(seen) != 0 {
		t.Errorf("%d records came through, %v", len(seen), err)
	}
}

// TestScenario10MarkersAndGaps: partitions that end in the markers of aborted transactions, and compaction gaps:
// clean restarts, lag 0 each time, nothing open, nothing read twice.
func TestScenario10MarkersAndGaps(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 0)
	tx, gaps := r.name+"-tx", r.name+"-gaps"
	r.in = []string{tx, gaps}
	createTopic(t, c, tx, 2, nil)
	createTopic(t, c, r.out, 2, nil)
	compactedTopic(t, c, gaps, 2, 1_000)
	r.cfg.Sources[0].Attrs["topics"] = r.in
	// One-record transactions; the last twelve per partition are aborted or markers only.
	plan := traffic.Plan{Bootstrap: c.Bootstrap(), Topic: tx, Partitions: traffic.Range(2), Records: 60, Batches: []int{1},
		TransactionRecords: 1, AbortEvery: 3}
	produce(t, plan)
	plan.First, plan.Records, plan.AbortEvery = 60, 12, 1
	produce(t, plan)
	for i := range 4 {
		d := r.start("")
		r.ready(d)
		r.drained(d)
		r.quiet(d)
		if i%2 == 0 {
			r.terminate(d)
		} else {
			r.kill(d)
		}
		r.nothingOpen()
	}
	r.untilEnd() // does not hang behind markers
	if err := r.sinkReport(r.expected(), oracle.SamePartition).ExactlyOnce(); err != nil {
		t.Error(err)
	}
}

// quiet wants no error in a run's log.
func (r *rig) quiet(d *daemon.Daemon) {
	r.t.Helper()
	for line := range strings.Lines(d.Log()) {
		if strings.Contains(line, "[ERROR]") {
			r.t.Errorf("an idle or healthy bridge logs %s", line)
		}
	}
}
