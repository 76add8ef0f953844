package bridge

import (
	"fmt"
	"sync/atomic"
	"time"
)

// How long the driver may be silent before it counts as dead.
const (
	turnBound = 30 * time.Second // its loop turns every pollInterval, and waits in person for haltGrace at most
	haltBound = 2 * time.Minute  // what a failure cut off has ended by then, or never will
)

// pulse says whether the driver works. Its methods wait for nothing: whoever asks needs an answer when all else hangs. Safe from
// any goroutine.
type pulse struct {
	turned  atomic.Pointer[time.Time] // when the loop last turned; nil while it does not run
	halting atomic.Pointer[time.Time] // since when the end of what was cut off is awaited; nil: it is not
}

func (p *pulse) turn() {
	now := time.Now()
	p.turned.Store(&now)
}

func (p *pulse) end() { p.turned.Store(nil) }

// halt begins a wait for what was cut off; ended is called after it.
func (p *pulse) halt() (ended func()) {
	now := time.Now()
	p.halting.Store(&now)
	return func() { p.halting.CompareAndSwap(&now, nil) }
}

// Alive is nil while the bridge works, or waits for what can come by itself: a broker, a disk that is read again, the pause
// before a restart. It is an error when only the end of the process helps: the driver's loop stands still, or what a failure
// cut off never ends. Safe from any goroutine, also before Run and after it; it never waits.
func (b *Bridge) Alive() error {
	if at := b.pulse.turned.Load(); at != nil && time.Since(*at) > turnBound {
		return fmt.Errorf("bridge %q: the driver has stood still for %s", b.o.Name, time.Since(*at).Round(time.Second))
	}
	if at := b.pulse.halting.Load(); at != nil && time.Since(*at) > haltBound {
		return fmt.Errorf("bridge %q: what a failure cut off has not ended for %s", b.o.Name, time.Since(*at).Round(time.Second))
	}
	return nil
}
