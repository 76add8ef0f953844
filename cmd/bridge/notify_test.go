package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/bridge"
)

// supervised is a notifier in virtual time, whose daemon the test is, with what systemd hears.
type supervised struct {
	n     *notifier
	log   bytes.Buffer // read it after the end
	ready atomic.Bool
	dead  atomic.Bool
	mu    sync.Mutex
	heard []string
	gate  <-chan struct{} // nil: whoever listens, listens
}

func newSupervised(watchdog time.Duration) *supervised {
	s := &supervised{}
	s.n = &notifier{log: hclog.New(&hclog.LoggerOptions{Output: &s.log}), watchdog: watchdog, words: make(chan word, 4),
		show: func() []bridge.Status {
			return []bridge.Status{{Bridge: "orders", Ready: true}, {Bridge: "other", Ready: s.ready.Load(), Reason: "the broker\nREADY=1\nis away"}}
		},
		alive: func() error {
			if s.dead.Load() {
				return errors.New("the driver has stood still")
			}
			return nil
		},
		send: func(state string) (bool, error) {
			s.mu.Lock()
			s.heard = append(s.heard, state)
			s.mu.Unlock()
			if s.gate != nil {
				<-s.gate
			}
			return true, nil
		}}
	return s
}

// count is how often systemd heard this message since the last call of count.
func (s *supervised) count(message string) (n int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.heard {
		if h == message {
			n++
		}
	}
	s.heard = slices.DeleteFunc(s.heard, func(h string) bool { return h == message })
	return n
}

// TestWatchdogFallsSilent: only a restart helps, and the restart is what silence asks for.
func TestWatchdogFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(4 * time.Second)
		finished := make(chan struct{})
		wait := s.n.start(finished)
		expect := func(when string, want int) {
			t.Helper()
			time.Sleep(20 * time.Second)
			if n := s.count("WATCHDOG=1"); n != want {
				t.Errorf("%s: %d messages in 20 s, want %d", when, n, want)
			}
		}
		time.Sleep(time.Millisecond) // between the ticks
		expect("waiting for a broker", 10)
		s.ready.Store(true)
		expect("ready", 10)
		s.dead.Store(true)
		expect("dead", 0)
		s.dead.Store(false)
		expect("alive again", 10)
		close(finished)
		wait()
		if !strings.Contains(s.log.String(), "[ERROR] the watchdog is not told that all is well: error=\"the driver has stood still\"") {
			t.Errorf("the log does not say why:\n%s", &s.log)
		}
	})
}

// TestReadyIsSaidOnce: when all bridges run, and until then there is more time only for who is alive.
func TestReadyIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(0)
		finished := make(chan struct{})
		wait := s.n.start(finished)
		expect := func(when string, ready, extended int) {
			t.Helper()
			if r, e := s.count("READY=1"), s.count("EXTEND_TIMEOUT_USEC=60000000"); r != ready || e != extended {
				t.Errorf("%s: READY %d times, EXTEND_TIMEOUT_USEC %d times, want %d and %d", when, r, e, ready, extended)
			}
		}
		s.n.reloading()() // nobody must hear READY for that
		time.Sleep(25 * time.Second)
		expect("waiting", 0, 3) // at 0, 10 and 20 s
		s.dead.Store(true)
		time.Sleep(30 * time.Second)
		expect("dead while waiting", 0, 0)
		s.dead.Store(false)
		s.ready.Store(true)
		time.Sleep(30 * time.Second)
		expect("ready", 1, 0)
		s.ready.Store(false)
		time.Sleep(30 * time.Second)
		s.ready.Store(true)
		time.Sleep(30 * time.Second)
		expect("a broker was away in between", 0, 0)
		s.n.reloading()()
		time.Sleep(time.Second)
		expect("the end of RELOADING", 1, 0)
		s.n.stopping()
		close(finished)
		wait()
		expect("the end", 0, 0)
		if last := s.heard[len(s.heard)-1]; last != "STOPPING=1" {
			t.Errorf("the last word is %q", last)
		}
		if n := s.count("STATUS=orders: running; other: not ready: the broker READY=1 is away"); n != 2 {
			t.Errorf("the state was told %d times, want when it changed: twice\n%q", n, s.heard)
		}
		if slices.ContainsFunc(s.heard, func(h string) bool { return h == "WATCHDOG=1" }) {
			t.Error("WATCHDOG without a watchdog")
		}
	})
}

// TestSupervisorThatDoesNotListen must not keep the process.
func TestSupervisorThatDoesNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(time.Second)
		gate := make(chan struct{})
		s.gate = gate
		finished := make(chan struct{})
		wait := s.n.start(finished)
		time.Sleep(time.Minute)
		for range 100 {
			s.n.stopping()
		}
		close(finished)
		began := time.Now()
		wait()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the end took %s", took)
		}
		close(gate)
	})
}

// TestNoSupervisor: without NOTIFY_SOCKET nothing is sent, and nothing runs.
func TestNoSupervisor(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "1000000")
	n := newNotifier(&daemon{log: hclog.NewNullLogger()})
	if n != nil {
		t.Fatalf("%+v", n)
	}
	wait := n.start(nil) // nil is never closed: it would wait for ever
	n.reloading()()
	n.stopping()
	wait()
}

func TestStatusTextIsBounded(t *testing.T) {
	_, line := summary([]bridge.Status{{Bridge: "orders", Reason: strings.Repeat("ä", 500)}})
	if want := "orders: not ready: " + strings.Repeat("ä", 140) + "…"; line != want { // 300 bytes end within a letter
		t.Errorf("%q, want %q", line, want)
	}
}
