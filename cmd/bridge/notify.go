package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"kafkabridge/bridge"
)

// Limits of what systemd is told.
const (
	stateEvery    = time.Second      // how soon it hears that the daemon is ready
	startExtended = time.Minute      // more time to get ready, asked for again and again while the daemon waits for a broker
	notifyGrace   = 2 * time.Second  // the last words; a supervisor that does not listen must not keep the process
	maxStatusText = 300              // bytes
	extendEvery   = 10 * time.Second // well below TimeoutStartSec
)

// notifier tells systemd how the daemon is: READY, STATUS, STOPPING, RELOADING, and WATCHDOG while alive says so. A nil notifier
// tells nobody. It knows no more than its functions, so that a test can be the daemon.
type notifier struct {
	log      hclog.Logger
	show     func() []bridge.Status
	alive    func() error
	send     func(state string) (bool, error)
	watchdog time.Duration // of the unit; 0: none

	words    chan word
	ready    bool // was said
	last     string
	extended time.Time
	failed   bool
}

// word is something to tell; when early is false it is for nobody before READY.
type word struct {
	text  string
	early bool
}

// newNotifier is nil without NOTIFY_SOCKET.
func newNotifier(d *daemon) *notifier {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	watchdog, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		d.log.Warn("systemd: WATCHDOG_USEC is not understood; there will be no watchdog messages", "error", err)
	}
	return &notifier{log: d.log.Named("systemd"), show: d.statuses, alive: d.alive, watchdog: watchdog, words: make(chan word, 4),
		send: func(state string) (bool, error) { return systemd.SdNotify(false, state) }}
}

// start begins; the function that it returns waits for the end, after finished was closed.
func (n *notifier) start(finished <-chan struct{}) (wait func()) {
	if n == nil {
		return func() {}
	}
	done := make(chan struct{})
	go n.run(finished, done)
	return func() {
		select {
		case <-done:
		case <-time.After(notifyGrace): // it hangs in a socket that nobody reads
		}
	}
}

func (n *notifier) run(finished <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	state := time.NewTicker(stateEvery)
	defer state.Stop()
	var beat <-chan time.Time
	if n.watchdog > 0 {
		t := time.NewTicker(n.watchdog / 2)
		defer t.Stop()
		beat = t.C
	}
	for {
		n.state()
		select {
		case <-state.C:
		case <-beat:
			n.beat()
		case w := <-n.words:
			n.say(w)
		case <-finished:
			for len(n.words) > 0 {
				n.say(<-n.words)
			}
			return
		}
	}
}

// beat keeps the watchdog quiet while the daemon works. It is silent when only a restart helps, which is the watchdog's trade.
func (n *notifier) beat() {
	if err := n.alive(); err != nil {
		n.log.Error("the watchdog is not told that all is well", "error", err)
		return
	}
	n.tell(systemd.SdNotifyWatchdog)
}

func (n *notifier) say(w word) {
	if n.ready || w.early {
		n.tell(w.text)
	}
}

// state tells what has changed. READY comes once, when all bridges run; until then a daemon that is alive asks for more time:
// without it systemd would end one that waits for a broker.
func (n *notifier) state() {
	ready, text := summary(n.show())
	if text != n.last {
		n.last = text
		n.tell("STATUS=" + text)
	}
	switch {
	case n.ready:
	case ready:
		n.ready = true
		n.tell(systemd.SdNotifyReady)
	case time.Since(n.extended) >= extendEvery && n.alive() == nil:
		n.extended = time.Now()
		n.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", startExtended.Microseconds()))
	}
}

// stopping tells that the final checkpoint is being made.
func (n *notifier) stopping() { n.post(word{systemd.SdNotifyStopping, true}) }

// reloading tells that the file is being read; the function that it returns tells the end.
func (n *notifier) reloading() (done func()) {
	n.post(word{systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec(), false})
	return func() { n.post(word{systemd.SdNotifyReady, false}) }
}

// post never waits: what does not fit is not told, and whoever wants to know asks /status.
func (n *notifier) post(w word) {
	if n == nil {
		return
	}
	select {
	case n.words <- w:
	default:
	}
}

func (n *notifier) tell(text string) {
	_, err := n.send(text)
	if err != nil && !n.failed {
		n.log.Warn("systemd cannot be told how the daemon is", "error", err)
	}
	n.failed = err != nil
}

// summary is the state of all bridges in one line of bounded length.
func summary(all []bridge.Status) (ready bool, line string) {
	ready = true
	var parts []string
	for _, s := range all {
		if s.Ready {
			parts = append(parts, s.Bridge+": running")
			continue
		}
		ready = false
		parts = append(parts, s.Bridge+": not ready: "+s.Reason)
	}
	// A line break would begin another message of systemd's, and an error's text may hold what others have written.
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.Join(parts, "; "))
	if len(line) > maxStatusText {
		line = strings.ToValidUTF8(line[:maxStatusText], "") + "…"
	}
	return ready, line
}

// statuses are those of all bridges.
func (d *daemon) statuses() []bridge.Status {
	var all []bridge.Status
	for _, a := range d.bridges {
		all = append(all, a.Status())
	}
	return all
}
