package bridge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// near says whether two moments differ by no more than a poll.
func near(a, b time.Duration) bool { return (a - b).Abs() <= 2*pollInterval }

// TestBarrierAtAFixedRate: a slow flush does not stretch the interval.
func TestBarrierAtAFixedRate(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.w.on("flush", takes(300*time.Millisecond))
		s.start()
		s.ready()
		stop := s.feed("in", 4, 50*time.Millisecond)
		s.after(10 * time.Second)
		at := s.w.times("flush")
		if len(at) < 9 || len(at) > 10 {
			t.Fatalf("%d barriers in 10 s", len(at))
		}
		for i := range at[1:] {
			if !near(at[i+1]-at[i], time.Second) {
				t.Errorf("%v between two barriers, want 1 s: %v", at[i+1]-at[i], at)
			}
		}
		stop()
		s.after(3 * time.Second)
		s.once(plainly, "in")
		s.stop()
	})
}

// TestMinPause counts from the decision, however late that comes.
func TestMinPause(t *testing.T) {
	for _, commit := range []time.Duration{10 * time.Millisecond, 400 * time.Millisecond, 1700 * time.Millisecond} {
		inBubble(t, func(s *sim) {
			s.o.Checkpoint.MinPause = 3 * time.Second
			s.o.Checkpoint.MaxRecords = 20
			s.start()
			s.ready()
			s.w.on("commit", takes(commit))
			stop := s.feed("in", 4, 50*time.Millisecond)
			s.after(20 * time.Second)
			stop()
			flush, decide := s.w.times("flush"), s.w.times("decide")
			if len(flush) < 4 {
				t.Fatalf("%d barriers in 20 s: %v", len(flush), flush)
			}
			for i := range min(len(flush)-1, len(decide)) {
				if pause := flush[i+1] - decide[i]; pause < 3*time.Second || pause > 3*time.Second+2*pollInterval {
					t.Errorf("commit takes %v: %v from a decision to the next barrier, want 3 s", commit, pause)
				}
			}
		})
	}
}

// TestMaxRecordsStartsABarrier long before the interval is over.
func TestMaxRecordsStartsABarrier(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Checkpoint.Interval, s.o.Checkpoint.MaxRecords = 30*time.Second, 100
		s.start()
		s.ready()
		s.produce("in", 99)
		s.after(5 * time.Second)
		if s.w.count("flush") != 0 {
			t.Error("a barrier after 99 of 100 records")
		}
		s.produce("in", 1)
		began := s.w.now()
		s.until("a barrier", func() bool { return s.w.count("flush") == 1 })
		if took := s.w.now() - began; took > time.Second {
			t.Errorf("the barrier came %v after the 100th record", took)
		}
		s.produce("in", 99)
		s.after(5 * time.Second)
		if n := s.w.count("flush"); n != 1 {
			t.Errorf("%d barriers: the records before the first one were counted again", n)
		}
		s.stop()
		s.once(plainly, "in")
	})
}

// TestNoBarrierWhileUndecided: epoch 2 fills while epoch 1 is being committed, and its barrier waits for that.
func TestNoBarrierWhileUndecided(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Checkpoint.MaxRecords = 50
		s.start()
		s.ready()
		s.w.on("commit", takes(5*time.Second))
		s.produce("in", 10)
		s.until("epoch 1 is being committed", func() bool { return s.w.count("commit") == 2 }) // the claim's was the first
		committing, written := s.w.now(), s.w.count("write")
		s.produce("in", 60)
		s.after(4 * time.Second)
		if s.w.count("flush") != 1 || s.w.count("write") == written {
			t.Errorf("while epoch 1 was undecided: %d barriers, %d batches written (before: %d)", s.w.count("flush"), s.w.count("write"), written)
		}
		s.until("the next barrier", func() bool { return s.w.count("flush") == 2 })
		if at := s.w.now() - committing; !near(at, 5*time.Second) {
			t.Errorf("the next barrier came %v after the commit was asked for, the decision after 5 s", at)
		}
		s.w.on("commit", nil)
		s.stop()
		s.once(plainly, "in")
	})
}

// TestCheckpointTimeout: two barriers that time out are tolerated, the third is not; meanwhile the bridge is not ready.
func TestCheckpointTimeout(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Checkpoint.TolerableFailures = 2
		s.start()
		s.ready()
		s.w.on("flush", hang)
		s.produce("in", 10)
		s.until("the barrier", func() bool { return s.w.count("flush") == 1 })
		s.after(2500 * time.Millisecond)
		if st := s.b.Status(); st.Restarts != 0 || st.Checkpoints["failed"] != 1 {
			t.Errorf("after 2.5 s: %d restarts, checkpoints %v", st.Restarts, st.Checkpoints)
		}
		s.after(1 * time.Second)
		if st := s.b.Status(); st.Ready || !contains(st.Reason, "under way") {
			t.Errorf("after 3.5 s a barrier is overdue: ready %v, reason %q", st.Ready, st.Reason)
		}
		s.after(2 * time.Second)
		if st := s.b.Status(); st.Restarts != 0 || st.Checkpoints["failed"] != 2 || st.Ready {
			t.Errorf("after 5.5 s: %d restarts, checkpoints %v, ready %v", st.Restarts, st.Checkpoints, st.Ready)
		}
		s.w.on("flush", nil) // of the next run
		s.after(time.Second)
		if st := s.b.Status(); st.Restarts != 1 || !contains(st.LastFailure, "checkpoint.timeout") {
			t.Errorf("after 6.5 s: %d restarts, last failure %q", st.Restarts, st.LastFailure)
		}
		s.after(5 * time.Second)
		if st := s.b.Status(); !st.Ready {
			t.Errorf("it did not recover: %s", st.Reason)
		}
		s.stop()
		s.once(plainly, "in")
	})
}

// TestIdleEpoch keeps its number, its transaction and its id, and costs neither a ledger record nor a checkpoint.
func TestIdleEpoch(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		before := s.b.Status()
		s.after(20 * time.Second)
		st := s.b.Status()
		if n := s.w.count("flush"); n < 19 {
			t.Errorf("%d barriers in 20 s", n)
		}
		if s.w.count("append")+s.w.count("save")+s.w.count("refresh") != 0 || s.w.count("begin") != 2 { // the claim and epoch 1
			t.Errorf("an idle bridge made something: %v", s.w.tail())
		}
		if st.Epoch != 1 || st.Transaction.Open != before.Transaction.Open || !st.Ready {
			t.Errorf("epoch %d, transaction %q (was %q), ready %v", st.Epoch, st.Transaction.Open, before.Transaction.Open, st.Ready)
		}
		s.produce("in", 3)
		s.after(3 * time.Second)
		if c := s.w.checkpoint(1); c.Transaction.String() != before.Transaction.Open {
			t.Errorf("epoch 1 ran in %s, opened was %s", c.Transaction, before.Transaction.Open)
		}
		s.stop()
		s.once(plainly, "in")
	})
}

// TestWriterFailureIsToldAtOnce and not at the next barrier.
func TestWriterFailureIsToldAtOnce(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Checkpoint.Interval = 40 * time.Second
		s.start()
		s.ready()
		s.produce("in", 10)
		s.until("written", func() bool { return s.w.count("write") > 0 })
		s.w.breaks(errors.New("the leader is gone"))
		s.after(2 * time.Second)
		if st := s.b.Status(); st.Restarts != 1 || !contains(st.LastFailure, "the leader is gone") || !st.Ready {
			t.Errorf("%d restarts, last failure %q, ready %v", st.Restarts, st.LastFailure, st.Ready)
		}
		s.stop()
		s.once(plainly, "in")
	})
}

// TestWindowFollows: a run without a decided epoch lets less be in flight, epochs that are flushed in no time let it grow again.
func TestWindowFollows(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.MaxInFlight = 32 << 20
		failures := 0
		s.w.on("flush", func(context.Context) error {
			if failures++; failures <= 2 {
				return errors.New("the sink is too slow")
			}
			return nil
		})
		stop := s.feed("in", 4, 50*time.Millisecond)
		s.start()
		s.until("both runs have failed", func() bool { return s.b.Status().Restarts == 2 })
		if got := s.b.window.bytes(); got != 2<<20 { // a quarter of a quarter
			t.Errorf("%d bytes may be in flight", got)
		}
		s.until("epochs are decided", func() bool { return s.w.count("decide") >= 4 })
		if got := s.b.window.bytes(); got != 32<<20 {
			t.Errorf("%d bytes may be in flight after quick epochs", got)
		}
		stop()
		s.after(5 * time.Second) // the last records are fetched and decided
		s.stop()
		s.once(plainly, "in")
	})
}

// heldWriter keeps every batch until it is told to let go.
type heldWriter struct {
	Writer
	mu     sync.Mutex
	held   []batch.Outbound
	failed chan struct{}
}

func (w *heldWriter) Write(_ context.Context, b batch.Outbound) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, b)
	return nil
}

func (w *heldWriter) Failed() <-chan struct{} { return w.failed }

func (w *heldWriter) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// TestWindowHoldsBack: what exceeds the window waits for a release, is given back when the run ends, and a single large batch passes.
func TestWindowHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &heldWriter{failed: make(chan struct{})}
		w := newWindowWriter(held, newWindow(Options{MaxInFlight: 100, Checkpoint: CheckpointOptions{Timeout: time.Second}}))
		released := 0
		of := func(n int) batch.Outbound {
			return batch.Outbound{Raw: make([]byte, n), Release: func() { released++ }}
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := w.Write(ctx, of(500)); err != nil { // alone
			t.Fatal(err)
		}
		var third error
		go func() {
			if err := w.Write(ctx, of(60)); err != nil {
				t.Error(err)
			}
			third = w.Write(ctx, of(60))
		}()
		synctest.Wait()
		if held.count() != 1 {
			t.Fatalf("%d batches passed while the window was full", held.count())
		}
		held.held[0].Release()
		synctest.Wait()
		if held.count() != 2 {
			t.Fatalf("%d batches passed, want the second and not the third", held.count())
		}
		cancel()
		synctest.Wait()
		if third == nil || released != 2 {
			t.Errorf("the third: %v, %d released", third, released)
		}
	})
}

// TestWindow: the bounds, by hand: 32 MiB, a limit of 8 s.
func TestWindow(t *testing.T) {
	w := newWindow(Options{Semantic: semantics.ExactlyOnce, MaxInFlight: 32 << 20, TransactionTimeout: 8 * time.Second, Checkpoint: CheckpointOptions{Timeout: 10 * time.Second}})
	for i, c := range []struct {
		change func() bool
		bytes  int64
		moved  bool
	}{
		{w.failed, 8 << 20, true},
		{func() bool { return w.flushed(5 * time.Second) }, 4 << 20, true},  // more than half of the limit
		{func() bool { return w.flushed(3 * time.Second) }, 4 << 20, false}, // between an eighth and a half
		{func() bool { return w.flushed(time.Second / 2) }, 8 << 20, true},  // time to spare
		{func() bool { return w.flushed(time.Second / 2) }, 16 << 20, true},
		{func() bool { return w.flushed(time.Second / 2) }, 32 << 20, true},
		{func() bool { return w.flushed(time.Second / 2) }, 32 << 20, false}, // never above MaxInFlight
	} {
		if moved := c.change(); moved != c.moved || w.bytes() != c.bytes {
			t.Errorf("step %d: %d bytes, moved %v; want %d, %v", i, w.bytes(), moved, c.bytes, c.moved)
		}
	}
	for range 20 {
		w.failed()
	}
	if w.bytes() != 256<<10 || w.count.Load() != leastCount {
		t.Errorf("shrinks to %d bytes, %d batches", w.bytes(), w.count.Load())
	}
}
