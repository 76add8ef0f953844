package bridge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"kafkabridge/semantics"
)

// TestAliveWhileWaiting: a bridge that waits for what can come by itself is not killed for it.
func TestAliveWhileWaiting(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.w.on("check", func(context.Context) error {
			return &semantics.Error{Class: semantics.Retry, Op: "check", Err: errors.New("the broker is away")}
		})
		s.start()
		s.after(time.Hour)
		if st := s.b.Status(); st.Ready || s.b.Alive() != nil {
			t.Errorf("waiting for a broker: ready %v, alive %v", st.Ready, s.b.Alive())
		}
		s.w.on("check", nil)
		s.ready()
		s.after(time.Hour)
		if err := s.b.Alive(); err != nil {
			t.Errorf("ready, and %v", err)
		}
		b := s.b
		s.stop()
		time.Sleep(time.Hour)
		if err := b.Alive(); err != nil {
			t.Errorf("it has ended, and %v", err)
		}
	})
}

// TestNotAliveWhenTheDriverStandsStill: somebody keeps the driver's goroutine.
func TestNotAliveWhenTheDriverStandsStill(t *testing.T) {
	inBubble(t, func(s *sim) {
		held, free := make(chan struct{}), make(chan struct{})
		var once sync.Once
		s.observe = func(Observation) { // the driver calls it
			once.Do(func() { close(held) })
			<-free
		}
		s.start()
		<-held
		time.Sleep(turnBound - time.Second)
		if err := s.b.Alive(); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(2 * time.Second)
		err := s.b.Alive()
		close(free)
		if err == nil || !contains(err.Error(), `bridge "b": the driver has stood still for`) {
			t.Errorf("it stands still, and %v", err)
		}
		s.ready()
		if err := s.b.Alive(); err != nil {
			t.Errorf("it turns again, and %v", err)
		}
		s.stop()
	})
}

// TestNotAliveWhenAHaltDoesNotEnd: what was cut off goes on for ever, so the bridge never recovers.
func TestNotAliveWhenAHaltDoesNotEnd(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		gate := make(chan struct{})
		s.w.on("save", func(context.Context) error { <-gate; return nil })
		s.produce("in", 10)
		s.until("the checkpoint is on its way", func() bool { return s.w.count("save") == 1 })
		s.w.breaks(errors.New("the leader is gone"))
		s.after(haltBound - 10*time.Second)
		if err := s.b.Alive(); err != nil {
			t.Errorf("too early: %v", err)
		}
		s.after(20 * time.Second)
		if err := s.b.Alive(); err == nil || !contains(err.Error(), "cut off has not ended for") {
			t.Errorf("it will never recover, and %v", err)
		}
		s.w.on("save", nil)
		close(gate)
		s.ready()
		if err := s.b.Alive(); err != nil {
			t.Errorf("it has recovered, and %v", err)
		}
		s.stop()
	})
}
