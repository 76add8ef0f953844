package bridge

import (
	"errors"
	"testing"
	"time"

	"kafkabridge/semantics"
)

// TestSourcesAlign: three sources at different speeds, one of them idle, feed one sink. simWorld compares the positions of every epoch
// with the records that its transactions hold (I5): exactly what each source had handed over before the barrier.
func TestSourcesAlign(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Workers = 3
		s.o.Sources = []SourceOptions{{Name: "one", Topics: []string{"in"}, ReadCommitted: true}, {Name: "two", Topics: []string{"other"}, ReadCommitted: true},
			{Name: "idle", Topics: []string{"nothing"}, ReadCommitted: true}}
		s.w.on("write", takes(3*time.Millisecond))
		s.start()
		s.ready()
		fast, slow := s.feed("in", 20, 10*time.Millisecond), s.feed("other", 1, 170*time.Millisecond)
		for range 5 {
			s.after(2700 * time.Millisecond)
			s.w.breaks(errors.New("the leader is gone"))
			s.until("the next run", func() bool { return s.b.Status().Ready })
		}
		fast()
		slow()
		s.after(5 * time.Second)
		if n := s.w.count("append"); n < 10 {
			t.Errorf("%d epochs only", n)
		}
		c := s.w.checkpoint(s.b.Status().DecidedEpoch)
		for _, want := range []semantics.SourceTopic{{Source: "one", Topic: "in"}, {Source: "two", Topic: "other"}, {Source: "idle", Topic: "nothing"}} {
			for p := range int32(2) {
				at, ok := c.Positions.Get(want, p)
				if n := int64((s.made[want.Topic] + 1 - int(p)) / 2); !ok || at.Offset != n {
					t.Errorf("%v/%d stands at %v, %d were produced", want, p, at, n)
				}
			}
		}
		s.stop()
		s.once(plainly, "in", "other")
	}, "other", "nothing")
}

// TestSlowSinkHoldsTheSourceBack: a sink that is slower than the source delays barriers, and fails none.
func TestSlowSinkHoldsTheSourceBack(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.MaxInFlight = 1 << 20
		s.o.Checkpoint.Timeout = time.Minute
		s.w.on("write", takes(50*time.Millisecond))
		s.start()
		s.ready()
		stop := s.feed("in", 2, 20*time.Millisecond) // more than the sink takes
		s.after(8 * time.Second)
		stop()
		if st := s.b.Status(); st.Restarts != 0 {
			t.Errorf("%d restarts: %s", st.Restarts, st.LastFailure)
		}
		s.until("all is moved", func() bool { return len(s.w.seen()) == s.made["in"] })
		s.stop()
		s.once(plainly, "in")
	})
}
