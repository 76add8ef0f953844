//go:build kafka

package integration

import (
	"testing"
	"time"
)

// TestScenario06BrokerKilled: the broker is killed with -9 and restarted under load, three times: the bridge
// goes on by itself. The traffic's own producer waits meanwhile, and goes on too.
func TestScenario06BrokerKilled(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := startCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			r.repeats = true
			wait := r.background(r.plan(3, 60_000, 9_000))
			d := r.start("")
			for i := range 3 {
				r.ready(d)
				pause(time.Duration(600+i*400) * time.Millisecond)
				restartNode(t, c, 1)
			}
			records := wait().Committed
			r.drained(d)
			r.note(d)
			r.terminate(d)
			r.exactlyOnce(records)
		})
	}
}

// TestScenario06Frozen: the process is frozen beyond its transaction timeout, so that the broker aborts its
// transaction: no other instance exists, and it recovers by itself.
func TestScenario06Frozen(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			r.timesOutSoon()
			wait := r.background(r.plan(3, 40_000, 6_000))
			d := r.start("")
			for i := range 2 {
				r.ready(d)
				pause(time.Duration(900+i*333) * time.Millisecond)
				if err := d.Freeze(); err != nil {
					t.Fatal(err)
				}
				pause(5 * time.Second) // the timeout and the sweeper's interval
				r.aborted()
				if err := d.Thaw(); err != nil {
					t.Fatal(err)
				}
			}
			records := wait().Committed
			r.drained(d)
			r.note(d)
			r.terminate(d)
			r.exactlyOnce(records)
		})
	}
}

// TestScenario06LeaderMoves: three nodes, each killed in turn under load, so that leaders and coordinators move.
func TestScenario06LeaderMoves(t *testing.T) {
	o := current()
	o.Nodes = 3
	c := startCluster(t, o)
	r := newRig(t, "EXACTLY_ONCE", c, c, 6)
	r.repeats = true
	wait := r.background(r.plan(6, 40_000, 10_000))
	d := r.start("")
	for id := int32(1); id <= 3; id++ {
		r.ready(d)
		restartNode(t, c, id)
	}
	records := wait().Committed
	r.drained(d)
	r.note(d)
	r.terminate(d)
	r.exactlyOnce(records)
}
