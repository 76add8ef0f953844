//go:build kafka

package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/proxy"
)

// TestCasesAToD has the public cases of families A, B and D, and C1, with transaction.version 2 and 1. All parts of a version are
// on one cluster behind proxies: a boot takes longer than most of them.
func TestCasesAToD(t *testing.T) {
	for _, version := range []int{2, 1} {
		o := kafka.Options{Version: kafka.Current, TransactionVersion: version, Proxied: true}
		t.Run(clusterName(o), func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, o)
			n := proxied(t, c)
			for _, part := range []struct {
				name string
				run  func(*testing.T, *kafka.Cluster, *proxy.Network)
			}{
				{"A1CommitSwallowed", caseA1}, {"A2RangeGone", caseA2Gone}, {"A4NoRecordInTheTransaction", caseA4},
				{"A7BeforeTheFirstCheckpoint", caseA7Leftover}, {"A7Ids", caseA7Ids},
				{"B1SlowLink", caseB1}, {"B1Refused", caseB1Refused}, {"C1CommitUnanswered", caseC1}, {"D1Twins", caseD1},
			} {
				t.Run(part.name, func(t *testing.T) { part.run(t, c, n) })
			}
		})
	}
}

// decides waits until the run decides an epoch from now on, and returns how long that took.
func (r *rig) decides(d *daemon.Daemon) time.Duration {
	r.t.Helper()
	since := time.Now()
	return (&cell{rig: r}).decidedAfter(d, since).Sub(since)
}

// waitFired waits until a rule has acted.
func (r *rig) waitFired(rule *proxy.Active, d *daemon.Daemon) {
	r.t.Helper()
	(&cell{rig: r}).fired(rule, d)
}

func isCommit(req *kmsg.EndTxnRequest) bool { return req.Commit }

// diesWithItsCommit starts the bridge, swallows the commit after the next two, and kills the bridge in that moment.
func (r *rig) diesWithItsCommit(n *proxy.Network) {
	r.t.Helper()
	d := r.start("")
	r.ready(d)
	swallowed := n.Add(proxy.Rule{Direction: proxy.Request, Match: proxy.When(isCommit), Skip: 2, Times: 1, Action: proxy.Drop,
		Fired: func(*proxy.Frame) { _ = d.Kill() }}) // the only error is a process that has ended already
	defer swallowed.Discard()
	r.waitFired(swallowed, d)
	r.failpoint(d, readyLimit)
}

// transactionalIDs are those of the bridge that the coordinator knows.
func (r *rig) transactionalIDs() []string {
	r.t.Helper()
	listed, err := r.dst.Admin().ListTransactions(r.t.Context(), nil, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(listed)), func(id string) bool { return !strings.HasPrefix(id, r.name) })
}

// fewOpen: never more than the bridge's two transactions are open, however often it dies.
func (r *rig) fewOpen() {
	r.t.Helper()
	open, err := r.openTransactions()
	if err != nil || len(open) > 2 {
		r.t.Errorf("%d transactions are open: %+v, %v", len(open), open, err)
	}
}
