package bridge

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestMapStateAcrossCrashes: a map that numbers the records of each partition is killed at every failpoint, again and again.
// Whatever was committed, replayed or thrown away, the numbers that a reader sees have neither gap nor double.
func TestMapStateAcrossCrashes(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Maps = []MapOptions{{Kind: "count"}}
		stop := s.feed("in", 7, 100*time.Millisecond)
		for round := range 4 {
			for _, point := range []string{"after-fence", "after-claim", "after-flush", "after-ledger-record", "after-persist", "after-commit"} {
				s.failAt(point, 1+round%3)
				s.start()
				select {
				case <-s.result:
				case <-time.After(20 * time.Second): // one claim a process: there is no second
					s.b.Stop()
					<-s.result
				}
				s.o.Workers = 1 + (s.o.Workers+1)%3 // the state goes to other map tasks
			}
		}
		s.fail = nil
		s.start()
		s.ready()
		stop()
		s.after(3 * time.Second)
		s.stop()
		if len(s.w.seen()) < 500 {
			t.Fatalf("%d records only", len(s.w.seen()))
		}
		s.once(func(i int) string { return fmt.Sprintf("#%d", i+1) }, "in")
	})
}

// failAt makes the next incarnation die at a failpoint, the nth time it comes there.
func (s *sim) failAt(point string, n int) {
	s.fail = func(operation string) {
		if operation != point {
			return
		}
		if n--; n == 0 {
			s.cancel(errors.New("killed at " + point))
			runtime.Goexit() // the dead answer nothing
		}
	}
}

// TestStateOfAnotherHistory: without the checkpoint that belongs to the ledger a stateful map cannot go on: exit 3.
func TestStateOfAnotherHistory(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Maps = []MapOptions{{Kind: "count"}}
		s.start()
		s.ready()
		s.produce("in", 10)
		s.after(3 * time.Second)
		s.stop()
		s.w.forget()
		s.start()
		err := s.ended()
		wantRefused(t, err, "state")
	})
}
