//go:build kafka

package integration

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/traffic"
)

var (
	bounceFor = flag.Duration("bounce.for", 0, "how long TestBounces bounces brokers, on each of the suite's clusters; default: each broker once, on the newest")
	bounceDir = flag.String("bounce.dir", "", "folder for what TestBounces saves when it fails; default: a new temporary one")
)

// TestBounces: three brokers are bounced in turn, with SIGKILL and with SIGTERM by turns, while two bridges run, one with
// min.insync.replicas 1 for source, sink and ledger and one with 2. Leaders of source, sink and ledger and the
// coordinator move all the time. When a record is missing, the logs of all replicas are saved with their dumps: the
// question is then which replica ever held it.
func TestBounces(t *testing.T) {
	clusters := suiteClusters()
	if *bounceFor == 0 {
		clusters = clusters[:1]
	}
	for _, o := range clusters {
		t.Run(clusterName(o), func(t *testing.T) {
			builds.binary(t) // not beside three brokers
			o.Nodes, o.HeapMiB = 3, 384
			c := startCluster(t, o)
			stop := make(chan struct{})
			var pairs []*bounced
			for minISR := 1; minISR <= 2; minISR++ {
				pairs = append(pairs, newBounced(t, c, minISR, stop))
			}
			// After startCluster: the nodes still run when this is called.
			t.Cleanup(func() { saveBounced(t, c, pairs) })
			bounceAll(t, c, pairs)
			close(stop)
			for _, b := range pairs {
				records := b.records()
				b.drained(b.d)
				b.note(b.d)
				b.terminate(b.d)
				b.exactlyOnce(records)
			}
		})
	}
}

// bounced is a bridge under load while its brokers are bounced.
type bounced struct {
	*rig
	d       *daemon.Daemon
	records func() int // ends with the traffic: records that its producer was acknowledged
}

const (
	bouncePartitions = 3
	bounceRate       = 1000 // records a second, for each bridge
	bounceChunk      = 2    // seconds between two looks at stop
)

func newBounced(t *testing.T, c *kafka.Cluster, minISR int, stop <-chan struct{}) *bounced {
	t.Helper()
	r := newRig(t, "EXACTLY_ONCE", c, c, 0)
	suffix := "-isr" + strconv.Itoa(minISR)
	r.name += suffix
	r.repeats = true
	r.in, r.out = []string{r.name + "-in"}, r.name+"-out"
	r.cfg.Name = r.name
	r.cfg.Sources[0].Attrs["topics"], r.cfg.Sources[0].Attrs["group"] = r.in, r.name+"-group"
	r.cfg.Sink.Attrs["topic"] = r.out
	r.cfg.Checkpoint["interval"] = "300ms"
	configs := map[string]string{"min.insync.replicas": strconv.Itoa(minISR)}
	createTopic(t, c, r.in[0], bouncePartitions, configs)
	createTopic(t, c, r.out, bouncePartitions, configs)
	createTopic(t, c, r.ledger(), 1, map[string]string{"min.insync.replicas": strconv.Itoa(minISR),
		"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
	b := &bounced{rig: r}
	b.records = b.until(stop)
	b.d = r.start("")
	return b
}

// until produces small batches until stop is closed, to each partition on its own: those that have a leader go on while
// another waits for one. The same few sizes come again and again: a broker takes a batch for a repeat by producer, first
// and last sequence, so a batch that is wrongly given an older one's sequence is lost only when both have the same size.
func (b *bounced) until(stop <-chan struct{}) (records func() int) {
	type result struct {
		records int
		err     error
	}
	done := make(chan result, bouncePartitions)
	ctx := b.t.Context()
	for partition := range int32(bouncePartitions) {
		const perSecond = bounceRate / bouncePartitions
		plan := b.plan(0, perSecond*bounceChunk, perSecond)
		plan.Partitions, plan.Batches = []int32{partition}, []int{10, 10, 10, 33}
		go func() {
			n, err := produceUntil(ctx, stop, plan)
			done <- result{n, err}
		}()
	}
	return func() int {
		b.t.Helper()
		sum := 0
		for range bouncePartitions {
			res := <-done
			if res.err != nil {
				b.t.Fatal(res.err)
			}
			sum += res.records
		}
		return sum
	}
}

// produceUntil repeats a plan, each time with the records that follow, until stop is closed.
func produceUntil(ctx context.Context, stop <-chan struct{}, plan traffic.Plan) (records int, err error) {
	for {
		select {
		case <-stop:
			return records, nil
		default:
		}
		n, err := traffic.Produce(ctx, plan)
		records += n.Committed
		if err != nil {
			return records, err
		}
		plan.First += plan.Records
	}
}

// bounceAll bounces every node in turn, in the next round each in another way. A broker is up again, and both bridges are
// ready, before the next one goes: never two at a time, so nothing may be lost with either setting.
func bounceAll(t *testing.T, c *kafka.Cluster, pairs []*bounced) {
	t.Helper()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	ways := []struct {
		name string
		down func(ctx context.Context, c *kafka.Cluster, n *kafka.Node) error
	}{{"SIGKILL", bounceKill}, {"SIGTERM", bounceStop}, {"SIGTERM while a follower is frozen", bounceUnacknowledged}}
	nodes := len(c.Nodes())
	for i, end := 0, time.Now().Add(*bounceFor); i < nodes || time.Now().Before(end); i++ {
		for _, b := range pairs {
			b.ready(b.d)
		}
		pause(time.Duration(500+rnd.IntN(2000)) * time.Millisecond)
		n, way := c.Nodes()[i%nodes], ways[(i+i/nodes)%len(ways)]
		begin := time.Now()
		if err := errors.Join(way.down(t.Context(), c, n), n.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		t.Logf("bounce %d: node %d, %s, %v", i+1, n.ID, way.name, time.Since(begin).Round(time.Millisecond))
	}
	for _, b := range pairs {
		b.ready(b.d)
	}
}

func bounceKill(_ context.Context, _ *kafka.Cluster, n *kafka.Node) error { return n.Kill() }

func bounceStop(ctx context.Context, _ *kafka.Cluster, n *kafka.Node) error { return n.Stop(ctx) }

// bounceUnacknowledged makes a leader hand over while its high watermark stands still: what was produced meanwhile is in
// its log and in the next leader's, and is answered with NOT_LEADER_OR_FOLLOWER. A producer that takes this for "not
// written", gives the batch up and uses its sequence again has its next batch acknowledged and dropped.
func bounceUnacknowledged(ctx context.Context, c *kafka.Cluster, n *kafka.Node) error {
	follower := c.Nodes()[int(n.ID)%len(c.Nodes())]
	if err := follower.Pause(); err != nil {
		return err
	}
	pause(700 * time.Millisecond)
	// When the follower is also the active controller, nothing is handed over before it thaws.
	thawed := make(chan error, 1)
	time.AfterFunc(2*time.Second, func() { thawed <- follower.Continue() })
	return errors.Join(n.Stop(ctx), <-thawed)
}
