//go:build kafka

package integration

import (
	"testing"
	"time"

	"kafkabridge/integration/daemon"
)

// TestScenario02PreparedIsCommitted: killed when the checkpoint is durable and EndTxn is not sent. The restart
// commits the prepared transaction within 5 s and reads nothing of it again.
func TestScenario02PreparedIsCommitted(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			records := r.dieAt(daemon.AfterPersist+":3", 30_000)
			through := r.throughPrepared()
			if through == 0 || through > records {
				t.Fatalf("%d of %d records up to the prepared transaction", through, records)
			}
			begin := time.Now()
			d := r.start("")
			r.ready(d)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("ready %v after the restart, want 5 s", took)
			}
			if n := r.metric(d, "bridge_recoveries_total", `outcome="committed"`); n != 1 {
				t.Errorf("recoveries with outcome committed: %v, want 1", n)
			}
			r.drained(d)
			if read := r.metric(d, "bridge_records_in_total"); int(read) != records-through {
				t.Errorf("%v records read after the restart, want %d: all but the %d of committed transactions", read, records-through, through)
			}
			if n := r.metric(d, "bridge_replayed_records_total"); n != 0 {
				t.Errorf("replayed records: %v, want 0", n)
			}
			r.note(d)
			r.terminate(d)
			r.exactlyOnce(records)
		})
	}
}

// dieAt produces so many records in about five seconds while the bridge runs into a failpoint, and returns how
// many there are when the traffic has ended.
func (r *rig) dieAt(failpoint string, records int) int {
	r.t.Helper()
	wait := r.background(r.plan(3, records/3, records/5))
	r.failpoint(r.start(failpoint), time.Minute)
	return wait().Committed
}

// TestEveryFailpoint: killed at each named step of the protocol, at its first and a later time, then gone on.
func TestEveryFailpoint(t *testing.T) {
	for _, name := range daemon.Failpoints() {
		t.Run(name, func(t *testing.T) {
			c := sharedCluster(t, current())
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			wait := r.background(r.plan(3, 8_000, 4_000))
			r.failpoint(r.start(name), time.Minute)
			if name != daemon.AfterFence && name != daemon.AfterClaim { // these come once in a run
				r.failpoint(r.start(name+":2"), time.Minute)
			}
			records := wait().Committed
			r.untilEnd()
			r.exactlyOnce(records)
		})
	}
}
