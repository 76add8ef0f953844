//go:build kafka

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/proxy"
)

// target is a frame of the bridge's protocol that something happens to.
type target struct {
	name string
	key  kmsg.Key
	skip int // frames of the kind before it
	only func(*proxy.Frame) bool
	tv1  bool // brokers with transaction.version 2 do not see it
}

func targets() []target {
	commits := proxy.When(func(r *kmsg.EndTxnRequest) bool { return r.Commit })
	return []target{
		{name: "EndTxn", key: kmsg.EndTxn, skip: 3, only: commits},
		{name: "InitProducerID", key: kmsg.InitProducerID},
		{name: "Produce", key: kmsg.Produce, skip: 10},
		{name: "AddPartitionsToTxn", key: kmsg.AddPartitionsToTxn, skip: 3, tv1: true},
	}
}

func (g target) rule(d proxy.Direction, a proxy.Action) proxy.Rule {
	return proxy.Rule{Keys: []kmsg.Key{g.key}, Direction: d, Match: g.only, Skip: g.skip, Times: 1, Action: a}
}

// each runs f for every target that the site's brokers see.
func (s *site) each(t *testing.T, scenario string, f func(*testing.T, target)) {
	for _, g := range targets() {
		if g.tv1 && s.TransactionVersion() == 2 {
			continue
		}
		t.Run(short(scenario+" "+g.name), func(t *testing.T) { f(t, g) })
	}
}

// cell is a cell whose bridge reaches the site's broker through the proxy only.
func (s *site) cell(t *testing.T, b *batch, scenario string) *cell {
	x := b.newCell(t, scenario, s.Cluster, s.Cluster, 3)
	x.throughProxies()
	return x
}

// lateRequests: a request is on its way when its sender dies, and arrives when the next run has decided two epochs.
func (b *batch) lateRequests(t *testing.T, s *site) {
	const scenario = "a request of the dead arrives late"
	b.announce(scenario)
	for i := range b.repeats(1, 3) {
		s.each(t, fmt.Sprint(scenario, " ", i), func(t *testing.T, g target) {
			x := s.cell(t, b, scenario)
			first := x.start("")
			rule := g.rule(proxy.Request, proxy.Hold)
			var conn int64
			rule.Fired = func(f *proxy.Frame) {
				conn = f.Conn
				_ = first.Kill() // the only error is a process that has ended already
			}
			held := s.net.Add(rule)
			defer held.Discard() // whatever fails, the next cell's frames are not held
			x.fired(held, first)
			x.exitedBySignal(first)
			d := x.again("")
			x.decidedAfter(d, x.decidedAfter(d, time.Now()))
			answered := s.net.Add(proxy.Rule{Direction: proxy.Answer, Match: func(f *proxy.Frame) bool { return f.Conn == conn }})
			defer answered.Remove()
			late := time.Now()
			held.Remove()
			x.fired(answered, d)
			x.recovered(d, late)
			x.judge(b, d)
		})
	}
}

// fired waits until a rule has acted.
func (x *cell) fired(rule *proxy.Active, d *daemon.Daemon) {
	x.t.Helper()
	ctx, cancel := contextWithTimeout(x.t, recoverLimit)
	defer cancel()
	if err := rule.Wait(ctx); err != nil {
		x.t.Fatalf("%v\n%s", err, d.LogTail())
	}
}

// lostFrames: requests and answers are lost, with their connection or alone; the bridge lives and goes on by itself.
func (b *batch) lostFrames(t *testing.T, s *site) {
	for _, loss := range []struct {
		scenario string
		d        proxy.Direction
		a        proxy.Action
	}{
		{"a request is lost with its connection", proxy.Request, proxy.Cut},
		{"an answer is lost with its connection", proxy.Answer, proxy.Cut},
		{"a request never arrives", proxy.Request, proxy.Drop},
		{"an answer never arrives", proxy.Answer, proxy.Drop},
	} {
		b.announce(loss.scenario)
		if !b.full && loss.a == proxy.Drop { // these wait for the request's timeout
			continue
		}
		s.each(t, loss.scenario, func(t *testing.T, g target) {
			x := s.cell(t, b, loss.scenario)
			d := x.start("")
			rule := s.net.Add(g.rule(loss.d, loss.a))
			defer rule.Remove()
			x.fired(rule, d)
			x.recovered(d, time.Now())
			x.judge(b, d)
		})
	}
}

// cuts: nothing passes in a direction for longer than every timeout of the bridge, then everything that waited arrives.
func (b *batch) cuts(t *testing.T, s *site) {
	length := 45 * time.Second // above the transaction's, the checkpoint's and every request's timeout
	ways := []proxy.Direction{proxy.Request, proxy.Answer}
	if b.full {
		length, ways = 150*time.Second, append(ways, 0) // above the producer's delivery timeout too; 0: both directions
	} else {
		ways = ways[s.TransactionVersion()-1:][:1] // requests with one version, answers with the other
	}
	for _, way := range ways {
		scenario := fmt.Sprintf("the network is cut for %v, %ss", length, way)
		if way == 0 {
			scenario = fmt.Sprintf("the network is cut for %v, both directions", length)
		}
		b.announce(scenario)
		t.Run(short(scenario), func(t *testing.T) {
			x := s.cell(t, b, scenario)
			d := x.start("")
			x.decidedAfter(d, time.Now())
			cut := s.net.Add(proxy.Rule{Direction: way, Action: proxy.Hold})
			defer cut.Discard()
			pause(length)
			healed := time.Now()
			cut.Remove()
			x.recovered(d, healed)
			x.judge(b, d)
		})
	}
}
