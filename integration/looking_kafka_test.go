//go:build kafka

package integration

import (
	"strings"
	"testing"

	"kafkabridge/integration/daemon"
)

// TestLookingDisturbsNobody: commands that only look are used beside a bridge under load, and while a transaction of it is prepared. validate asks
// whether the transactional ids may be written to with an EndTxn of a producer id that nobody has: the coordinator must refuse it
// before it touches what is open.
func TestLookingDisturbsNobody(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 2)
			look := func(commands ...string) {
				t.Helper()
				for _, command := range commands {
					out, told, code, err := daemon.Command(t.Context(), daemon.Run{Binary: builds.binary(t), Config: r.cfg, Dir: r.dir}, strings.Fields(command)...)
					if err != nil || code != 0 {
						t.Fatalf("%s: exit code %d: %v\n%s%s", command, code, err, out, told)
					}
				}
			}
			wait := r.background(r.plan(2, 15_000, 1_000))
			d := r.start("")
			r.ready(d)
			for range 4 {
				look("validate", "status", "txn list", "recover --plan")
			}
			if n := r.metric(d, "bridge_restarts_total"); n != 0 {
				t.Errorf("the bridge recovered %v times", n)
			}
			r.kill(d)
			d = r.start(daemon.AfterPersist)
			r.failpoint(d, exitLimit)
			look("validate", "txn list", "recover --plan", "checkpoints list")
			d = r.start("")
			r.ready(d)
			if n := r.metric(d, "bridge_recoveries_total", `outcome="committed"`); n != 1 {
				t.Errorf("recoveries with outcome committed: %v, want 1", n)
			}
			wait()
			r.drained(d)
			r.terminate(d)
			r.exactlyOnce(30_000)
		})
	}
}
