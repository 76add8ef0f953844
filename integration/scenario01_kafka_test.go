//go:build kafka

package integration

import (
	"math/rand/v2"
	"testing"
	"time"

	"kafkabridge/integration/kafka"
)

// TestScenario01KillsAtRandomMoments: EXACTLY_ONCE, 6 partitions, a checkpoint every 500 ms, killed at random
// moments while records flow: every record once, in order, byte for byte. A million records and 20 kills on the
// newest broker, fewer on the others.
func TestScenario01KillsAtRandomMoments(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			if clusterName(o) == clusterName(current()) {
				killsAtRandom(t, c, c, 1_000_002, 20)
			} else {
				killsAtRandom(t, c, c, 120_000, 6)
			}
		})
	}
}

// killsAtRandom moves so many records (a multiple of 6) from src to dst under so many kills.
func killsAtRandom(t *testing.T, src, dst *kafka.Cluster, records, kills int) {
	r := newRig(t, "EXACTLY_ONCE", src, dst, 6)
	// The traffic lasts about as long as the kills, so that each of them strikes while records flow.
	wait := r.background(r.plan(6, records/6, max(5_000, records/(2*kills))))
	r.killLoop(kills)
	if n := wait(); n.Committed != records {
		t.Fatalf("produced %+v, want %d", n, records)
	}
	r.untilEnd()
	r.exactlyOnceForTheConsole(r.exactlyOnce(records))
}

// killLoop starts the bridge and kills it, so many times, each after a random time of up to two seconds: before
// it has recovered, while it flushes, persists and commits. The seed is printed.
func (r *rig) killLoop(kills int) {
	r.t.Helper()
	seed := rand.Uint64()
	r.t.Logf("kill times: seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range kills {
		d := r.start("")
		if i%4 != 3 { // every fourth kill may strike during recovery itself
			r.ready(d)
		}
		pause(time.Duration(random.Int64N(int64(2 * time.Second))))
		r.kill(d)
	}
}
