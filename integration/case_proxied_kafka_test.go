//go:build kafka

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/proxy"
	"kafkabridge/integration/traffic"
)

// TestCaseProxied has the public cases of families F, G and J whose fault is in the network, on one cluster: a boot takes
// longer than most of them.
func TestCaseProxied(t *testing.T) {
	t.Parallel()
	o := current()
	o.Proxied = true
	c := startCluster(t, o)
	n := proxied(t, c)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *kafka.Cluster, *proxy.Network)
	}{
		{"F5OrderUnderPartialFailure", caseF5}, {"G2StopsAndKills", caseG2},
		{"J1StopWhileUnreachable", caseJ1Unreachable}, {"J1StopAtAnyMoment", caseJ1AnyMoment}, {"J4Memory", caseJ4},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, c, n) })
	}
}

// caseF5: one of three sink partitions fails again and again, before the broker gets the batch and after it has it, while the
// others go on. Exactly once: each key's records once and in order; at least once: first occurrences in order.
func caseF5(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	for _, semantic := range []string{"EXACTLY_ONCE", "AT_LEAST_ONCE"} {
		t.Run(semantic, func(t *testing.T) {
			r := newRig(t, semantic, c, c, 0)
			createTopic(t, c, r.in[0], 4, nil)
			createTopic(t, c, r.out, 3, nil)
			r.cfg.Sink.Attrs["partition"] = "key"
			r.throughProxies()
			p := r.plan(4, 5_000, 3_000)
			p.Batches = []int{1, 10, 40}
			wait := r.background(p)
			d := r.start("")
			r.ready(d)
			for i := range 4 {
				direction := proxy.Request
				if i%2 == 1 {
					direction = proxy.Answer // the batch is there, and nobody is told
				}
				fails := n.Add(proxy.Rule{Keys: []kmsg.Key{kmsg.Produce}, Direction: direction, Action: proxy.Cut, Match: proxy.When(writesTo(r.out, 1))})
				ctx, cancel := contextWithTimeout(t, readyLimit)
				if err := fails.Wait(ctx); err != nil {
					t.Fatalf("nothing was cut: %v", err)
				}
				cancel()
				pause(500 * time.Millisecond)
				if i == 3 {
					r.kill(d) // and the replay of what only a part of is there
					d = r.start("")
				}
				fails.Remove()
				pause(300 * time.Millisecond)
			}
			wait()
			r.untilDrained(d)
			report := r.sinkReport(r.expected(), oracle.ByKey(3))
			err := report.ExactlyOnce()
			if semantic == "AT_LEAST_ONCE" {
				err = report.AtLeastOnce()
			} else {
				r.nothingOpen()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// writesTo matches a produce request with a batch for that partition.
func writesTo(topic string, partition int32) func(*kmsg.ProduceRequest) bool {
	return func(req *kmsg.ProduceRequest) bool {
		for _, rt := range req.Topics {
			for _, rp := range rt.Partitions {
				if rt.Topic == topic && rp.Partition == partition {
					return true
				}
			}
		}
		return false
	}
}

func (r *rig) untilDrained(d *daemon.Daemon) {
	r.t.Helper()
	r.ready(d)
	r.drained(d)
	r.terminate(d)
}

// caseG2: AT_LEAST_ONCE into a slow sink. Stopped with SIGTERM in the middle of the stream it loses and doubles nothing; killed it
// loses nothing.
func caseG2(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	slow := n.Add(proxy.Rule{Keys: []kmsg.Key{kmsg.Produce}, Direction: proxy.Answer, Delay: 50 * time.Millisecond})
	defer slow.Remove()
	for _, signal := range []string{"SIGTERM", "SIGKILL"} {
		t.Run(signal, func(t *testing.T) {
			r := newRig(t, "AT_LEAST_ONCE", c, c, 3)
			r.throughProxies()
			wait := r.background(r.plan(3, 6_000, 3_000))
			for range 8 {
				d := r.start("")
				r.ready(d)
				pause(time.Duration(rand.Int64N(int64(200 * time.Millisecond))))
				if signal == "SIGKILL" {
					r.kill(d)
				} else {
					r.terminate(d)
				}
			}
			records := wait().Committed
			r.untilEnd()
			report := r.sinkReport(r.expected(), oracle.SamePartition)
			err := report.ExactlyOnce()
			if signal == "SIGKILL" {
				err = report.AtLeastOnce()
			}
			if err != nil || report.Expected != records {
				t.Errorf("%d produced: %v", records, err)
			}
		})
	}
	if slow.Count() == 0 {
		t.Error("nothing was slow")
	}
}

// caseJ1Unreachable: the network is cut, nothing is answered any more, and the bridge is told to stop: it ends with 0 within
// the grace that is documented (30 s); what it left is made good by the next start.
func caseJ1Unreachable(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	for name, rule := range map[string]proxy.Rule{
		"no answer":           {Direction: proxy.Answer, Action: proxy.Hold},
		"no answer to EndTxn": {Keys: []kmsg.Key{kmsg.EndTxn}, Direction: proxy.Answer, Action: proxy.Hold},
		"every connection":    {Action: proxy.Cut},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "EXACTLY_ONCE", c, c, 2)
			r.throughProxies()
			r.cfg.Checkpoint["timeout"] = "2s"
			wait := r.background(r.plan(2, 3_000, 3_000))
			d := r.start("")
			r.ready(d)
			pause(300 * time.Millisecond)
			a := n.Add(rule)
			r.terminate(d) // exit code 0 within exitLimit, which is 30 s
			a.Discard()
			records := wait().Committed
			r.untilEnd()
			r.exactlyOnce(records)
		})
	}
}

// caseJ1AnyMoment: SIGTERM at 15 random moments, of recovery, of a checkpoint and in between: always exit code 0, and nothing is
// left open.
func caseJ1AnyMoment(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	r := newRig(t, "EXACTLY_ONCE", c, c, 2)
	r.throughProxies()
	r.cfg.Checkpoint["interval"] = "50ms"
	// Some latency, so that each phase lasts long enough to be struck.
	slow := n.Add(proxy.Rule{Keys: []kmsg.Key{kmsg.Produce, kmsg.EndTxn, kmsg.InitProducerID}, Direction: proxy.Answer, Delay: 10 * time.Millisecond})
	defer slow.Remove()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	wait := r.background(r.plan(2, 8_000, 2_000))
	for range 15 {
		d := r.start("")
		r.speaks(d)
		pause(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		if code, err := d.Terminate(t.Context(), exitLimit); err != nil || code != 0 {
			t.Fatalf("exit code %d, %v\n%s", code, err, d.LogTail())
		}
		if open, err := r.openTransactions(); err != nil || len(open) > 0 {
			t.Fatalf("left open: %+v, %v", open, err)
		}
	}
	records := wait().Committed
	r.untilEnd()
	r.exactlyOnce(records)
}

// speaks waits for the first line of the log: SIGTERM before main ends any program.
func (r *rig) speaks(d *daemon.Daemon) {
	r.t.Helper()
	if err := kafka.Poll(r.t.Context(), "the bridge writes to its log", func() (bool, error) { return d.Log() != "", nil }); err != nil {
		r.t.Fatal(err)
	}
}

// memoryLimit is what a container would allow.
const memoryLimit = 256 << 20

// caseJ4: a hundred partitions of highly compressed large records, which a map makes large again, and a slow sink. What the process
// uses at most stays below a container's 256 MiB; killed in the middle, it goes on and loses nothing.
func caseJ4(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	r := newRig(t, "EXACTLY_ONCE", c, c, 100)
	r.throughProxies()
	r.cfg.Maps = []daemon.Block{{Label: "headers", Attrs: daemon.Attrs{"rename": daemon.Raw(`{ "no-such" = "x" }`)}}}
	r.cfg.Sink.Attrs["compression"] = "none"
	p := traffic.Plan{Bootstrap: c.Bootstrap(), Topic: r.in[0], Partitions: traffic.Range(100), Records: 6, Batches: []int{2},
		ValueBytes: 150_000, Codecs: []kgo.CompressionCodec{kgo.ZstdCompression()}}
	records := produce(t, p).Committed
	slow := n.Add(proxy.Rule{Keys: []kmsg.Key{kmsg.Produce}, Direction: proxy.Request, BytesPerSecond: 8 << 20})
	defer slow.Remove()
	moved := 0
	for _, kill := range []bool{true, true, false} {
		d := r.start("")
		r.ready(d)
		if kill {
			now := r.progress(d, moved)
			if now <= moved {
				t.Errorf("no progress between kills: %d records, then %d", moved, now)
			}
			moved = now
			r.smallerThan(d, memoryLimit)
			if m := r.metric(d, "process_resident_memory_bytes"); m <= 0 {
				t.Errorf("the metric of the memory is %v", m)
			}
			r.kill(d)
			continue
		}
		r.drained(d)
		r.smallerThan(d, memoryLimit)
		r.terminate(d)
	}
	r.exactlyOnce(records)
}

// progress waits until the sink shows more than so many records.
func (r *rig) progress(d *daemon.Daemon, than int) (now int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), drainLimit)
	defer cancel()
	err := kafka.Poll(ctx, fmt.Sprintf("more than %d records in the sink", than), func() (bool, error) {
		ends, err := r.dst.Admin().ListCommittedOffsets(ctx, r.out)
		now = 0
		for _, partition := range ends[r.out] {
			now += int(partition.Offset)
		}
		if !d.Running() {
			return false, fmt.Errorf("the bridge ended\n%s", d.LogTail())
		}
		return now > than, err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return now
}

// smallerThan looks at the most that the process has had resident.
func (r *rig) smallerThan(d *daemon.Daemon, limit int) {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID()))
	if err != nil {
		r.t.Skip("only Linux tells what a process has used at most: ", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Logf("resident at most %d MiB", kib>>10)
	if kib<<10 > limit {
		r.t.Errorf("the process had %d MiB resident, the limit is %d", kib>>10, limit>>20)
	}
}
