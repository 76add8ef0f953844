package sim

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	oneSeed    = flag.Uint64("sim.seed", 1, "the first seed")
	seeds      = flag.Uint64("sim.seeds", 0, "how many seeds; 0: as many as fit in -sim.for")
	repeat     = flag.Int("sim.repeat", 1, "how often each seed is run: what goroutines interleave does not follow from the seed")
	traceDir   = flag.String("sim.trace", "", "directory for traces of failed runs; default: a new one")
	duration   = flag.Duration("sim.for", 25*time.Second, "wall clock without -sim.seeds")
	keepTrace  = flag.Bool("sim.keep", false, "write the trace of runs that pass, too")
	diskFaults = flag.Bool("sim.disk", true, "let disks fail")
)

// TestSimulation runs seeds until the time is over.
func TestSimulation(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // worlds are short-lived
	var next, ran atomic.Uint64
	began := time.Now()
	last := *oneSeed + *seeds
	more := func() (uint64, bool) {
		seed := *oneSeed + next.Add(1) - 1
		if *seeds > 0 {
			return seed, seed < last
		}
		return seed, time.Since(began) < *duration && !t.Failed()
	}
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("worker", i), func(t *testing.T) {
				t.Parallel()
				for seed, ok := more(); ok; seed, ok = more() {
					for range *repeat {
						t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { simulate(t, seed) })
						ran.Add(1)
					}
				}
			})
		}
	})
	t.Logf("%d runs in %s", ran.Load(), time.Since(began).Round(time.Millisecond))
}

// simulate runs one seed in a bubble of its own.
func simulate(t *testing.T, seed uint64) {
	var w *world
	defer func() {
		// A Pebble instance whose disk has failed is left behind frozen, by design (snapshot's gate): its goroutines never end. Only those
		// may be left over.
		if p := recover(); p != nil && (w == nil || !w.frozen() || !strings.Contains(fmt.Sprint(p), "blocked goroutines remain")) {
			panic(p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed)
		w.run()
		if t.Failed() || *keepTrace {
			w.tr.save(t, seed)
		}
	})
}

// frozen says whether the disk of a bridge has failed.
func (w *world) frozen() bool {
	for _, p := range w.processes {
		if p.illDisk {
			return true
		}
	}
	return false
}
