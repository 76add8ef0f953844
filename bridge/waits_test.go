package bridge

import (
	"context"
	"errors"
	"testing"
	"time"

	"kafkabridge/semantics"
)

// TestDowntimeBudget: the whole timeout while nothing is open, less with the age of what is prepared, never below 0.
func TestDowntimeBudget(t *testing.T) {
	inBubble(t, func(s *sim) { // transaction_timeout is a minute
		budget := func(low, high float64) {
			t.Helper()
			b := s.b.Status().Transaction.Budget
			if b == nil {
				t.Fatal("no budget")
			}
			if *b < low || *b > high {
				t.Errorf("budget %v, want %v to %v", *b, low, high)
			}
		}
		s.start()
		s.ready()
		s.after(10 * time.Minute)
		budget(60, 60)
		s.w.on("commit", hang)
		s.produce("in", 10)
		s.until("prepared", func() bool { return s.w.count("commit") == 2 })
		// The epoch was open for ten minutes, its transaction for a second.
		budget(58, 60)
		s.after(10 * time.Second)
		budget(48, 50)
		s.after(2 * time.Minute)
		budget(0, 0)
		s.crash()
		// The coordinator said that it began in 1970: a start finds that there is no time left.
		s.start()
		s.until("settling", func() bool { return s.b.Status().State == "settling" })
		budget(0, 0)
		s.w.on("commit", nil)
		s.ready()
		budget(58, 60) // what was aborted is being read again
		s.stop()
	})
	inBubble(t, func(s *sim) {
		s.o.Semantic = semantics.AtLeastOnce
		s.start()
		s.ready()
		if b := s.b.Status().Transaction.Budget; b != nil {
			t.Errorf("budget %v without transactions", *b)
		}
		s.stop()
	})
}

// TestPreparedUntil: only what is proposed is prepared; the time goes from the beginning that the coordinator told.
func TestPreparedUntil(t *testing.T) {
	c := semantics.Checkpoint{Status: semantics.Proposed, Transaction: semantics.Transaction{ID: "b-0", ProducerID: 1}, StartedMs: 5_000, TimeoutMs: 60_000, SavedMs: 7_000}
	if got := PreparedUntil(c).UnixMilli(); got != 65_000 {
		t.Errorf("until %d", got)
	}
	unknown := c
	unknown.StartedMs = 0
	if got := PreparedUntil(unknown).UnixMilli(); got != 7_000 {
		t.Errorf("beginning unknown: until %d", got)
	}
	decided, empty, none := c, c, c
	decided.Status, empty.Empty, none.Transaction = semantics.Decided, true, semantics.Transaction{}
	for _, c := range []semantics.Checkpoint{decided, empty, none} {
		if got := PreparedUntil(c); !got.IsZero() {
			t.Errorf("%+v: until %s", c, got)
		}
	}
}

// TestWaitsFor: one sentence for everything that a bridge can wait for.
func TestWaitsFor(t *testing.T) {
	for op, says := range map[string]string{
		"flush":  "the sink to acknowledge every batch of epoch 1",
		"append": "the ledger record of epoch 1 to be acknowledged",
		"commit": "the transaction coordinator to commit epoch 1",
	} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(s *sim) {
				s.o.Checkpoint.Timeout = time.Minute
				s.start()
				s.ready()
				s.until("idle", func() bool { return s.b.Status().WaitsFor == "new records in the sources" })
				s.w.on(op, hang)
				s.produce("in", 10)
				s.until(says, func() bool { return contains(s.b.Status().WaitsFor, says) })
				s.w.on(op, nil)
			})
		})
	}
	inBubble(t, func(s *sim) {
		s.w.on("fence", func(context.Context) error {
			return &semantics.Error{Class: semantics.Retry, Op: "fence", Err: errors.New("broker 1 does not answer")}
		})
		s.start()
		s.until("fencing", func() bool {
			w := s.b.Status().WaitsFor
			return contains(w, "the transaction coordinator to fence older instances") && contains(w, "broker 1 does not answer")
		})
		s.w.on("fence", nil)
		s.ready()
		s.o.Restart.Backoff = time.Second
		s.w.on("flush", func(context.Context) error {
			return &semantics.Error{Class: semantics.Retry, Op: "flush", Err: errors.New("no room on the sink")}
		})
		s.produce("in", 10)
		s.until("backing off", func() bool {
			w := s.b.Status().WaitsFor
			return contains(w, "the end of a pause: restarting: attempt 1 at 2000-01-01T") && contains(w, "the failure was: flush: no room on the sink")
		})
		s.w.on("flush", nil)
		s.ready()
		b := s.b
		s.stop()
		if w := b.Status().WaitsFor; w != "nothing: it was stopped" {
			t.Errorf("after the end: %q", w)
		}
	})
}

// TestWaitsForBarrier: a barrier names the source, then the map tasks.
func TestWaitsForBarrier(t *testing.T) {
	h := &hub{waits: map[string]string{}, underWay: map[semantics.Epoch]*checkpointRun{8: {at: phaseAlign, since: time.Now().Add(-2 * notableAfter)}}}
	h.now.State = semantics.StateRunning
	h.tasks = make([]*mapTask, 4)
	h.aligning([]*source{{o: SourceOptions{Name: "east"}}, {o: SourceOptions{Name: "west"}}})
	h.barrierSent("west")
	if w := h.waitsFor(Status{}); w != "the barrier of epoch 8 at source east" {
		t.Errorf("%q", w)
	}
	h.barrierSent("east")
	h.taskAligned()
	if w := h.waitsFor(Status{}); w != "the map tasks to align the barrier of epoch 8 (1 of 4 have)" {
		t.Errorf("%q", w)
	}
	h.underWay[8].since = time.Now() // ordinary
	if w := h.waitsFor(Status{Sources: []SourceStatus{{Partitions: []PartitionStatus{{Lag: 7}}}}}); w != "nothing: records are moving, 7 offsets to go" {
		t.Errorf("%q", w)
	}
}
