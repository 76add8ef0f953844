package bridge

import (
	"context"
	"strings"
	"testing"
	"time"

	"kafkabridge/semantics"
)

// TestStopInEveryState: whatever hangs, with an ear for its context or without, a stop ends within stop_timeout and a grace,
// with exit code 0; what is proposed is never aborted (simWorld looks), the rest at most once; and the next start
// loses and doubles nothing.
func TestStopInEveryState(t *testing.T) {
	for _, op := range []string{"check", "load", "look", "fence", "read", "begin", "claim", "write", "flush", "append", "save", "commit", "decide", "abort"} {
		for _, deaf := range []bool{false, true} {
			if !deaf && (op == "load" || op == "save" || op == "decide") {
				continue // a disk knows no context
			}
			inBubble(t, func(s *sim) {
				s.o.StopTimeout = 4 * time.Second
				s.o.Checkpoint.Timeout = 30 * time.Second // the stop's own limits are tested here
				s.o.Checkpoint.TolerableFailures = 5
				gate := make(chan struct{})
				stuck := hang
				if deaf {
					stuck = func(context.Context) error { <-gate; return nil }
				}
				s.produce("in", 20)
				first := op == "check" || op == "load" || op == "look" || op == "fence" || op == "read" || op == "begin" || op == "claim"
				if first {
					s.w.on(op, stuck)
				}
				s.start()
				before := 0
				if !first {
					s.ready()
					s.after(3 * time.Second)
					s.w.on(op, stuck)
					before = s.w.count(op)
					s.produce("in", 20)
				}
				if op == "abort" {
					s.w.on("flush", hang)
				} else {
					s.until(op, func() bool { return s.w.count(op) > before })
				}
				s.after(50 * time.Millisecond)
				began := time.Now()
				s.b.Stop()
				s.after(2 * time.Second)
				s.b.Stop() // asking again must not extend it
				err := <-s.result
				took := s.over.Sub(began)
				if err != nil || took > s.o.StopTimeout+2*haltGrace+time.Second {
					t.Errorf("%s (deaf: %v): stopped after %v with %v", op, deaf, took, err)
				}
				if !deaf && took > s.o.StopTimeout+3*time.Second+time.Second { // one attempt to abort
					t.Errorf("%s: stopped after %v", op, took)
				}
				for tx, n := range s.w.aborted() {
					if n > 1 {
						t.Errorf("%s: %s was aborted %d times", op, tx, n)
					}
				}
				close(gate)
				s.after(time.Second)
				s.w.on(op, nil)
				s.w.on("flush", nil)
				s.start()
				s.ready()
				s.after(3 * time.Second)
				s.stop()
				s.once(plainly, "in")
			})
		}
	}
}

// TestStopAbortsWhatIsOpen once, so that no reader of the sink hangs on it, and leaves alone what is prepared.
func TestStopAbortsWhatIsOpen(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.StopTimeout = 2 * time.Second
		s.start()
		s.ready()
		s.w.on("commit", hang)
		s.produce("in", 10)
		s.until("epoch 1 is proposed", func() bool { return s.w.count("commit") == 2 })
		s.produce("in", 10)
		s.after(500 * time.Millisecond)
		open, prepared := s.b.Status().Transaction.Open, s.b.Status().Transaction.Prepared
		s.stop()
		if len(s.w.aborted()) != 1 {
			t.Errorf("aborted: %v", s.w.aborted())
		}
		for tx, n := range s.w.aborted() {
			if tx.String() != open || n != 1 || tx.String() == prepared {
				t.Errorf("%s was aborted %d times; open was %s, prepared %s", tx, n, open, prepared)
			}
		}
		if c := s.w.checkpoint(1); c.Status != semantics.Proposed {
			t.Errorf("checkpoint 1 is %s", c.Status)
		}
		s.w.on("commit", nil)
		s.start()
		s.ready()
		if st := s.b.Status(); st.Recoveries["committed"] != 1 {
			t.Errorf("recoveries %v", st.Recoveries)
		}
		s.after(3 * time.Second) // a stop moves what was read, not what could be read
		s.stop()
		s.once(plainly, "in")
	})
}

// TestUntilEnd ends by itself, not before everything that was there at the start is decided, also when the run fails on the way.
func TestUntilEnd(t *testing.T) {
	for _, fails := range []bool{false, true} {
		inBubble(t, func(s *sim) {
			s.o.UntilEnd = true
			s.o.Checkpoint.Timeout = 20 * time.Second // a barrier has everything that was read before it: ten slow writes
			s.o.Checkpoint.MaxRecords = 20
			// So large that the source is held back by the sink: an end that came too early would leave most of them out.
			s.o.MaxInFlight, s.o.Sources[0].FetchMaxBytes = 1<<20, 128<<10
			s.pad = strings.Repeat("x", 50_000)
			for range 10 {
				s.produce("in", 10)
			}
			s.w.on("write", takes(200*time.Millisecond))
			if fails {
				aborted := 0
				s.w.on("append", func(context.Context) error {
					if aborted++; aborted == 1 {
						s.w.bump("b-0")
						s.w.bump("b-1") // somebody fences both ids: nothing of this epoch counts
					}
					return nil
				})
			}
			s.start()
			b := s.b
			if err := s.ended(); err != nil {
				t.Fatalf("ended with %v", err)
			}
			if st := b.Status(); fails != (st.Restarts == 1) {
				t.Errorf("%d restarts", st.Restarts)
			}
			s.once(func(int) string { return s.pad }, "in")
		})
	}
}

// TestPublishDelaysNothing: a group coordinator that does not answer costs no barrier its time, and no stop more than
// a moment.
func TestPublishDelaysNothing(t *testing.T) {
	inBubble(t, func(s *sim) {
		refuseOffsetCommits(s.cluster)
		s.start()
		s.ready()
		stop := s.feed("in", 4, 50*time.Millisecond)
		s.after(20 * time.Second)
		if n := s.w.count("flush"); n < 19 {
			t.Errorf("%d barriers in 20 s: %v", n, s.w.times("flush"))
		}
		if st := s.b.Status(); st.Restarts != 0 || !st.Ready {
			t.Errorf("%d restarts, ready %v", st.Restarts, st.Ready)
		}
		stop()
		s.after(time.Second)
		began := time.Now()
		s.b.Stop()
		if err := s.ended(); err != nil {
			t.Error(err)
		}
		if took := s.over.Sub(began); took > 8*time.Second {
			t.Errorf("the stop took %v", took)
		}
		s.once(plainly, "in")
	})
}
