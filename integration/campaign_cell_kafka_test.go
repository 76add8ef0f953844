//go:build kafka

package integration

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// cell is one run of a scenario: a bridge of its own under steady traffic, judged when it ends.
type cell struct {
	*rig
	scenario   string
	stop       func() int
	recoveries []time.Duration

	judged bool // its batch compares the sink with the source
	failed bool // the test has failed
	want   int  // records that the traffic was acknowledged
	expect *oracle.Expected
	check  *oracle.Check
}

// cellRate is the traffic of a cell in records per second: so much that every epoch holds some.
const cellRate = 1_200

// cellTimeout is the transaction timeout of a cell.
const cellTimeout = 6 * time.Second

// newCell starts a cell's traffic. Its result is added to the table, however it ends.
func (b *batch) newCell(t *testing.T, scenario string, src, dst *kafka.Cluster, partitions int32) *cell {
	t.Helper()
	x := &cell{scenario: scenario}
	t.Cleanup(func() {
		x.failed = t.Failed()
		if !x.judged {
			b.table.add(scenario, oracle.Report{}, x.recoveries, true)
		}
	})
	x.rig = newRig(t, "EXACTLY_ONCE", src, dst, partitions)
	x.dir = b.dir(t) // it outlives the test, because the verdict may have to show the logs
	x.cfg.Checkpoint["path"] = filepath.Join(x.dir, "state")
	// Short, because cells wait for it, but enough for a machine that has much else to do.
	x.cfg.Sink.Attrs["transaction_timeout"], x.cfg.Checkpoint["timeout"] = cellTimeout.String(), "4s"
	x.stop = x.stream(partitions, cellRate)
	return x
}

// stream produces until the returned function is called, which says how many records were acknowledged.
func (r *rig) stream(partitions int32, perSecond int) (stop func() int) {
	type result struct {
		committed int
		err       error
	}
	done, ctx := make(chan result, 1), r.t.Context()
	enough, cancel := context.WithCancel(ctx)
	go func() {
		var sum result
		p := r.plan(partitions, perSecond/int(partitions), perSecond) // a second's worth
		for sum.err == nil && enough.Err() == nil {
			var n traffic.Count
			n, sum.err = traffic.Produce(ctx, p)
			sum.committed += n.Committed
			p.First += p.Records
		}
		done <- sum
	}()
	return func() int {
		r.t.Helper()
		cancel()
		sum := <-done
		if sum.err != nil {
			r.t.Fatal(sum.err)
		}
		return sum.committed
	}
}

// recoverLimit is far above what any fault costs: a bridge that needs longer hangs.
const recoverLimit = 3 * time.Minute

// recovered waits until the run has decided an epoch after the moment in which the fault ended, and notes how long
// after.
func (x *cell) recovered(d *daemon.Daemon, since time.Time) {
	x.t.Helper()
	took := x.decidedAfter(d, since).Sub(since)
	x.recoveries = append(x.recoveries, took)
	if took > 15*time.Second {
		x.t.Logf("a recovery of %v\n%s", took, d.LogTail())
	}
}

// decidedAfter waits until an epoch is decided after a moment and returns when that was.
func (x *cell) decidedAfter(d *daemon.Daemon, since time.Time) (at time.Time) {
	x.t.Helper()
	ctx, cancel := contextWithTimeout(x.t, recoverLimit)
	defer cancel()
	for {
		if !d.Running() {
			x.t.Fatalf("the bridge ended while it should recover\n%s", d.LogTail())
		}
		if m, err := d.Metrics(ctx); err == nil { // a run too young or busy to answer is asked again
			unix, _ := m.Sum("bridge_last_decided_timestamp_seconds")
			if at = time.UnixMicro(int64(unix * 1e6)); at.After(since) {
				return at
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			x.t.Fatalf("nothing was decided for %v; /readyz: %s\n%s", time.Since(since), d.WhyNotReady(x.t.Context()), d.LogTail())
		}
	}
}

// again starts the bridge and waits until it decides.
func (x *cell) again(failpoint string) *daemon.Daemon {
	x.t.Helper()
	begin := time.Now()
	d := x.start(failpoint)
	x.recovered(d, begin)
	return d
}

// judge ends traffic and bridge and leaves the comparison of sink and source to the batch.
func (x *cell) judge(b *batch, d *daemon.Daemon) {
	x.t.Helper()
	x.want = x.stop()
	x.drained(d)
	x.note(d)
	x.terminate(d)
	x.nothingOpen()
	x.judged = true
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cells = append(b.cells, x)
}
