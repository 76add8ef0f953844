//go:build kafka

package integration

import (
	"os"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
)

// aftermath is what happens after a bridge has died at a failpoint; it returns the run that goes on.
type aftermath struct {
	name   string
	resume func(*cell) *daemon.Daemon
}

func aftermaths() []aftermath {
	return []aftermath{
		{"restart at once", func(x *cell) *daemon.Daemon { return x.again("") }},
		{"after the transaction timeout", (*cell).afterTimeout},
		{"with an empty state directory", (*cell).afterDirectoryLost},
		{"with a rival", (*cell).besideRival},
	}
}

// afterTimeout waits for the transaction timeout, the sweeper's interval and a little more; then nothing is open any more.
func (x *cell) afterTimeout() *daemon.Daemon {
	x.t.Helper()
	pause(cellTimeout + 1500*time.Millisecond)
	x.aborted()
	return x.again("")
}

func (x *cell) afterDirectoryLost() *daemon.Daemon {
	x.t.Helper()
	if err := os.RemoveAll(x.state()); err != nil {
		x.t.Fatal(err)
	}
	return x.again("")
}

// besideRival starts the bridge twice at the same moment, the second as if on another host. One of them takes over,
// the other exits 4.
func (x *cell) besideRival() *daemon.Daemon {
	x.t.Helper()
	begin := time.Now()
	winner, loser := x.start(""), x.startWith(x.twin(), "")
	select {
	case <-winner.Done():
		winner, loser = loser, winner
	case <-loser.Done():
	case <-time.After(recoverLimit):
		x.t.Fatal("two instances live beside each other")
	}
	x.exit(loser, 4, exitLimit)
	x.recovered(winner, begin)
	return winner
}

// failpoints: every step of the protocol, died at, in all ways of going on, within a cluster and between two. The part
// takes each pair of step and way once, and goes round the places.
func (b *batch) failpoints(t *testing.T) {
	places, cells := b.places(), 0
	for _, point := range daemon.Failpoints() {
		for _, after := range aftermaths() {
			scenario := point + ", " + after.name
			b.announce(scenario)
			for i, place := range places {
				if !b.full && i != (cells+cells/len(places))%len(places) {
					continue
				}
				t.Run(short(point+" "+after.name+" "+place.name), func(t *testing.T) {
					t.Parallel()
					x := b.newCell(t, scenario, place.src, place.dst, 3)
					x.failpoint(x.start(nth(point)), recoverLimit)
					x.judge(b, after.resume(x))
				})
			}
			cells++
		}
	}
}

// nth lets some epochs be decided first, where a step comes more than once in a run.
func nth(point string) string {
	if point == daemon.AfterFence || point == daemon.AfterClaim {
		return point
	}
	return point + ":3"
}

// place is where from and to records flow.
type place struct {
	name     string
	src, dst *kafka.Cluster
}

// places: the sink's transaction version is what the name says.
func (c *campaign) places() []place {
	v2, v1 := c.sites[0].Cluster, c.sites[1].Cluster
	return []place{{"tv2", v2, v2}, {"tv1", v1, v1}, {"to tv2", v1, v2}, {"to tv1", v2, v1}}
}
