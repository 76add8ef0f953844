//go:build kafka

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafkabridge/integration/kafka"
)

// slowBrokers: the broker works in short bursts with long stalls between them, as one whose disk makes every thread
// wait does. A slow disk itself needs rights that a test should not need (a device mapper, cgroups); stopping the
// process stalls what a full write cache stalls: requests, replication, the coordinator's log and its sweeper.
func (b *batch) slowBrokers(t *testing.T) {
	const scenario = "the broker stalls (SIGSTOP in pulses)"
	b.announce(scenario)
	for _, s := range b.sites {
		for i := range b.repeats(1, 4) {
			t.Run(fmt.Sprint(s.name(), "-", i), func(t *testing.T) {
				x := b.newCell(t, scenario, s.Cluster, s.Cluster, 3)
				x.repeats = true
				d := x.start("")
				x.decidedAfter(d, time.Now())
				for _, stall := range []time.Duration{200, 400, 3_000, 400, 5_000, 800, 200, 2_000} {
					stalls(t, s.Node(1), stall*time.Millisecond)
				}
				x.recovered(d, time.Now())
				x.judge(b, d)
			})
		}
	}
}

// stalls stops a broker for a while and then lets it work for a tenth of a second, five times for short stalls.
func stalls(t *testing.T, n *kafka.Node, length time.Duration) {
	t.Helper()
	times := 1
	if length < time.Second {
		times = 5
	}
	for range times {
		if err := n.Pause(); err != nil {
			t.Fatal(err)
		}
		pause(length)
		if err := n.Continue(); err != nil {
			t.Fatal(err)
		}
		pause(100 * time.Millisecond)
	}
}

// bounces: three brokers, one after the other stopped or killed and started again, under load; leaders and
// coordinators move away and, by preferred election, back. The cluster has to outlive its cells: their verdict reads it.
func (c *campaign) bounces(t *testing.T) {
	for _, o := range allClusters()[:c.repeats(1, 2)] {
		t.Run(clusterName(o), func(t *testing.T) {
			o.Nodes, o.Properties = 3, map[string]string{"min.insync.replicas": "2"}
			cluster := startCluster(t, o)
			c.group(4, func(b *batch, t *testing.T) {
				for i := range c.repeats(1, 5) {
					b.bounce(t, cluster, i, "three brokers restarted in turn", (*kafka.Node).Stop)
					b.bounce(t, cluster, i, "three brokers killed in turn", killNode)
				}
			})(t)
		})
	}
}

// bounce takes every broker down and up once.
func (b *batch) bounce(t *testing.T, cluster *kafka.Cluster, i int, scenario string, down func(*kafka.Node, context.Context) error) {
	b.announce(scenario)
	t.Run(short(fmt.Sprint(scenario, " ", i)), func(t *testing.T) {
		x := b.newCell(t, scenario, cluster, cluster, 6)
		x.repeats = true
		d := x.start("")
		for _, n := range cluster.Nodes() {
			x.decidedAfter(d, time.Now())
			before := x.leaders()
			if err := down(n, t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := n.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			up := time.Now()
			x.moved(before)
			x.recovered(d, up)
			x.leadersBack()
		}
		x.judge(b, d)
	})
}

func killNode(n *kafka.Node, _ context.Context) error { return n.Kill() }

// leaders names the leader of each partition of the sink, the ledger and the transaction coordinators' topic.
func (x *cell) leaders() map[string]int32 {
	x.t.Helper()
	topics, err := x.dst.Admin().ListTopicsWithInternal(x.t.Context(), x.out, x.ledger(), "__transaction_state")
	if err != nil {
		x.t.Fatal(err)
	}
	leaders := map[string]int32{}
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			leaders[fmt.Sprintf("%s/%d", topic.Topic, p.Partition)] = p.Leader
		}
	}
	return leaders
}

// moved wants that at least one leader is another than before: a bounce that moves none proves nothing.
func (x *cell) moved(before map[string]int32) {
	x.t.Helper()
	for partition, leader := range x.leaders() {
		if before[partition] != leader {
			return
		}
	}
	x.t.Errorf("no leader has moved: %v", before)
}

// leadersBack makes the preferred replicas leaders again, so that the next bounce has leaders to move.
func (x *cell) leadersBack() {
	x.t.Helper()
	if _, err := x.dst.Admin().ElectLeaders(x.t.Context(), kadm.ElectPreferredReplica, nil); err != nil {
		x.t.Fatal(err)
	}
}
