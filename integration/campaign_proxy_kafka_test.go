//go:build kafka

package integration

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/proxy"
)

// TestProxyIsTheOnlyWay: a bridge that knows the proxies' addresses reaches brokers through nothing else, and what the
// proxies do to it has the effect that they say: the answer to a commit is lost and the bridge is killed at that
// moment, so the next run has to find out that its transaction was committed.
func TestProxyIsTheOnlyWay(t *testing.T) {
	o := current()
	o.Proxied = true
	c := startCluster(t, o)
	n := proxied(t, c)
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	r.throughProxies()
	wait := r.background(r.plan(3, 4_000, 4_000))
	d := r.start("")
	lost := n.Add(proxy.Rule{
		Keys: []kmsg.Key{kmsg.EndTxn}, Direction: proxy.Answer, Skip: 2, Times: 1, Action: proxy.Cut,
		Match: proxy.When(func(req *kmsg.EndTxnRequest) bool { return req.Commit }),
		Fired: func(*proxy.Frame) { _ = d.Kill() }, // the only error is a process that has ended already
	})
	ctx, cancel := contextWithTimeout(t, readyLimit)
	defer cancel()
	if err := lost.Wait(ctx); err != nil {
		t.Fatalf("%v\n%s", err, d.LogTail())
	}
	r.exitedBySignal(d)
	fetched := n.Add(proxy.Rule{Keys: []kmsg.Key{kmsg.Fetch}})
	records := wait().Committed
	r.untilEnd()
	if fetched.Count() == 0 {
		t.Error("no fetch went through the proxy: the bridge went past it")
	}
	r.exactlyOnce(records)
}

// exitedBySignal waits for the end of a run that something else has killed.
func (r *rig) exitedBySignal(d *daemon.Daemon) {
	r.t.Helper()
	select {
	case <-d.Done():
		r.kills++
	case <-r.t.Context().Done():
		r.t.Fatal("the run was not killed")
	}
}
