//go:build kafka

package integration

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/proxy"
)

// caseA1: the checkpoint is durable, its commit is swallowed on the way, and the bridge is killed in that moment. The restart
// commits the transaction and says which checkpoint it was.
func caseA1(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	r := newRig(t, "EXACTLY_ONCE", c, c, 1)
	r.throughProxies()
	stop := r.stream(1, 2_000)
	r.diesWithItsCommit(n)
	through := r.throughPrepared()
	plan := r.foresee("would_commit")
	begin := time.Now()
	d := r.start("")
	r.ready(d)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("ready %v after the start, want 10 s", took)
	}
	if seen, err := r.countCommitted(); err != nil || seen < through {
		t.Errorf("readers see %d records, want the %d through the recovered transaction: %v", seen, through, err)
	}
	if n := r.metric(d, "bridge_recoveries_total", `outcome="committed"`); n != 1 {
		t.Errorf("recoveries with outcome committed: %v, want 1", n)
	}
	r.says(d.Log(), "recovered", plan.Reason)
	r.decides(d)
	records := stop()
	r.drained(d)
	r.terminate(d)
	r.exactlyOnce(records)
}

// caseA2Gone: the broker has aborted what was prepared while the bridge was down, and the source no longer has it: each start
// refuses and names what is missing. (That what the source has is read again: TestScenario03.)
func caseA2Gone(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	r := newRig(t, "EXACTLY_ONCE", c, c, 1)
	r.throughProxies()
	r.timesOutSoon()
	stop := r.stream(1, 1_000)
	r.diesWithItsCommit(n)
	records := stop()
	r.aborted()
	seen, err := r.countCommitted()
	if err != nil || seen == 0 || seen >= records {
		t.Fatalf("%d of %d records were decided: %v", seen, records, err)
	}
	var gone kadm.Offsets
	gone.AddOffset(r.in[0], 0, int64(records), -1)
	if deleted, err := c.Admin().DeleteRecords(t.Context(), gone); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	for range 2 { // a refusal does not change what the next start finds
		log := r.exit(r.start(""), 3, readyLimit)
		r.says(log, r.in[0], "partition", "offset", "on_gap")
	}
	if now, err := r.countCommitted(); err != nil || now != seen {
		t.Errorf("%d records were decided, now there are %d: %v", seen, now, err)
	}
	r.nothingOpen()
}

// caseA4: checkpoints of epochs without output. Everything is dropped by a map, or one partition has records and the other
// never has; killed again and again, each start comes up without an error, and what comes afterwards arrives once.
func caseA4(t *testing.T, c *kafka.Cluster, _ *proxy.Network) {
	for _, kind := range []string{"all dropped", "one partition idle"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, "EXACTLY_ONCE", c, c, 2)
			r.cfg.Checkpoint["interval"] = "50ms"
			if kind == "all dropped" {
				r.env = []string{"BRIDGE_TEST_MAP=drop"}
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			busy := r.plan(1, 6_000, 1_200) // partition 0
			busy.Batches = []int{1, 20}
			wait := r.background(busy)
			for range 5 {
				d := r.start("")
				r.ready(d)
				pause(300*time.Millisecond + time.Duration(random.Int64N(int64(400*time.Millisecond)))) // six intervals and more
				r.quiet(d)
				r.kill(d)
				r.fewOpen()
			}
			records := wait().Committed
			r.untilEnd()
			last := r.plan(2, 50, 0)
			last.First = busy.Records
			want := oracle.NewExpected()
			if r.env == nil {
				expectFrom(t, want, busy)
			}
			r.env = nil
			d := r.start("")
			r.ready(d)
			records += produce(t, last).Committed
			r.drained(d)
			r.quiet(d)
			r.terminate(d)
			r.nothingOpen()
			expectFrom(t, want, last)
			if records != 6_100 {
				t.Errorf("%d records were produced", records)
			}
			if err := r.sinkReport(want, oracle.SamePartition).ExactlyOnce(); err != nil {
				t.Error(err)
			}
		})
	}
}

// caseA7Leftover: killed 50 ms after the first batch was written, long before the first checkpoint, with a transaction timeout of
// minutes. The next start frees the readers, also when the numbers of partitions and of map tasks have changed.
func caseA7Leftover(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	for _, kind := range []string{"same", "grown"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, "EXACTLY_ONCE", c, c, 2)
			r.throughProxies()
			r.cfg.Sink.Attrs["transaction_timeout"], r.cfg.Checkpoint["interval"] = "5m", "1m"
			records := produce(t, r.plan(2, 500, 0)).Committed
			anyPartition := func(req *kmsg.ProduceRequest) bool { return writesTo(r.out, 0)(req) || writesTo(r.out, 1)(req) }
			first := n.Add(proxy.Rule{Direction: proxy.Answer, Match: proxy.When(anyPartition), Times: 1})
			defer first.Remove()
			d := r.start("")
			r.waitFired(first, d)
			pause(50 * time.Millisecond)
			r.kill(d)
			if open, err := r.openTransactions(); err != nil || len(open) == 0 {
				t.Fatalf("nothing was left open: %v", err)
			}
			if kind == "grown" {
				for _, topic := range []string{r.in[0], r.out} {
					if err := c.AddPartitions(t.Context(), topic, 5); err != nil {
						t.Fatal(err)
					}
				}
				r.cfg.Attrs["workers"] = 3
				more := r.plan(5, 100, 0)
				more.First = 500
				records += produce(t, more).Committed
			}
			r.cfg.Checkpoint["interval"] = "500ms"
			begin := time.Now()
			d = r.start("")
			r.ready(d)
			r.drained(d)
			r.nothingOpen() // although it runs
			t.Logf("all is decided, nothing open, %v after the start", time.Since(begin).Round(time.Millisecond))
			r.terminate(d)
			r.exactlyOnce(records)
		})
	}
}

// caseA7Ids: however many checkpoints there were, the bridge has two transactional ids, and a start takes no longer.
func caseA7Ids(t *testing.T, c *kafka.Cluster, _ *proxy.Network) {
	r := newRig(t, "EXACTLY_ONCE", c, c, 2)
	r.cfg.Checkpoint["interval"] = "10ms"
	d := r.start("")
	r.ready(d)
	p, records := r.plan(2, 20, 1_000), 0
	p.Batches = []int{5}
	for r.metric(d, "bridge_decided_epoch") < 150 {
		records += produce(t, p).Committed
		p.First += p.Records
	}
	r.kill(d)
	if ids := r.transactionalIDs(); !slices.Equal(ids, []string{r.name + "-0", r.name + "-1"}) {
		t.Errorf("transactional ids: %q", ids)
	}
	d = r.start("")
	if took := r.ready(d); took > 5*time.Second {
		t.Errorf("ready after %v, want 5 s", took)
	}
	r.drained(d)
	r.terminate(d)
	r.exactlyOnce(records)
}
