package bridge

import (
	"testing"
	"time"

	"kafkabridge/semantics"
)

func groupBridge(s *sim) {
	s.noStore = true
	s.o.Semantic, s.o.Ledger, s.o.TransactionalIDs = semantics.AtLeastOnce, false, nil
	s.o.Checkpoint.Enabled = false
	s.o.Sources[0].Group = "g"
}

// TestGroupOffsetsAreTheProgress: a clean stop doubles nothing, a crash loses nothing.
func TestGroupOffsetsAreTheProgress(t *testing.T) {
	inBubble(t, func(s *sim) {
		groupBridge(s)
		for range 3 {
			s.start()
			s.ready()
			s.produce("in", 10)
			s.after(3 * time.Second)
			s.stop()
		}
		s.once(plainly, "in")
		before := len(s.w.seen())
		s.start()
		s.ready()
		s.produce("in", 10)
		s.until("written", func() bool { return len(s.w.seen()) == before+10 })
		s.crash() // before a barrier
		s.start()
		s.ready()
		s.after(3 * time.Second)
		s.stop()
		if n := len(s.w.seen()); n != before+20 {
			t.Errorf("%d records, want the last ten twice: %d", n, before+20)
		}
	})
}

// TestGroupHoldsTheStartPositions: start = "latest", and a crash before the first barrier; what came after the start is not passed over.
func TestGroupHoldsTheStartPositions(t *testing.T) {
	inBubble(t, func(s *sim) {
		groupBridge(s)
		s.o.Sources[0].Start = Start{At: StartLatest}
		s.start()
		s.ready()
		s.crash() // before a barrier
		s.produce("in", 10)
		s.start()
		s.ready()
		s.after(3 * time.Second)
		s.stop()
		s.once(plainly, "in")
	})
}

// TestGroupOffsetsThatAreNotAcknowledged are no checkpoint: the run fails and is tried again, and nothing is lost.
func TestGroupOffsetsThatAreNotAcknowledged(t *testing.T) {
	inBubble(t, func(s *sim) {
		groupBridge(s)
		s.start()
		s.ready()
		refuseOffsetCommits(s.cluster)
		s.produce("in", 10)
		s.until("the run failed", func() bool { return s.b.Status().Restarts > 0 })
		// 1 is the start positions.
		if st := s.b.Status(); st.DecidedEpoch > 1 || st.Checkpoints["decided"] != 0 {
			t.Errorf("decided epoch %d, checkpoints %v", st.DecidedEpoch, st.Checkpoints)
		}
	})
}

// TestGroupStoreKeepsWhatItFollows: a restart inside the process must not take a ledger of an EXACTLY_ONCE past for newer.
func TestGroupStoreKeepsWhatItFollows(t *testing.T) {
	inBubble(t, func(s *sim) {
		src := newSource(SourceOptions{Name: srcName, Topics: []string{"in"}, Group: "g"}, s.cl, s.log(), 0)
		g := &groupStore{sources: []*source{src}, semantic: semantics.AtLeastOnce}
		tx := semantics.Transaction{ID: "b-0", ProducerID: 7, ProducerEpoch: 3, EndTxnVersion: 5}
		if err := g.Save(semantics.Checkpoint{Epoch: 9, Positions: at("in", 5, 6), Follows: tx}); err != nil {
			t.Fatal(err)
		}
		all, err := g.Load()
		if err != nil || len(all) != 1 {
			t.Fatalf("%v %v", all, err)
		}
		c := all[0]
		if c.Epoch != 9 || c.Follows != tx || c.Status != semantics.Decided || c.Semantic != semantics.AtLeastOnce ||
			offsetOf(c.Positions, "in", 0) != 5 || offsetOf(c.Positions, "in", 1) != 6 {
			t.Errorf("%+v", c)
		}
	})
}
