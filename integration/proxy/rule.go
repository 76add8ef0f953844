package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Action is what a rule does to a frame beyond its Delay and BytesPerSecond.
type Action int

const (
	// Pass lets the frame go on: to count, to delay, to throttle, to be called.
	Pass Action = iota
	// Hold keeps the frame, and what follows it on its connection in its direction, until the rule is removed. Then it
	// goes on, also when its sender is gone by then.
	Hold
	// Drop swallows the frame. The connection stays; clients that expect answers in order find out at the next one.
	Drop
	// Cut closes the frame's connection instead of handing the frame on: of an answer, the broker has done the work.
	Cut
)

// Rule says which frames something happens to, and what. Conditions that are left out hold for every frame.
type Rule struct {
	// Node is the broker's id.
	Node      int32
	Keys      []kmsg.Key
	Versions  []int16
	Direction Direction
	// Match sees the frame itself, see When. It is called by several goroutines at once.
	Match func(*Frame) bool
	// Skip lets so many matching frames pass before the rule acts: with Skip = n-1 and Times = 1 it acts on the n-th.
	Skip int
	// Times is how many frames the rule acts on; 0: every one until it is removed.
	Times int
	// For is how long after Add the rule removes itself; 0: it stays until Remove, Discard or Close.
	For time.Duration

	Action Action
	// Delay passes between the frame's arrival and its departure.
	Delay time.Duration
	// BytesPerSecond is the rate of all frames of the rule together; 0: no bound.
	BytesPerSecond int
	// Fired is called when the rule acts on a frame, before anything happens to the frame; the frame waits for its
	// return. It is called by several goroutines at once.
	Fired func(*Frame)
}

// Active is a rule in force. Its methods are safe for concurrent use.
type Active struct {
	rule    Rule
	network *Network
	timer   *time.Timer

	mu      sync.Mutex
	matched int
	fired   int
	changed chan struct{} // closed and replaced when fired grows
	link    time.Time     // when the throttled link is free
	once    sync.Once
	gone    chan struct{} // closed when the rule is removed
	discard bool          // written before gone is closed
}

func newActive(n *Network, r Rule) *Active {
	return &Active{rule: r, network: n, changed: make(chan struct{}), gone: make(chan struct{})}
}

// Remove ends the rule. What it holds goes on. It may be called twice.
func (a *Active) Remove() { a.remove(false) }

// Discard ends the rule and cuts the connections of the frames that it holds: they never arrive.
func (a *Active) Discard() { a.remove(true) }

func (a *Active) remove(discard bool) {
	a.once.Do(func() {
		a.network.forget(a)
		a.discard = discard
		close(a.gone)
		if a.timer != nil {
			a.timer.Stop()
		}
	})
}

// Count is the number of frames that the rule has acted on.
func (a *Active) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fired
}

// Wait returns when the rule has acted at least once.
func (a *Active) Wait(ctx context.Context) error { return a.WaitFor(ctx, 1) }

// WaitFor returns when the rule has acted on n frames.
func (a *Active) WaitFor(ctx context.Context, n int) error {
	for {
		a.mu.Lock()
		fired, changed := a.fired, a.changed
		a.mu.Unlock()
		if fired >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("proxy: the rule has acted on %d frames, not %d: %w", fired, n, context.Cause(ctx))
		}
	}
}

// takes reports whether the rule acts on the frame, and counts it.
func (a *Active) takes(f *Frame) bool {
	if !a.rule.covers(f) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.matched++
	if a.matched <= a.rule.Skip || a.rule.Times > 0 && a.fired >= a.rule.Times {
		return false
	}
	a.fired++
	close(a.changed)
	a.changed = make(chan struct{})
	return true
}

func (r *Rule) covers(f *Frame) bool {
	return (r.Node == 0 || r.Node == f.Node) &&
		(r.Direction == 0 || r.Direction == f.Direction) &&
		(len(r.Keys) == 0 || slices.Contains(r.Keys, f.Key)) &&
		(len(r.Versions) == 0 || slices.Contains(r.Versions, f.Version)) &&
		(r.Match == nil || r.Match(f))
}

// departs is when a frame that arrived at a moment may go on, and books its time on the throttled link.
func (a *Active) departs(arrived time.Time, size int) time.Time {
	at := arrived.Add(a.rule.Delay)
	if a.rule.BytesPerSecond == 0 {
		return at
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link.Before(at) {
		a.link = at
	}
	a.link = a.link.Add(time.Duration(size) * time.Second / time.Duration(a.rule.BytesPerSecond))
	return a.link
}
