package proxy

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T, w *wired)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWired(t)
		f(t, w)
		if err := w.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestPassesEverything(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		c := w.client()
		for range 100 {
			if id := c.send(heartbeat()); c.answer(time.Second) != id {
				t.Fatalf("no answer to %d", id)
			}
		}
	})
}

// TestHeldArrivesAfterItsSendersDeath: only the commit is held, what follows it on the connection waits, another
// connection goes on, and it arrives when the rule is removed although its sender is gone.
func TestHeldArrivesAfterItsSendersDeath(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		c := w.client()
		rule := w.Add(Rule{Keys: []kmsg.Key{kmsg.EndTxn}, Direction: Request, Match: commits, Times: 1, Action: Hold,
			Fired: func(f *Frame) { c.Close() }})
		if id := c.send(endTxn(false)); c.answer(time.Second) != id {
			t.Fatal("the abort was not answered")
		}
		c.send(endTxn(true))
		if err := rule.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := w.client()
		if id := other.send(endTxn(true)); other.answer(time.Second) != id {
			t.Fatal("the second commit was not let through: Times is 1")
		}
		synctest.Wait()
		if n := w.received(); n != 2 {
			t.Fatalf("the broker got %d requests, want 2: one is held", n)
		}
		rule.Remove()
		synctest.Wait()
		if n := w.received(); n != 3 {
			t.Fatalf("the broker got %d requests, want 3: the held one arrives", n)
		}
	})
}

func TestDiscardedNeverArrives(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		rule := w.Add(Rule{Action: Hold})
		c := w.client()
		c.send(heartbeat())
		if err := rule.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		rule.Discard()
		if !c.closed(time.Second) || w.received() != 0 {
			t.Fatalf("the broker got %d requests, or the connection stayed", w.received())
		}
	})
}

// TestDirectionOfAFault: a request that is dropped or cut does not reach the broker, an answer's request did.
func TestDirectionOfAFault(t *testing.T) {
	for _, c := range []struct {
		rule     Rule
		received int
		closed   bool
	}{
		{Rule{Direction: Request, Action: Drop}, 0, false},
		{Rule{Direction: Answer, Action: Drop}, 1, false},
		{Rule{Direction: Request, Action: Cut}, 0, true},
		{Rule{Direction: Answer, Action: Cut}, 1, true},
	} {
		t.Run(fmt.Sprint(c.rule.Direction, c.rule.Action), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *wired) {
				c.rule.Times = 1
				w.Add(c.rule)
				cl := w.client()
				cl.send(heartbeat())
				if closed := cl.closed(time.Second); closed != c.closed {
					t.Errorf("connection closed: %v, want %v", closed, c.closed)
				}
				if n := w.received(); n != c.received {
					t.Errorf("the broker got %d requests, want %d", n, c.received)
				}
				if c.closed {
					return
				}
				if id := cl.send(heartbeat()); cl.answer(time.Second) != id {
					t.Error("the next request was not answered: Times is 1")
				}
			})
		})
	}
}

func TestNthOccurrenceAndVersion(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		third := w.Add(Rule{Keys: []kmsg.Key{kmsg.Heartbeat}, Direction: Request, Skip: 2, Times: 1, Action: Cut})
		old := w.Add(Rule{Versions: []int16{3}, Action: Cut})
		counted := w.Add(Rule{Direction: Answer, Node: 1})
		elsewhere := w.Add(Rule{Node: 2})
		c := w.client()
		for range 2 {
			if id := c.send(heartbeat()); c.answer(time.Second) != id {
				t.Fatal("no answer")
			}
		}
		c.send(heartbeat())
		if !c.closed(time.Second) {
			t.Error("the third request was not cut")
		}
		if third.Count() != 1 || old.Count() != 0 || counted.Count() != 2 || elsewhere.Count() != 0 {
			t.Error(third.Count(), old.Count(), counted.Count(), elsewhere.Count())
		}
	})
}

// TestDelayIsLatency: frames that follow each other closely are late by the same time, not by the sum.
func TestDelayIsLatency(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		w.Add(Rule{Direction: Request, Delay: time.Second})
		c, begin := w.client(), time.Now()
		for range 5 {
			c.send(heartbeat())
		}
		for range 5 {
			c.answer(time.Minute)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("five answers took %v, want 1s", took)
		}
	})
}

// TestThrottleIsShared: two connections have one rate together.
func TestThrottleIsShared(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		var bytes int
		w.Observe(func(f *Frame, _ bool) {
			if f.Direction == Request {
				bytes += f.Size()
			}
		})
		w.Add(Rule{Direction: Request, BytesPerSecond: 10})
		a, b, begin := w.client(), w.client(), time.Now()
		a.send(heartbeat())
		b.send(heartbeat())
		a.answer(time.Hour)
		b.answer(time.Hour)
		if took, want := time.Since(begin), time.Duration(bytes)*time.Second/10; took != want || want == 0 {
			t.Errorf("%d bytes took %v, want %v", bytes, took, want)
		}
	})
}

// TestRuleEndsByItself: a cut of the whole network of a minute, after which everything arrives.
func TestRuleEndsByItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		w.Add(Rule{Direction: Answer, Action: Hold, For: time.Minute})
		c, begin := w.client(), time.Now()
		id := c.send(heartbeat())
		if got := c.answer(time.Hour); got != id {
			t.Errorf("answer to %d, want %d", got, id)
		}
		if took := time.Since(begin); took != time.Minute || w.received() != 1 {
			t.Errorf("answered after %v, want 1m; the broker got %d requests", took, w.received())
		}
	})
}

// TestObserversSeeWhatWasForwarded: what was not forwarded is said so, and an answer shows its request.
func TestObserversSeeWhatWasForwarded(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		var seen []string
		w.Observe(func(f *Frame, forwarded bool) {
			req, err := f.Request()
			if err != nil {
				t.Error(err)
				return
			}
			seen = append(seen, fmt.Sprintln(f.Direction, f.Key.Name(), f.Version, req.(*kmsg.EndTxnRequest).Commit, forwarded))
		})
		w.Add(Rule{Match: commits, Direction: Request, Action: Cut})
		c := w.client()
		c.send(endTxn(false))
		c.answer(time.Second)
		c.send(endTxn(true))
		c.closed(time.Second)
		want := "[request EndTxn 5 false true\n answer EndTxn 5 false true\n request EndTxn 5 true false\n]"
		w.watching.Lock()
		defer w.watching.Unlock()
		if got := fmt.Sprint(seen); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestBreakCutsEveryConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *wired) {
		a, b := w.client(), w.client()
		a.send(heartbeat())
		a.answer(time.Second)
		b.send(heartbeat())
		b.answer(time.Second)
		w.Break()
		if !a.closed(time.Second) || !b.closed(time.Second) {
			t.Error("a connection is open")
		}
		c := w.client()
		if id := c.send(heartbeat()); c.answer(time.Second) != id {
			t.Error("a new connection does not work")
		}
	})
}

// TestNotKafkaIsAnError: bytes that are no frame are not handed on, and the test is told.
func TestNotKafkaIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWired(t)
		c := w.client()
		if _, err := c.Write([]byte("GET / HTTP/1.1")[:4]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if w.Err() == nil || w.received() != 0 {
			t.Errorf("error %v, the broker got %d requests", w.Err(), w.received())
		}
	})
}
