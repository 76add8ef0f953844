//go:build kafka

package integration

import (
	"strings"
	"testing"

	"kafkabridge/integration/daemon"
)

// timesOutSoon gives the bridge a transaction timeout that a test can wait for. The bridge refuses one that is not
// longer than checkpoint.interval and checkpoint.timeout together.
func (r *rig) timesOutSoon() {
	r.cfg.Sink.Attrs["transaction_timeout"], r.cfg.Checkpoint["timeout"] = "4s", "2s"
}

// TestScenario03TimedOutIsReplayed: killed with a prepared transaction and down until the broker has aborted it.
// The restart replays the range, exactly once, and says so in log, metric and /status.
func TestScenario03TimedOutIsReplayed(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			r.timesOutSoon()
			records := r.dieAt(daemon.AfterPersist+":3", 30_000)
			r.aborted()
			d := r.start("")
			r.ready(d)
			r.drained(d)
			if n := r.metric(d, "bridge_recoveries_total", `outcome="replayed"`); n != 1 {
				t.Errorf("recoveries with outcome replayed: %v, want 1", n)
			}
			if n := r.metric(d, "bridge_replayed_records_total"); n <= 0 {
				t.Errorf("replayed records: %v", n)
			}
			status, err := d.Status(t.Context())
			if err != nil || !strings.Contains(status, "replayed") {
				t.Errorf("/status does not say replayed: %v\n%s", err, status)
			}
			r.says(d.Log(), "replay", r.in[0])
			r.note(d)
			r.terminate(d)
			r.exactlyOnce(records)
		})
	}
}

// TestScenario03OnTimeoutFail: the same with on_timeout = "fail": exit 3, naming topic, partitions and offsets;
// with "replay" the next start goes on.
func TestScenario03OnTimeoutFail(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			r.timesOutSoon()
			r.cfg.Sink.Attrs["on_timeout"] = "fail"
			records := r.dieAt(daemon.AfterPersist+":3", 30_000)
			r.aborted()
			for range 2 { // a refusal must not change what the next start finds
				log := r.exit(r.start(""), 3, readyLimit)
				r.says(log, r.in[0]+"/0", "offset", "on_timeout")
			}
			r.cfg.Sink.Attrs["on_timeout"] = "replay"
			r.untilEnd()
			r.exactlyOnce(records)
		})
	}
}
