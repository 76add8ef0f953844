//go:build kafka

package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/proxy"
)

// unanswered is a way in which the bridge does not learn what became of its commit.
type unanswered struct {
	name      string
	direction proxy.Direction // Request: the broker never saw it; Answer: the broker has done it
	away      time.Duration   // how long the coordinator cannot be reached afterwards
	kill      bool
}

// caseC1: the answer to a commit is lost in each way, one after the other, the bridge lives on or is killed. All is there once, in
// order, and nothing ever asks to abort what the broker was asked to commit.
func caseC1(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	const beyond = cellTimeout + 2*time.Second // the sweeper comes each second
	ways := []unanswered{
		{"answer", proxy.Answer, 0, false}, {"request", proxy.Request, 0, false},
		{"answer, coordinator away", proxy.Answer, 2 * time.Second, false},
		{"answer, coordinator away for long", proxy.Answer, beyond, false},
		{"request, coordinator away for long", proxy.Request, beyond, false},
		{"answer, killed", proxy.Answer, 0, true}, {"request, killed", proxy.Request, 0, true},
		{"answer, coordinator away, killed", proxy.Answer, 2 * time.Second, true},
	}
	r := newRig(t, "EXACTLY_ONCE", c, c, 3)
	r.throughProxies()
	r.cfg.Sink.Attrs["transaction_timeout"], r.cfg.Checkpoint["timeout"] = cellTimeout.String(), "4s"
	watch := &endings{commits: map[string]bool{}}
	n.Observe(watch.see)
	stop := r.stream(3, 900)
	d := r.start("")
	r.ready(d)
	for _, way := range ways {
		r.decides(d)
		lost := n.Add(proxy.Rule{Direction: way.direction, Match: proxy.When(isCommit), Times: 1, Action: proxy.Cut,
			Fired: func(*proxy.Frame) {
				if way.away > 0 {
					n.Add(proxy.Rule{Keys: coordinatorKeys(), Direction: proxy.Request, Action: proxy.Cut, For: way.away})
				}
			}})
		r.waitFired(lost, d)
		lost.Remove()
		if way.kill {
			r.kill(d)
			d = r.start("")
		}
		pause(way.away)
		t.Logf("%s: an epoch is decided after %v", way.name, r.decides(d).Round(time.Millisecond))
	}
	records := stop()
	r.drained(d)
	r.note(d)
	r.terminate(d)
	r.exactlyOnce(records)
	commits, wrong := watch.result()
	if commits < 2*len(ways) || len(wrong) > 0 {
		t.Errorf("%d transactions were committed; aborted after that: %v", commits, wrong)
	}
}

// coordinatorKeys are the requests that go to the transaction coordinator, and the one that finds it.
func coordinatorKeys() []kmsg.Key {
	return []kmsg.Key{kmsg.FindCoordinator, kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.EndTxn}
}

// endings watches for an abort of a transaction whose commit was handed to the broker before. A transaction has its producer id and
// epoch for itself (invariant I6).
type endings struct {
	mu      sync.Mutex
	commits map[string]bool
	wrong   []string
}

func (e *endings) see(f *proxy.Frame, forwarded bool) {
	if f.Direction != proxy.Request || f.Key != kmsg.EndTxn || !forwarded {
		return
	}
	req, err := f.Request()
	end, is := req.(*kmsg.EndTxnRequest)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || !is {
		e.wrong = append(e.wrong, fmt.Sprintf("not decoded: %s, %v", f, err))
		return
	}
	transaction := fmt.Sprintf("%s %d/%d", end.TransactionalID, end.ProducerID, end.ProducerEpoch)
	if end.Commit {
		e.commits[transaction] = true
	} else if e.commits[transaction] {
		e.wrong = append(e.wrong, transaction)
	}
}

func (e *endings) result() (commits int, wrong []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.commits), e.wrong
}
