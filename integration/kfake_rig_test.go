package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// kfakeLimit bounds every wait of a case: it must never be reached, also on a loaded machine.
const kfakeLimit = 2 * time.Minute

// kfakeRig is one bridge on a kfake cluster of its own: kfake listens in this process, the bridge is the built binary.
type kfakeRig struct {
	t       *testing.T
	suite   *kfakeSuite
	name    string
	cluster *kfake.Cluster
	cl      *kgo.Client
	admin   *kadm.Client
	in      []string
	out     string
	parts   int32 // partitions of out
	cfg     daemon.Config
	dir     string
	env     []string
	kills   int
	total   int // records that feed was acknowledged
	fed     int // sequence numbers that feed has used
	nudged  int // records that diesAt has added
	last    *daemon.Daemon
	random  *rand.Rand
}

// newKfakeRig makes topics in and out with that many partitions, and a configuration with short intervals.
func newKfakeRig(t *testing.T, suite *kfakeSuite, semantic string, partitions int32, in ...string) *kfakeRig {
	t.Helper()
	if len(in) == 0 {
		in = []string{"in"}
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"max.message.bytes": "8388608"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &kfakeRig{t: t, suite: suite, name: "b", cluster: cluster, cl: cl, admin: kadm.NewClient(cl), in: in, out: "out", parts: partitions,
		dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 1))}
	t.Cleanup(r.showLog)
	for _, topic := range in {
		r.create(topic, partitions)
	}
	r.create(r.out, partitions)
	r.cfg = daemon.Config{
		Name:  r.name,
		Attrs: daemon.Attrs{"semantic": semantic, "workers": 2},
		Sources: []daemon.Block{{Label: "src", Attrs: daemon.Attrs{"brokers": cluster.ListenAddrs(), "topics": in,
			"group": "g", "discover": "200ms", "fetch_max_bytes": "64KiB"}}},
		Sink:       daemon.Block{Label: "dst", Attrs: daemon.Attrs{"brokers": cluster.ListenAddrs(), "topic": r.out}},
		Checkpoint: daemon.Attrs{"path": filepath.Join(r.dir, "state"), "interval": "100ms"},
		Restart:    daemon.Attrs{"backoff": "50ms", "backoff_max": "500ms"},
		Listen:     r.address(),
	}
	return r
}

func (r *kfakeRig) address() string {
	r.t.Helper()
	port, err := r.suite.port()
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func (r *kfakeRig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), kfakeLimit)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *kfakeRig) create(topic string, partitions int32) {
	r.t.Helper()
	if _, err := r.admin.CreateTopic(r.ctx(), partitions, 1, nil, topic); err != nil {
		r.t.Fatal(err)
	}
}

// plan is plain traffic for the first source topic.
func (r *kfakeRig) plan(perPartition int) traffic.Plan {
	return traffic.Plan{Bootstrap: r.cluster.ListenAddrs(), Topic: r.in[0], Partitions: traffic.Range(r.parts),
		Records: perPartition, Batches: []int{1, 20, 100}}
}

func (r *kfakeRig) produce(p traffic.Plan) traffic.Count {
	r.t.Helper()
	n, err := traffic.Produce(r.ctx(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// feed produces n records per partition in about half a second, so that a bridge that runs meanwhile has several epochs.
// What was acknowledged is in total after wait.
func (r *kfakeRig) feed(n int) (wait func()) {
	p := r.plan(n)
	p.First, p.PerSecond = r.fed, 2*n*int(r.parts)
	r.fed += n
	done := r.background(p)
	return func() { r.t.Helper(); r.total += done().Committed }
}

// background produces while the test goes on; wait returns what was acknowledged.
func (r *kfakeRig) background(p traffic.Plan) (wait func() traffic.Count) {
	type result struct {
		n   traffic.Count
		err error
	}
	done := make(chan result, 1)
	ctx := r.ctx()
	go func() { n, err := traffic.Produce(ctx, p); done <- result{n, err} }()
	return func() traffic.Count {
		r.t.Helper()
		res := <-done
		if res.err != nil {
			r.t.Fatal(res.err)
		}
		return res.n
	}
}

// ---- the process ----

func (r *kfakeRig) start(failpoint string, args ...string) *daemon.Daemon {
	r.t.Helper()
	return r.startWith(r.cfg, failpoint, args...)
}

func (r *kfakeRig) startWith(cfg daemon.Config, failpoint string, args ...string) *daemon.Daemon {
	r.t.Helper()
	d, err := daemon.Start(daemon.Run{Binary: r.suite.binary, Config: cfg, Dir: r.dir, Args: args, Failpoint: failpoint, Env: r.env})
	if err != nil {
		r.t.Fatal(err)
	}
	r.last = d
	r.t.Cleanup(func() { _ = d.Kill() }) // the only error is a process that has ended already
	return d
}

func (r *kfakeRig) showLog() {
	if r.t.Failed() && r.last != nil {
		r.t.Logf("--- end of the last bridge's log (process %d)\n%s", r.last.PID(), r.last.LogTail())
	}
}

// until polls the condition; a bridge that ends meanwhile fails the test.
func (r *kfakeRig) until(d *daemon.Daemon, what string, ok func(context.Context) bool) {
	r.t.Helper()
	ctx := r.ctx()
	for {
		if ok(ctx) {
			return
		}
		if d != nil && !d.Running() {
			r.t.Fatalf("%s: the bridge ended\n%s", what, d.LogTail())
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			why := ""
			if d != nil {
				why = d.WhyNotReady(r.t.Context())
				st, _ := d.Status(r.t.Context())
				why += st
			}
			r.t.Fatalf("not within %v: %s; /readyz and /status: %s", kfakeLimit, what, why)
		}
	}
}

func (r *kfakeRig) ready(d *daemon.Daemon) {
	r.t.Helper()
	r.until(d, "ready", d.Ready)
}

func (r *kfakeRig) kill(d *daemon.Daemon) {
	r.t.Helper()
	if !d.Running() {
		r.t.Fatalf("the bridge ended by itself\n%s", d.LogTail())
	}
	if err := d.Kill(); err != nil {
		r.t.Fatal(err)
	}
	r.kills++
}

// exit waits for an exit code and returns the log.
func (r *kfakeRig) exit(d *daemon.Daemon, want int) string {
	r.t.Helper()
	code, err := d.Exit(r.t.Context(), kfakeLimit)
	if err != nil || code != want {
		r.t.Fatalf("exit code %d, want %d: %v\n%s", code, want, err, d.LogTail())
	}
	return d.Log()
}

func (r *kfakeRig) terminate(d *daemon.Daemon) string {
	r.t.Helper()
	if err := d.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	return r.exit(d, 0)
}

// diesFed is diesAt under traffic of n records per partition.
func (r *kfakeRig) diesFed(failpoint string, n int) {
	r.t.Helper()
	wait := r.feed(n)
	r.diesAt(failpoint)
	wait()
}

// diesAt starts the bridge and waits until it has killed itself at a failpoint.
func (r *kfakeRig) diesAt(failpoint string) {
	r.t.Helper()
	d := r.start(failpoint)
	for end := time.Now().Add(kfakeLimit); ; r.nudge() {
		ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Second)
		_, err := d.Wait(ctx)
		cancel()
		if err == nil && d.KilledBy() != 0 {
			break
		}
		if err == nil || time.Now().After(end) {
			r.t.Fatalf("the failpoint %s was not reached: %v\n%s", failpoint, err, d.LogTail())
		}
	}
	r.kills++
}

// nudge adds a record: on a busy machine the traffic may be over, and all of it moved, before the bridge has come to its
// failpoint, and then nothing would ever bring it there.
func (r *kfakeRig) nudge() {
	r.t.Helper()
	r.nudged++
	rec := &kgo.Record{Topic: r.in[0], Value: fmt.Appendf(nil, "nudge %d", r.nudged)}
	if err := r.cl.ProduceSync(r.ctx(), rec).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// untilEnd moves what is in the sources now and wants exit code 0. It returns the log.
func (r *kfakeRig) untilEnd() string {
	r.t.Helper()
	return r.exit(r.start("", "--until-end"), 0)
}

// ---- /status, as far as the tests look at it: names of the contract, not types of the bridge ----

type kfakeStatus struct {
	State       string           `json:"state"`
	Ready       bool             `json:"ready"`
	Reason      string           `json:"reason"`
	Epoch       int64            `json:"epoch"`
	Decided     int64            `json:"decided_epoch"`
	Restarts    int64            `json:"restarts"`
	Recoveries  map[string]int64 `json:"recoveries"`
	Replayed    int64            `json:"replayed_records"`
	Checkpoints map[string]int64 `json:"checkpoints"`
	Gaps        int64            `json:"gaps"`
	Maps        struct {
		RecordsIn int64            `json:"records_in"`
		Untouched int64            `json:"untouched_batches"`
		Reencoded map[string]int64 `json:"reencoded_batches"`
	} `json:"maps"`
	Transaction struct {
		Open string `json:"open"`
	} `json:"transaction"`
}

func (r *kfakeRig) status(d *daemon.Daemon) kfakeStatus {
	r.t.Helper()
	var st kfakeStatus
	r.until(d, "/status answers", func(ctx context.Context) bool {
		text, err := d.Status(ctx)
		if err != nil {
			return false
		}
		var doc struct {
			Bridges []kfakeStatus `json:"bridges"`
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Bridges) != 1 {
			r.t.Fatalf("/status: %v: %s", err, text)
		}
		st = doc.Bridges[0]
		return true
	})
	return st
}

// published waits until the bridge is ready and the positions in the group, which come after a decided epoch, have reached
// the sources' ends. The positions alone may be those of an earlier run.
func (r *kfakeRig) published(d *daemon.Daemon) {
	r.t.Helper()
	r.ready(d)
	r.until(d, "the decided positions are at the sources' ends", func(ctx context.Context) bool {
		ends, err := r.admin.ListCommittedOffsets(ctx, r.in...)
		if err != nil {
			return false
		}
		at, err := r.admin.FetchOffsets(ctx, "g")
		behind := err != nil
		ends.Each(func(o kadm.ListedOffset) {
			p, found := at.Lookup(o.Topic, o.Partition)
			behind = behind || o.Offset > 0 && (!found || p.At < o.Offset)
		})
		return !behind
	})
}

// ---- the oracle: kgo's consumer, which shares no code with the bridge's data path ----

// read hands every record of the topics up to the last stable offsets (committed) or high watermarks to f.
func (r *kfakeRig) read(committed bool, f func(oracle.Record) error, topics ...string) {
	r.t.Helper()
	ctx := r.ctx()
	list, level := r.admin.ListEndOffsets, kgo.ReadUncommitted()
	if committed {
		list, level = r.admin.ListCommittedOffsets, kgo.ReadCommitted()
	}
	ends, err := list(ctx, topics...)
	if err != nil || ends.Error() != nil {
		r.t.Fatalf("ends of %v: %v %v", topics, err, ends.Error())
	}
	starts, err := r.admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		r.t.Fatal(err)
	}
	left := map[string]int64{}
	from := map[string]map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		s, _ := starts.Lookup(o.Topic, o.Partition)
		if o.Offset > s.Offset {
			left[fmt.Sprint(o.Topic, "/", o.Partition)] = o.Offset
			if from[o.Topic] == nil {
				from[o.Topic] = map[int32]kgo.Offset{}
			}
			from[o.Topic][o.Partition] = kgo.NewOffset().At(s.Offset)
		}
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			r.t.Fatalf("read %v: %v; not at the end: %v", topics, err, left)
		}
		fetches.EachRecord(func(k *kgo.Record) {
			id := fmt.Sprint(k.Topic, "/", k.Partition)
			end, ok := left[id]
			if ok && k.Offset+1 >= end {
				delete(left, id)
			}
			if !ok || k.Attrs.IsControl() {
				return
			}
			if err := f(kfakeRecord(k)); err != nil {
				r.t.Fatal(err)
			}
		})
	}
}

func kfakeRecord(k *kgo.Record) oracle.Record {
	rec := oracle.Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp.UnixMilli(), Key: k.Key, Value: k.Value, KeyHash: -1}
	for _, h := range k.Headers {
		rec.Headers = append(rec.Headers, oracle.Header{Key: h.Key, Value: h.Value})
	}
	return rec
}

// kfakeByKey is where Kafka's default partitioner puts a record; one without a key keeps the source's number modulo the count.
func kfakeByKey(n int32) func(int32, oracle.Record) int32 {
	p := kgo.StickyKeyPartitioner(nil).ForTopic("out")
	return func(source int32, rec oracle.Record) int32 {
		if rec.Key == nil {
			return source % n
		}
		return int32(p.Partition(&kgo.Record{Key: rec.Key}, int(n)))
	}
}

// verdict says what must hold of the sink topic.
type verdict struct {
	mapped func(oracle.Record) []oracle.Record // what the map makes of a record; nil: itself
	place  func(int32, oracle.Record) int32    // nil: the same partition
}

// report compares the sink with the sources, which must hold as many records as the generator was acknowledged.
func (r *kfakeRig) report(v verdict, records int) oracle.Report {
	r.t.Helper()
	want := oracle.NewExpected()
	want.Map = v.mapped
	sources := 0
	r.read(true, func(rec oracle.Record) error { sources++; return want.Add("src", rec) }, r.in...)
	if records += r.nudged; sources != records {
		r.t.Errorf("the sources hold %d records, but %d were produced", sources, records)
	}
	check := want.NewCheck()
	if check.Place = v.place; v.place == nil {
		check.Place = oracle.SamePartition
	}
	r.read(true, check.Saw, r.out)
	report := check.Report()
	r.t.Logf("%s; %d kills", report, r.kills)
	return report
}

// exactlyOnce: no transaction is open, and the sink shows every record of the sources once, in order, byte for byte.
func (r *kfakeRig) exactlyOnce(v verdict, records int) {
	r.t.Helper()
	if err := oracle.NothingOpen(r.ctx(), r.admin, r.out); err != nil {
		r.t.Error(err)
	}
	if err := r.report(v, records).ExactlyOnce(); err != nil {
		r.t.Error(err)
	}
}

func (r *kfakeRig) atLeastOnce(records int) {
	r.t.Helper()
	if err := r.report(verdict{}, records).AtLeastOnce(); err != nil {
		r.t.Error(err)
	}
}

// says wants each of the texts in a log.
func (r *kfakeRig) says(log string, texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if !strings.Contains(strings.ToLower(log), strings.ToLower(text)) {
			r.t.Errorf("the log does not say %q:\n%s", text, log[max(0, len(log)-4000):])
		}
	}
}

// moment lets the bridge work for a random time: the length of a fault, never a synchronisation.
func (r *kfakeRig) moment(most time.Duration) {
	<-time.After(time.Duration(r.random.Int64N(int64(most))))
}
