//go:build kafka

package integration

import (
	"testing"
	"time"
)

// TestScenario05SecondProcess: a second process with the same name (its own empty state directory, as on another
// host). The later one goes on, the earlier exits 4, nothing is lost or doubled, and they do not take turns.
func TestScenario05SecondProcess(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			wait := r.background(r.plan(3, 20_000, 5_000))
			first := r.start("")
			r.ready(first)
			pause(2 * time.Second)
			second := r.startWith(r.twin(), "")
			r.exit(first, 4, time.Minute)
			r.ready(second)
			records := wait().Committed
			r.drained(second)
			if n := r.metric(second, "bridge_recoveries_total"); n > 2 {
				t.Errorf("the winner recovered %v times: they took turns", n)
			}
			r.note(second)
			r.terminate(second)
			r.exactlyOnce(records)
		})
	}
}

// TestScenario05FrozenThenSuperseded: the first is frozen in the middle of its work, the second takes over, the
// first wakes up: it may not write anything visible, and exits 4.
func TestScenario05FrozenThenSuperseded(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	wait := r.background(r.plan(3, 20_000, 5_000))
	first := r.start("")
	r.ready(first)
	pause(1300 * time.Millisecond)
	if err := first.Freeze(); err != nil {
		t.Fatal(err)
	}
	second := r.startWith(r.twin(), "")
	r.ready(second)
	pause(2 * time.Second)
	if err := first.Thaw(); err != nil {
		t.Fatal(err)
	}
	r.exit(first, 4, time.Minute)
	records := wait().Committed
	r.drained(second)
	r.note(second)
	r.terminate(second)
	r.exactlyOnce(records)
}

// TestScenario05SameDirectory: a second process on the same state directory is refused at once, and the first
// does not notice.
func TestScenario05SameDirectory(t *testing.T) {
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	wait := r.background(r.plan(3, 5_000, 5_000))
	first := r.start("")
	r.ready(first)
	twin := r.twin()
	twin.Checkpoint["path"] = r.state()
	second := r.startWith(twin, "")
	code, err := second.Exit(t.Context(), readyLimit)
	if err != nil || code == 0 {
		t.Fatalf("exit code %d, want another than 0: %v", code, err)
	}
	r.says(second.Log(), r.state())
	records := wait().Committed
	r.drained(first)
	r.terminate(first)
	r.exactlyOnce(records)
}
