//go:build kafka

package integration

import (
	"testing"

	"kafkabridge/integration/oracle"
)

// TestScenario07AtLeastOnce: under kills nothing is missing, and first occurrences keep their order.
func TestScenario07AtLeastOnce(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "AT_LEAST_ONCE", c, c, 6)
	wait := r.background(r.plan(6, 30_000, 15_000))
	r.killLoop(8)
	records := wait().Committed
	r.untilEnd()
	report := r.sinkReport(r.expected(), oracle.SamePartition)
	if err := report.AtLeastOnce(); err != nil {
		t.Error(err)
	}
	if report.Expected != records {
		t.Errorf("the source holds %d records, %d were produced", report.Expected, records)
	}
}

// TestScenario07CleanStopDoublesNothing: AT_LEAST_ONCE stopped with SIGTERM ten times in the middle of the
// stream: nothing is lost and nothing is doubled.
func TestScenario07CleanStopDoublesNothing(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "AT_LEAST_ONCE", c, c, 3)
	wait := r.background(r.plan(3, 20_000, 8_000))
	for range 6 {
		d := r.start("")
		r.ready(d)
		r.terminate(d)
	}
	wait()
	r.untilEnd()
	if err := r.sinkReport(r.expected(), oracle.SamePartition).ExactlyOnce(); err != nil {
		t.Error(err)
	}
}

// TestScenario07None: without faults everything arrives. Under kills it may lose and double, and the figures are
// printed; what arrives is still a record of the source, unchanged, and it still runs.
func TestScenario07None(t *testing.T) {
	c := sharedCluster(t, current())
	t.Run("undisturbed", func(t *testing.T) {
		r := newRig(t, "NONE", c, c, 3)
		produce(t, r.plan(3, 10_000, 0))
		r.untilEnd()
		if err := r.sinkReport(r.expected(), oracle.SamePartition).ExactlyOnce(); err != nil {
			t.Error(err)
		}
	})
	t.Run("killed", func(t *testing.T) {
		r := newRig(t, "NONE", c, c, 3)
		wait := r.background(r.plan(3, 30_000, 10_000))
		r.killLoop(5)
		wait()
		r.untilEnd()
		report := r.sinkReport(r.expected(), oracle.SamePartition)
		t.Logf("NONE under %d kills: %d of %d lost, %d doubled", r.kills, report.Lost, report.Expected, report.Doubled)
		if report.Foreign > 0 || report.Misplaced > 0 || report.Seen == 0 {
			t.Error(report)
		}
	})
}
