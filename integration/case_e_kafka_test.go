//go:build kafka

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// gappySource fills two source topics whose offsets are not dense: one-record transactions of which every third is
// aborted, with a dozen markers and aborted records at the end of each partition, and a compacted topic after cleaning.
func gappySource(t *testing.T, c *kafka.Cluster, tx, gaps string) {
	t.Helper()
	createTopic(t, c, tx, 2, nil)
	compactedTopic(t, c, gaps, 2, 1_000)
	plan := oneRecordTransactions(c, tx)
	produce(t, plan)
	plan.First, plan.Records, plan.AbortEvery = plan.Records, 12, 1
	produce(t, plan)
}

func oneRecordTransactions(c *kafka.Cluster, topic string) traffic.Plan {
	return traffic.Plan{Bootstrap: c.Bootstrap(), Topic: topic, Partitions: traffic.Range(2), Records: 90, Batches: []int{1},
		TransactionRecords: 1, AbortEvery: 3}
}

// TestCaseE1GapsInOffsets: 5 kills under each semantic over offsets that are not dense: only committed records arrive, no
// gap is reported, and positions get across markers.
func TestCaseE1GapsInOffsets(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, current())
	tx, gaps := unique(t)+"-tx", unique(t)+"-gaps"
	gappySource(t, c, tx, gaps)
	for _, semantic := range semantics {
		t.Run(semantic, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, semantic, c, c, 0)
			r.in = []string{tx, gaps}
			r.cfg.Sources[0].Attrs["topics"] = r.in
			r.cfg.Checkpoint["interval"] = "50ms"
			r.cfg.Sources[0].Attrs["fetch_max_bytes"] = "2KiB" // many fetches, so that kills strike between them
			createTopic(t, c, r.out, 2, nil)
			for i := range 5 {
				d := r.start("")
				if i != 3 {
					r.ready(d)
				}
				pause(time.Duration(i*i*15) * time.Millisecond)
				r.kill(d)
			}
			d := r.start("")
			r.ready(d)
			r.drained(d)
			r.quiet(d)
			r.terminate(d)
			r.noGaps()
			report := r.sinkReport(r.expected(), oracle.SamePartition)
			var err error
			switch semantic {
			case "EXACTLY_ONCE":
				r.nothingOpen()
				err = report.ExactlyOnce()
			case "AT_LEAST_ONCE":
				err = report.AtLeastOnce()
			default: // may lose and double under kills, but never moves what was aborted
				if report.Foreign+report.Misplaced > 0 || report.Seen == 0 {
					err = fmt.Errorf("%s", report)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// noGaps: no run of the rig reported lost records.
func (r *rig) noGaps() {
	r.t.Helper()
	logs, err := filepath.Glob(filepath.Join(r.dir, "*.log"))
	if err != nil || len(logs) == 0 {
		r.t.Fatalf("no logs: %v", err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, alarm := range []string{"records of the source are lost", "on_gap"} {
			if strings.Contains(string(text), alarm) {
				r.t.Errorf("%s: a gap alarm: %q", filepath.Base(path), alarm)
			}
		}
	}
}

// TestCaseE2LagEndsAtZero: behind the markers at the end of an idle transactional source the bridge's own lag, and that of
// Kafka's own tool, are 0, and --until-end ends.
func TestCaseE2LagEndsAtZero(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, current())
	r := newRig(t, "EXACTLY_ONCE", c, c, 0)
	r.in = []string{r.name + "-tx"}
	r.cfg.Sources[0].Attrs["topics"] = r.in
	createTopic(t, c, r.in[0], 2, nil)
	createTopic(t, c, r.out, 2, nil)
	plan := oneRecordTransactions(c, r.in[0])
	produce(t, plan)
	d := r.start("")
	r.ready(d)
	r.drained(d) // the group's positions and the lag metric
	rows := consumerGroupsTool(t, c, r.name+"-group")
	if len(rows) != 2 {
		t.Fatalf("kafka-consumer-groups shows %v", rows)
	}
	for _, row := range rows { // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
		if row[3] != row[4] || row[5] != "0" {
			t.Errorf("kafka-consumer-groups shows a lag: %v", row)
		}
	}
	r.terminate(d)
	plan.First, plan.Records, plan.AbortEvery = plan.Records, 12, 1
	produce(t, plan)
	r.untilEnd() // nothing but aborted records and markers is left
	if err := r.sinkReport(r.expected(), oracle.SamePartition).ExactlyOnce(); err != nil {
		t.Error(err)
	}
}

// consumerGroupsTool runs kafka-consumer-groups --describe and returns the columns of each partition's row.
func consumerGroupsTool(t *testing.T, c *kafka.Cluster, group string) (rows [][]string) {
	t.Helper()
	java, err := kafka.Java()
	if err != nil {
		t.Fatal(err)
	}
	libs, err := kafka.Libs(t.Context(), kafka.Current)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), java, "-cp", filepath.Join(libs, "*"), "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
		"--bootstrap-server", strings.Join(c.Bootstrap(), ","), "--describe", "--group", group).Output()
	if err != nil {
		t.Fatalf("kafka-consumer-groups: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if columns := strings.Fields(line); len(columns) > 5 && columns[0] == group {
			rows = append(rows, columns)
		}
	}
	return rows
}

// TestCaseE3OpenTransaction: a foreign transaction stays open in one of four partitions while records come everywhere. The
// other three flow on and checkpoints complete; nothing of the open transaction is moved, also not over a restart; a
// metric shows what is held back; when it ends the partition goes on.
func TestCaseE3OpenTransaction(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, current())
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		t.Run(map[kgo.TransactionEndTry]string{kgo.TryAbort: "aborted", kgo.TryCommit: "committed"}[end], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "EXACTLY_ONCE", c, c, 4)
			r.cfg.Checkpoint["interval"] = "100ms"
			foreign, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.TransactionalID(r.name+"-foreign"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				t.Fatal(err)
			}
			defer foreign.Close()
			d := r.start("")
			r.ready(d)
			produce(t, r.plan(4, 100, 0))
			r.drained(d)
			if err := foreign.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			open := &kgo.Record{Topic: r.in[0], Partition: 2, Value: []byte("of the open transaction")}
			if err := foreign.ProduceSync(t.Context(), open).FirstErr(); err != nil {
				t.Fatal(err)
			}
			more := r.plan(4, 300, 0)
			more.First = 100
			produce(t, more)
			r.visible(d, 3*400+100)
			held := 0.0 // as of the last answer to a fetch, which may be older than the last record
			err = kafka.Poll(t.Context(), "the metric shows 301 records held back", func() (bool, error) {
				held = r.metric(d, "bridge_source_held_back_records", `partition="2"`)
				return held == 301, nil
			})
			if err != nil {
				t.Errorf("%v: it shows %v", err, held)
			}
			r.kill(d)
			d = r.start("")
			r.ready(d)
			last := r.plan(4, 50, 0)
			last.First = 400
			decided := r.metric(d, "bridge_decided_epoch")
			produce(t, last)
			r.visible(d, 3*450+100)
			if now := r.metric(d, "bridge_decided_epoch"); now <= decided {
				t.Errorf("no checkpoint has completed since: epoch %v, then %v", decided, now)
			}
			if err := foreign.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			begin, want := time.Now(), 4*450
			if end == kgo.TryCommit {
				want++
			}
			r.visible(d, want)
			t.Logf("all of partition 2 is there %v after the end of the transaction", time.Since(begin).Round(time.Millisecond))
			r.drained(d)
			r.quiet(d)
			r.terminate(d)
			r.exactlyOnce(want)
		})
	}
}

// visible waits until a read_committed reader of the sink could see so many records, and not one more: the ends of the sink
// count markers too, so it asks the bridge's output and then Kafka's reader.
func (r *rig) visible(d *daemon.Daemon, want int) {
	r.t.Helper()
	seen := 0
	err := kafka.Poll(r.t.Context(), fmt.Sprintf("%d records in the sink", want), func() (bool, error) {
		if !d.Running() {
			return false, fmt.Errorf("the bridge ended\n%s", d.LogTail())
		}
		var err error
		seen, err = r.countCommitted()
		return seen >= want, err
	})
	if err != nil {
		r.t.Fatalf("%v: %d are there; /readyz: %s", err, seen, d.WhyNotReady(r.t.Context()))
	}
	if seen != want {
		r.t.Errorf("%d records are in the sink, want %d", seen, want)
	}
}

// countCommitted reads the sink with kgo: a JVM for each look would take most of the test.
func (r *rig) countCommitted() (n int, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), drainLimit)
	defer cancel()
	ends, err := r.dst.Admin().ListCommittedOffsets(ctx, r.out)
	if err != nil {
		return 0, err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.dst.Bootstrap()...), kgo.ConsumeTopics(r.out), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		fetches.EachRecord(func(k *kgo.Record) {
			if k.Offset+1 >= left[k.Partition] {
				delete(left, k.Partition)
			}
			if !k.Attrs.IsControl() {
				n++
			}
		})
	}
	return n, nil
}

// TestCaseE6Recreated: one of two topics is deleted and made anew while the bridge runs. It stops and says so; with
// on_gap = "skip" it copies the new topic from its beginning, and the other topic never noticed.
func TestCaseE6Recreated(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, current())
	for _, policy := range []string{"fail", "skip"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "EXACTLY_ONCE", c, c, 0)
			a, b := r.name+"-a", r.name+"-b"
			r.in = []string{a, b}
			r.cfg.Sources[0].Attrs["topics"], r.cfg.Sources[0].Attrs["on_gap"] = r.in, policy
			for _, topic := range []string{a, b, r.out} {
				createTopic(t, c, topic, 1, nil)
			}
			plan := func(topic string, first, n int) traffic.Plan {
				return traffic.Plan{Bootstrap: c.Bootstrap(), Topic: topic, Partitions: []int32{0}, First: first, Records: n, Batches: []int{50}}
			}
			produce(t, plan(a, 0, 500))
			produce(t, plan(b, 0, 500))
			d := r.start("")
			r.ready(d)
			r.visible(d, 1000)
			if err := c.DeleteTopic(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if policy == "skip" {
				produce(t, plan(b, 500, 200))
				r.visible(d, 1200)
			}
			recreate(t, c, a)
			produce(t, plan(a, 500, 100))
			if policy == "fail" {
				for range 2 { // also the next start: it does not go on as if nothing had happened
					r.says(r.exit(d, 3, drainLimit), "topic "+a, "made anew", "on_gap")
					d = r.start("")
				}
				r.says(r.exit(d, 3, drainLimit), "made anew")
				return
			}
			r.visible(d, 1300)
			produce(t, plan(b, 700, 100))
			r.visible(d, 1400)
			if n := r.metric(d, "bridge_source_gaps_total", a); n != 1 {
				t.Errorf("%v gaps counted, want 1", n)
			}
			r.terminate(d)
			want := oracle.NewExpected()
			for _, p := range []traffic.Plan{plan(a, 0, 500), plan(a, 500, 100), plan(b, 0, 800)} {
				expectFrom(t, want, p)
			}
			if err := r.sinkReport(want, oracle.SamePartition).ExactlyOnce(); err != nil {
				t.Error(err)
			}
		})
	}
}

// recreate makes a deleted topic again; the deletion takes a moment.
func recreate(t *testing.T, c *kafka.Cluster, topic string) {
	t.Helper()
	err := kafka.Poll(t.Context(), "topic "+topic+" can be made again", func() (bool, error) {
		return c.CreateTopic(t.Context(), topic, 1, nil) == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// expectFrom expects a plan's records, all committed, from its First on.
func expectFrom(t *testing.T, want *oracle.Expected, p traffic.Plan) {
	t.Helper()
	p.Source, p.ValueBytes = p.Topic, 100
	for _, partition := range p.Partitions {
		for seq := range p.Records {
			if err := want.Add("plan", fromClient(p.Record(partition, p.First+seq, false))); err != nil {
				t.Fatal(err)
			}
		}
	}
}
