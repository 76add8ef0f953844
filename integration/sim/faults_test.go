package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type faultKind uint8

// What may happen to one request on the wire.
const (
	faultNone        faultKind = iota
	faultRequestLost           // the connection is cut before the request arrives
	faultAnswerLost            // it did its work, then the connection is cut
	faultRequestLate           // it is held up on its way
	faultAnswerLate            // its answer is held up
)

func (k faultKind) String() string {
	return [...]string{"none", "request lost", "answer lost", "request late", "answer late"}[k]
}

type fault struct {
	kind     faultKind
	delay    time.Duration
	outlives bool // a request under way arrives although its sender has died
}

func (f fault) String() string {
	if f.delay > 0 {
		return fmt.Sprintf("%s by %s", f.kind, f.delay)
	}
	return f.kind.String()
}

// faults decides over the requests of all processes. The n-th request of a kind meets the same fault in every run of a seed;
// which request is the n-th is up to the Go scheduler.
type faults struct {
	seed     uint64
	slowest  time.Duration // of a late request or answer
	punctual bool          // NONE: a Produce that arrives late would be out of order, and nothing fences it

	mu    sync.Mutex
	rates map[kmsg.Key]float64
	base  float64
	count map[kmsg.Key]uint64
}

func newFaults(seed uint64, cfg config) *faults {
	return &faults{seed: seed, slowest: cfg.timeout * 3 / 2, punctual: cfg.twist == twistNone || cfg.twist == twistSemantic, count: map[kmsg.Key]uint64{}}
}

// set changes how often faults happen: base for every kind of request that rates does not name.
func (f *faults) set(base float64, rates map[kmsg.Key]float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.base, f.rates = base, rates
}

func (f *faults) next(key kmsg.Key) fault {
	f.mu.Lock()
	n := f.count[key]
	f.count[key]++
	rate, named := f.rates[key]
	if !named {
		rate = f.base
	}
	f.mu.Unlock()
	r := rand.New(rand.NewPCG(f.seed, uint64(key)<<32|n))
	punctual := f.punctual && key == kmsg.Produce
	out := fault{outlives: r.IntN(2) == 0 && !punctual}
	if r.Float64() >= rate {
		return out
	}
	out.kind = faultKind(1 + r.IntN(4))
	if punctual && out.kind == faultRequestLate {
		out.kind = faultRequestLost
	}
	if out.kind == faultRequestLate || out.kind == faultAnswerLate {
		// Most delays are short; some outlive every timeout.
		out.delay = time.Duration(r.Float64() * r.Float64() * r.Float64() * float64(f.slowest))
	}
	return out
}
