//go:build kafka

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/proxy"
)

// builds compiles the bridge once for all tests.
var builds = &build{}

type build struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func (b *build) binary(t *testing.T) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "kafkabridge-binary-"); b.err == nil {
			b.path, b.err = daemon.Build(t.Context(), b.dir)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

func (b *build) close() {
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// Bounds of the contract, with room for a loaded two-core machine.
const (
	readyLimit = 30 * time.Second
	exitLimit  = 30 * time.Second
	drainLimit = 4 * time.Minute
)

// rig is one bridge of a test: its topics, its configuration, and all runs of its process.
type rig struct {
	// repeats: the traffic's own producer may repeat itself, because its broker dies.
	repeats  bool
	env      []string // added to the environment of every bridge
	t        *testing.T
	name     string
	src, dst *kafka.Cluster
	in       []string // source topics
	out      string
	cfg      daemon.Config
	dir      string
	kills    int
	outcomes map[string]int // recoveries by outcome, over all runs that were asked
	report   oracle.Report  // of the last look at the sink
}

// newRig makes topics <name>-in and <name>-out and a configuration with short intervals.
func newRig(t *testing.T, semantic string, src, dst *kafka.Cluster, partitions int32) *rig {
	t.Helper()
	return namedRig(t, unique(t), semantic, src, dst, partitions)
}

// namedRig is newRig for tests with several bridges; no name may begin with another bridge's.
func namedRig(t *testing.T, name, semantic string, src, dst *kafka.Cluster, partitions int32) *rig {
	t.Helper()
	builds.binary(t) // before any traffic: a compilation takes longer than most scenarios
	r := &rig{t: t, name: name, src: src, dst: dst, in: []string{name + "-in"}, out: name + "-out", dir: t.TempDir(),
		outcomes: map[string]int{}}
	port, err := kafka.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	r.cfg = daemon.Config{
		Name:  name,
		Attrs: daemon.Attrs{"semantic": semantic},
		Sources: []daemon.Block{{Label: "src", Attrs: daemon.Attrs{"brokers": src.Bootstrap(), "topics": r.in,
			"start": "earliest", "group": name + "-group", "discover": "1s"}}},
		Sink:       daemon.Block{Label: "dst", Attrs: daemon.Attrs{"brokers": dst.Bootstrap(), "topic": r.out}},
		Checkpoint: daemon.Attrs{"path": filepath.Join(r.dir, "state"), "interval": "500ms"},
		Restart:    daemon.Attrs{"backoff": "200ms", "backoff_max": "2s"},
		Listen:     fmt.Sprintf("127.0.0.1:%d", port),
	}
	if partitions > 0 {
		createTopic(t, src, r.in[0], partitions, map[string]string{"max.message.bytes": "8388608"})
		createTopic(t, dst, r.out, partitions, map[string]string{"max.message.bytes": "8388608"})
		r.cfg.Sink.Attrs["max_message_bytes"] = "8MiB"
	}
	return r
}

// proxied puts a proxy before every node of a cluster that was started with Options.Proxied; it ends with the test. The
// cluster's own clients, the traffic and the oracle go past it.
func proxied(t *testing.T, c *kafka.Cluster) *proxy.Network {
	t.Helper()
	n := proxy.New()
	t.Cleanup(func() {
		n.Close()
		if err := n.Err(); err != nil {
			t.Error(err)
		}
	})
	for _, node := range c.Nodes() {
		if err := n.Listen(node.ID, node.ProxiedAddr(), node.ProxiedUpstream()); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// throughProxies makes the bridge reach those of its clusters that are Proxied only through their proxies.
func (r *rig) throughProxies() {
	if r.src.Proxied() {
		r.cfg.Sources[0].Attrs["brokers"] = r.src.ProxiedBootstrap()
	}
	if r.dst.Proxied() {
		r.cfg.Sink.Attrs["brokers"] = r.dst.ProxiedBootstrap()
	}
}

func (r *rig) state() string { return r.cfg.Checkpoint["path"].(string) }

// start starts a run. It is killed when the test ends, and a failed test shows the end of its log.
func (r *rig) start(failpoint string, args ...string) *daemon.Daemon {
	r.t.Helper()
	return r.startWith(r.cfg, failpoint, args...)
}

func (r *rig) startWith(cfg daemon.Config, failpoint string, args ...string) *daemon.Daemon {
	r.t.Helper()
	d, err := daemon.Start(daemon.Run{Binary: builds.binary(r.t), Config: cfg, Dir: r.dir, Args: args, Failpoint: failpoint, Env: r.env})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = d.Kill() // the only error is a process that has ended already
		if r.t.Failed() {
			r.t.Logf("--- end of the bridge's log (process %d)\n%s", d.PID(), d.LogTail())
		}
	})
	return d
}

// twin is the same bridge as if on another host: its own state directory and port.
func (r *rig) twin() daemon.Config {
	r.t.Helper()
	port, err := kafka.FreePort()
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := r.cfg.Clone()
	cfg.Checkpoint["path"] = filepath.Join(r.dir, "state-of-twin")
	cfg.Listen = fmt.Sprintf("127.0.0.1:%d", port)
	return cfg
}

// ready waits until the run is ready and returns how long that took.
func (r *rig) ready(d *daemon.Daemon) time.Duration {
	r.t.Helper()
	begin := time.Now()
	ctx, cancel := contextWithTimeout(r.t, readyLimit)
	defer cancel()
	err := kafka.Poll(ctx, "the bridge is ready", func() (bool, error) {
		if !d.Running() {
			return false, fmt.Errorf("it ended\n%s", d.LogTail())
		}
		return d.Ready(ctx), nil
	})
	if err != nil {
		r.t.Fatalf("%v; /readyz: %s", err, d.WhyNotReady(r.t.Context()))
	}
	return time.Since(begin)
}

// kill notes the recoveries of a run and ends it with SIGKILL.
func (r *rig) kill(d *daemon.Daemon) {
	r.t.Helper()
	r.note(d)
	if !d.Running() {
		r.t.Fatalf("the bridge ended by itself\n%s", d.LogTail())
	}
	if err := d.Kill(); err != nil {
		r.t.Fatal(err)
	}
	r.kills++
}

// note adds the recoveries that the run's metrics count to the tally; a run too young to answer has none.
func (r *rig) note(d *daemon.Daemon) {
	m, err := d.Metrics(r.t.Context())
	if err != nil {
		r.outcomes["not yet asked"]++
		return
	}
	for sample, n := range m {
		labels, found := strings.CutPrefix(sample, "bridge_recoveries_total{")
		if _, outcome, has := strings.Cut(labels, `outcome="`); found && has && n > 0 {
			outcome, _, _ = strings.Cut(outcome, `"`)
			r.outcomes[outcome] += int(n)
		}
	}
}

// terminate sends SIGTERM and wants exit code 0.
func (r *rig) terminate(d *daemon.Daemon) {
	r.t.Helper()
	begin := time.Now()
	code, err := d.Terminate(r.t.Context(), exitLimit)
	if err != nil || code != 0 {
		r.t.Fatalf("SIGTERM: exit code %d, %v\n%s", code, err, d.LogTail())
	}
	r.t.Logf("SIGTERM: exit 0 after %v", time.Since(begin).Round(time.Millisecond))
}

// exit waits until the run ends by itself with a code and returns its log.
func (r *rig) exit(d *daemon.Daemon, want int, limit time.Duration) string {
	r.t.Helper()
	code, err := d.Exit(r.t.Context(), limit)
	if err != nil || code != want {
		r.t.Fatalf("exit code %d, want %d: %v\n%s", code, want, err, d.LogTail())
	}
	return d.Log()
}

// failpoint waits until the run has killed itself.
func (r *rig) failpoint(d *daemon.Daemon, limit time.Duration) {
	r.t.Helper()
	ctx, cancel := contextWithTimeout(r.t, limit)
	defer cancel()
	if _, err := d.Wait(ctx); err != nil {
		r.t.Fatalf("the failpoint was not reached: %v\n%s", err, d.LogTail())
	}
	if d.KilledBy() == 0 {
		r.t.Fatalf("the bridge ended before its failpoint\n%s", d.LogTail())
	}
	r.kills++
}

// untilEnd runs the bridge with --until-end: what is in the sources now arrives, and it exits with 0.
func (r *rig) untilEnd() {
	r.t.Helper()
	begin := time.Now()
	r.exit(r.start("", "--until-end"), 0, drainLimit)
	r.t.Logf("--until-end: exit 0 after %v", time.Since(begin).Round(time.Millisecond))
}
