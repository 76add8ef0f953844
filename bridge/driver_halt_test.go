package bridge

import (
	"context"
	"errors"
	"testing"
	"time"

	"kafkabridge/semantics"
)

// TestHaltWaitsForAPersistInFlight: a checkpoint that was on its way when the run failed may be durable, so the store is
// read again only when nothing runs any more, and what it holds is committed before the fence would abort it.
func TestHaltWaitsForAPersistInFlight(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		gate := make(chan struct{})
		s.w.on("save", func(context.Context) error { <-gate; return nil }) // a disk knows no context
		s.produce("in", 10)
		s.until("the checkpoint is on its way", func() bool { return s.w.count("save") == 1 })
		loads, fences := s.w.count("load"), s.w.count("fence")
		s.produce("in", 10)
		s.until("epoch 2 is open", func() bool { return s.w.count("begin") == 3 })
		s.w.breaks(errors.New("the leader is gone"))
		s.after(5 * time.Second)
		if s.w.count("load") != loads || s.w.count("fence") != fences {
			t.Fatal("recovery began while the checkpoint was on its way")
		}
		commits := s.w.count("commit")
		s.w.on("save", nil)
		close(gate)
		s.until("ready again", func() bool { return s.b.Status().Ready && s.w.count("fence") == fences+2 })
		s.w.mu.Lock()
		committed, fenced := -1, -1
		for i, c := range s.w.calls {
			if c.op == "commit" && committed < 0 && commits == 0 {
				committed = i
			}
			if c.op == "commit" {
				commits--
			}
			if c.op == "fence" {
				fenced = i
			}
		}
		s.w.mu.Unlock()
		if committed < 0 || committed > fenced {
			t.Errorf("the proposed epoch was not settled before the fence: %v", s.w.tail())
		}
		if st := s.b.Status(); st.Recoveries["committed"] != 1 || st.Restarts != 1 {
			t.Errorf("recoveries %v, %d restarts", st.Recoveries, st.Restarts)
		}
		s.stop()
		s.once(plainly, "in")
	})
}

// TestHaltEndsWhatBlocks: a Write and a Read that wait for ever end with their run, and the answer of an action that was
// cut off is not taken for the new run's (it would be illegal there, or worse, believed).
func TestHaltEndsWhatBlocks(t *testing.T) {
	for _, op := range []string{"write", "flush", "append", "commit"} {
		inBubble(t, func(s *sim) {
			s.start()
			s.ready()
			s.w.on(op, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(300 * time.Millisecond) // its answer comes when the run is over
				return nil
			})
			began := s.w.count(op)
			s.produce("in", 10)
			s.until(op+" hangs", func() bool { return s.w.count(op) > began })
			s.w.on(op, nil)
			s.w.breaks(errors.New("the leader is gone"))
			s.until("the next run", func() bool { st := s.b.Status(); return st.Restarts == 1 && st.Ready })
			s.produce("in", 10)
			s.after(5 * time.Second)
			if st := s.b.Status(); st.Restarts != 1 {
				t.Errorf("%s: %d restarts, last failure %q", op, st.Restarts, st.LastFailure)
			}
			s.stop()
			s.once(plainly, "in")
		})
	}
}

// TestStoreThatCannotBeReadAfterAHalt ends the bridge, and nothing is aborted: the checkpoint on its way may be durable.
func TestStoreThatCannotBeReadAfterAHalt(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		s.w.on("commit", hang)
		s.produce("in", 10)
		s.until("epoch 1 is proposed", func() bool { return s.w.count("commit") == 2 })
		s.w.on("load", func(context.Context) error { return errors.New("input/output error") })
		s.w.breaks(errors.New("the leader is gone"))
		err := s.ended()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitGaveUp || !contains(err.Error(), "input/output error") {
			t.Errorf("ended with %v", err)
		}
		if len(s.w.aborted()) != 0 || s.w.count("abort") != 0 {
			t.Errorf("something was aborted: %v", s.w.tail())
		}
		s.w.on("commit", nil)
		s.w.on("load", nil)
		s.start()
		s.ready()
		s.after(3 * time.Second) // a stop moves what was read, not what could be read
		s.stop()
		s.once(plainly, "in")
	})
}

// TestRestartBackoff: the pauses double up to backoff_max, each within its half, and after the last attempt the bridge
// gives up with exit code 1.
func TestRestartBackoff(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Restart = RestartOptions{Backoff: 200 * time.Millisecond, BackoffMax: time.Second, Attempts: 5}
		s.start()
		s.ready()
		s.w.on("flush", func(context.Context) error { return errors.New("no broker answers") })
		s.produce("in", 10)
		err := s.ended()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitGaveUp || !contains(err.Error(), "no broker answers") {
			t.Errorf("ended with %v", err)
		}
		failed, looked := s.w.times("flush"), s.w.times("look")
		if len(failed) != 6 || len(looked) < 6 {
			t.Fatalf("%d runs, %d looks", len(failed), len(looked))
		}
		for i, most := range []time.Duration{200, 400, 800, 1000, 1000} {
			most *= time.Millisecond
			next := looked[0]
			for _, l := range looked {
				if l > failed[i] {
					next = l
					break
				}
			}
			if pause := next - failed[i]; pause < most/2 || pause > most+10*time.Millisecond {
				t.Errorf("pause %d is %v, want %v to %v", i+1, pause, most/2, most)
			}
		}
	})
}

// TestWaitsAreRandomWithinBounds: 100-500 ms before a claim, 1-3 s after one, doubled each attempt. At the limit of a
// minute they must still be random: two incarnations in lock step fence each other for ever.
func TestWaitsAreRandomWithinBounds(t *testing.T) {
	for attempt := 1; attempt <= 40; attempt++ {
		for _, c := range []struct{ low, high time.Duration }{{100 * time.Millisecond, 500 * time.Millisecond}, {time.Second, 3 * time.Second}} {
			shift := min(attempt-1, 20)
			low, high := min(c.low<<shift, 30*time.Second), min(c.high<<shift, time.Minute)
			seen := map[time.Duration]bool{}
			for range 200 {
				w := between(c.low, c.high, attempt)
				if w < min(low, high/6) || w > high || attempt < 3 && w < low {
					t.Fatalf("attempt %d of %v-%v: waited %v, want %v to %v", attempt, c.low, c.high, w, low, high)
				}
				seen[w.Truncate(time.Millisecond)] = true
			}
			if len(seen) < 50 {
				t.Errorf("attempt %d of %v-%v: %d different waits in 200", attempt, c.low, c.high, len(seen))
			}
		}
	}
}

// TestWaitCauses: which bounds the driver takes.
func TestWaitCauses(t *testing.T) {
	for _, c := range []struct {
		cause       semantics.WaitCause
		least, most time.Duration
	}{{semantics.WaitUnclaimed, 100 * time.Millisecond, 500 * time.Millisecond}, {semantics.WaitClaimed, time.Second, 3 * time.Second},
		{semantics.WaitRestart, 50 * time.Millisecond, 100 * time.Millisecond}} {
		inBubble(t, func(s *sim) {
			s.start()
			s.ready()
			d := newDriver(s.b)
			for range 20 {
				began := time.Now()
				if _, err := d.wait(s.t.Context(), semantics.Wait{Cause: c.cause, Attempt: 1}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("cause %d: waited %v, want %v to %v", c.cause, took, c.least, c.most)
				}
			}
		})
	}
}

// TestIdleBridgeFindsItsSuccessor within a few seconds, by looking at the ledger, and one look that hangs gathers no others
// behind it.
func TestIdleBridgeFindsItsSuccessor(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		s.w.on("look", hang)
		looks := s.w.count("look")
		s.after(time.Minute)
		if n := s.w.count("look") - looks; n != 1 {
			t.Errorf("%d looks are under way", n)
		}
		s.crash()
		s.w.on("look", nil)
		s.start()
		s.ready()
		s.w.mu.Lock()
		rec := s.w.ledger[len(s.w.ledger)-1]
		rec.Incarnation = "somebody else"
		s.w.ledger = append(s.w.ledger, rec)
		s.w.mu.Unlock()
		began := time.Now()
		err := s.ended()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitLost {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(began); took > lookInterval+time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
