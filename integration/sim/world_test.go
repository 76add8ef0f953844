package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// world is everything in one bubble. Its fields belong to the goroutine of the scenario, except where they have locks.
type world struct {
	t       *testing.T
	seed    uint64
	cfg     config
	tr      *trace
	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	brokers []string
	cl      *kgo.Client // without faults
	adm     *kadm.Client
	coord   *coordinator
	faults  *faults
	rand    *rand.Rand // the scenario's

	feeders []*feeder
	feeding sync.WaitGroup
	full    chan struct{} // closed: no more traffic

	processes  []*process
	refused    bool // the last one needs an operator
	oldDisk    bool // the state directory may be behind the ledger
	injected   []*kfake.FaultHandle
	started    int
	neighbours int

	diskMu   sync.Mutex
	diskRand *rand.Rand

	failMu   sync.Mutex
	failures []string
}

func clients() map[net.Conn]struct{} { return map[net.Conn]struct{}{} }

func newWorld(t *testing.T, seed uint64) *world { return buildWorld(t, seed, func(*config) {}) }

// buildWorld makes the world of a seed with another configuration.
func buildWorld(t *testing.T, seed uint64, change func(*config)) *world {
	r := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	w := &world{t: t, seed: seed, cfg: newConfig(r(1)), tr: newTrace(), net: &kfake.VirtualNetwork{}, rand: r(2), diskRand: r(3), full: make(chan struct{})}
	change(&w.cfg)
	w.tr.add("sim", "seed %d %+v", seed, w.cfg)
	w.faults = newFaults(seed, w.cfg.timeout*3/2)
	opts := []kfake.Opt{kfake.NumBrokers(w.cfg.brokers), kfake.Ports(ports(w.cfg.brokers)...), kfake.ListenFn(w.net.Listen)}
	if !w.cfg.tv2 {
		opts = append(opts, kfake.MaxVersions(kversion.FromString("3.9")))
	}
	for _, s := range w.cfg.sources {
		for _, t := range s {
			opts = append(opts, kfake.SeedTopics(t.partitions, t.name))
		}
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	w.cluster, w.brokers = cluster, cluster.ListenAddrs()
	w.cl = w.client()
	w.adm = kadm.NewClient(w.cl)
	prepare := r(4)
	w.coord = newCoordinator(w.adm, w.tr, w.cfg, func(int) time.Duration { // called with the coordinator's lock
		return pick(prepare, 0, time.Millisecond, 20*time.Millisecond, 300*time.Millisecond, 3*time.Second)
	})
	for i, s := range w.cfg.sources {
		for j, t := range s {
			w.feeders = append(w.feeders, w.newFeeder(t, r(uint64(100+10*i+j))))
		}
	}
	return w
}

func ports(n int) (out []int) {
	for i := range n {
		out = append(out, 9092+i)
	}
	return out
}

func (w *world) client(more ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(more, kgo.SeedBrokers(w.brokers...), kgo.Dialer(w.net.DialContext), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.DisableClientMetrics(), kgo.WithDecompressor(bubbleDecompressor{kgo.DefaultDecompressor()}))...)
	if err != nil {
		w.t.Fatal(err)
	}
	return cl
}

// errorf notes a failure and goes on, so that the bubble ends in order.
func (w *world) errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tr.add("sim", "FAIL %s", text)
	w.failMu.Lock()
	defer w.failMu.Unlock()
	w.failures = append(w.failures, text)
}

func (w *world) failed() bool {
	w.failMu.Lock()
	defer w.failMu.Unlock()
	return len(w.failures) > 0
}

func (w *world) feed() {
	for _, f := range w.feeders {
		w.feeding.Go(func() { f.run(w.full) })
	}
}

// close ends everything in the bubble.
func (w *world) close() {
	for _, p := range w.processes {
		p.kill()
		<-p.done
	}
	for _, p := range w.processes {
		p.wire.pumps.Wait()
	}
	for _, f := range w.feeders {
		f.close()
	}
	w.cl.Close()
	w.cluster.Close()
}

// run is one seed, inside a bubble.
func (w *world) run() {
	w.feeders[0].first(w.cfg.startAt)
	w.feed()
	w.conclude(w.lives())
}

// conclude ends the faults and the traffic, lets a last bridge finish, and judges. Failures go to t.
func (w *world) conclude(disk *vfs.MemFS) {
	w.tr.add("sim", "FAULTS END")
	w.quiet()
	close(w.full)
	w.feeding.Wait()
	if !w.failed() {
		w.finish(disk)
	}
	for _, p := range w.processes {
		if p.ended() {
			w.checkExit(p)
			w.checkRecoveries(p)
		}
	}
	if !w.failed() {
		for _, p := range w.processes {
			p.wire.pumps.Wait() // what is still on the wire arrives first
		}
		w.judge(context.Background())
	}
	w.close()
	for _, f := range w.failures {
		w.t.Errorf("seed %d: %s", w.seed, f)
	}
}

// finish: the last bridge, undisturbed, moves everything that is left within a bounded time.
func (w *world) finish(disk *vfs.MemFS) {
	began := time.Now()
	p := w.start(disk, untilEnd, "", 0)
	limit := 3*time.Minute + 3*w.cfg.timeout
	if !p.within(limit) {
		w.errorf("the last bridge did not move everything within %s: %s", limit, p.status())
		return
	}
	w.tr.add("sim", "DRAINED after %s", time.Since(began))
	if w.undecidable(p.err) {
		w.refused = true
	} else if p.err != nil {
		w.errorf("the last bridge: exit %d: %v", exitCode(p.err), p.err)
	}
}
