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
	"github.com/twmb/franz-go/pkg/kfake"

	"kafkabridge/integration/oracle"
	"kafkabridge/semantics"
)

// world is everything in one bubble. Its fields belong to the goroutine of the scenario, except where they have locks.
type world struct {
	t      *testing.T
	seed   uint64
	cfg    config // the semantic changes with twistSemantic
	tr     *trace
	from   *site // of the sources
	to     *site // of the sink; often the same
	coord  *coordinator
	watch  *watch
	faults *faults
	rand   *rand.Rand // the scenario's

	feeders []*feeder
	feeding sync.WaitGroup
	full    chan struct{} // closed: no more traffic

	processes  []*process
	orders     orders
	weakest    semantics.Semantic // of all incarnations
	refused    bool               // the last one needs an operator who looks at the sink
	oldDisk    bool               // the state directory may be behind the ledger
	injected   []*kfake.FaultHandle
	started    int
	neighbours int
	removals   int
	deleted    map[tp]int64 // source records below are deleted
	compacted  bool
	readable   map[place]bool      // what readers see of the sources in the end
	relics     []oracle.Record     // what readers had seen of sink topics that were removed
	doomed     map[string]struct{} // what was not committed in them

	diskMu   sync.Mutex
	diskRand *rand.Rand

	failMu   sync.Mutex
	failures []string
}

// tp is a source partition.
type tp struct {
	topic     string
	partition int32
}

func clients() map[net.Conn]struct{} { return map[net.Conn]struct{}{} }

func newWorld(t *testing.T, seed uint64) *world { return buildWorld(t, seed, func(*config) {}) }

// buildWorld makes the world of a seed with another configuration.
func buildWorld(t *testing.T, seed uint64, change func(*config)) *world {
	r := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	w := &world{t: t, seed: seed, cfg: newConfig(r(1)), tr: newTrace(), rand: r(2), diskRand: r(3), full: make(chan struct{}), deleted: map[tp]int64{}, readable: map[place]bool{}, doomed: map[string]struct{}{}}
	change(&w.cfg)
	w.weakest = semantics.ExactlyOnce
	w.tr.add("sim", "seed %d %+v", seed, w.cfg)
	w.faults = newFaults(seed, w.cfg)
	w.watch = newWatch(w.cfg, w.errorf)
	w.boot()
	prepare := r(4)
	w.coord = newCoordinator(w.to.adm, w.tr, w.watch, w.cfg, func(int) time.Duration { // called with the coordinator's lock
		return pick(prepare, 0, time.Millisecond, 20*time.Millisecond, 300*time.Millisecond, 3*time.Second)
	})
	for i, s := range w.cfg.sources {
		for j, t := range s {
			w.feeders = append(w.feeders, w.newFeeder(t, r(uint64(100+10*i+j))))
		}
	}
	return w
}

// boot starts the clusters and creates the source topics.
func (w *world) boot() {
	var opts []kfake.Opt
	if w.cfg.twist == twistExpiry {
		opts = append(opts, kfake.BrokerConfigs(map[string]string{"transactional.id.expiration.ms": fmt.Sprint(idsLive.Milliseconds())}))
	}
	w.to = newSite(w.t, "sink", w.cfg.brokers, !w.cfg.tv2, opts...)
	w.from = w.to
	if w.cfg.apart {
		w.from = newSite(w.t, "source", 1+int(w.seed%2), w.cfg.oldFrom)
	}
	configs := map[string]string{}
	if w.cfg.twist == twistCompaction {
		configs["cleanup.policy"], configs["delete.retention.ms"] = "compact", "1000"
	}
	for _, s := range w.cfg.sources {
		for _, t := range s {
			if err := w.from.cluster.CreateTopic(t.name, t.partitions, configs); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func (w *world) sites() []*site {
	if w.from == w.to {
		return []*site{w.to}
	}
	return []*site{w.from, w.to}
}

// errorf notes a failure and goes on, so that the bubble ends in order.
func (w *world) errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tr.add("sim", "FAIL %s", text)
	w.failMu.Lock()
	defer w.failMu.Unlock()
	if len(w.failures) < 10 { // one fault has many consequences; the trace has them all
		w.failures = append(w.failures, text)
	}
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
	for _, s := range w.sites() {
		s.close()
	}
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

// finish: the last bridge, undisturbed, moves everything that is left within a bounded time. Where it has to refuse, an operator reads
// what it says and starts it again.
func (w *world) finish(disk *vfs.MemFS) {
	for range 4 {
		w.changeSemantic()
		disk = w.orders.disk(w, disk)
		p := w.start(disk, launch{untilEnd: true})
		limit := 3*time.Minute + 3*w.coord.timeout
		began := time.Now()
		if !p.within(limit) {
			w.errorf("the last bridge did not move everything within %s: %s", limit, p.status())
			return
		}
		w.tr.add("sim", "DRAINED after %s", time.Since(began))
		switch {
		case p.err == nil:
			w.checkRecoveryTime(p, began)
			return
		case w.undecidable(p.err):
			w.refused = true
			return
		case !w.consult(p):
			w.errorf("the last bridge: exit %d: %v", exitCode(p.err), p.err)
			return
		}
		disk = p.left()
	}
	w.errorf("the last bridge refuses again and again")
}
