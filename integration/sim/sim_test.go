package sim

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
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
	seeds      = flag.Uint64("sim.seeds", 0, "how many seeds, whatever time they take; 0: usualSeeds, or as many of them as -sim.for allows")
	onlyTwist  = flag.String("sim.twist", "", "only seeds whose twist has this text")
	repeat     = flag.Int("sim.repeat", 1, "how often each seed is run: what goroutines interleave does not follow from the seed")
	traceDir   = flag.String("sim.trace", "", "directory for traces of failed runs; default: a new one")
	duration   = flag.Duration("sim.for", 0, "wall clock; with it, any number of seeds; 0: usualSeeds within usualTime")
	keepTrace  = flag.Bool("sim.keep", false, "write the trace of runs that pass, too")
	diskFaults = flag.Bool("sim.disk", true, "let disks fail")
)

// TestSimulation runs seeds until there are enough, or the time is over: a slow machine runs fewer and says so.
func TestSimulation(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(200)) // worlds are short-lived
	var next, ran atomic.Uint64
	began := time.Now()
	most, limit := uint64(usualSeeds), usualTime
	switch {
	case *seeds > 0:
		most, limit = *seeds, 0
	case *duration > 0:
		most, limit = math.MaxUint64, *duration
	}
	more := func() (uint64, bool) {
		n := next.Add(1) - 1
		for n < most && !strings.Contains(string(twistOf(*oneSeed+n)), *onlyTwist) {
			n = next.Add(1) - 1
		}
		return *oneSeed + n, n < most && (limit == 0 || time.Since(began) < limit && !t.Failed())
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
	t.Logf("%d runs in %s; longest recovery %s of virtual time", ran.Load(), time.Since(began).Round(time.Millisecond), time.Duration(longest.Load()).Round(time.Millisecond))
}

func twistOf(seed uint64) twist { return newConfig(rand.New(rand.NewPCG(seed, 1))).twist }

// longest is the longest recovery of a last bridge, in virtual time.
var longest atomic.Int64

func noteRecovery(took time.Duration) {
	for {
		now := longest.Load()
		if int64(took) <= now || longest.CompareAndSwap(now, int64(took)) {
			return
		}
	}
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
