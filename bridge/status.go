package bridge

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"kafkabridge/semantics"
)

// Status is what a bridge shows of itself: the document of GET /status and bridge status -o json.
type Status struct {
	Bridge      string `json:"bridge"`
	Semantic    string `json:"semantic"`
	Incarnation string `json:"incarnation"`
	State       string `json:"state"` // of the machine
	Ready       bool   `json:"ready"`
	Reason      string `json:"reason,omitempty"` // why not ready, in one sentence
	WaitsFor    string `json:"waits_for"`        // what it waits for now, ready or not, in one sentence; it may be nothing

	Epoch         semantics.Epoch `json:"epoch"` // open one; 0: none
	DecidedEpoch  semantics.Epoch `json:"decided_epoch"`
	LastDecidedMs int64           `json:"last_decided_ms"` // Unix milliseconds; 0: none in this run
	// CheckpointBytes is the size of the newest checkpoint in the state directory; 0: none, or there is no such directory.
	CheckpointBytes int64 `json:"checkpoint_bytes"`

	Transaction Transactions `json:"transaction"`

	Restarts         int64            `json:"restarts"` // recoveries inside this process after a failure
	LastFailure      string           `json:"last_failure,omitempty"`
	LastFailureMs    int64            `json:"last_failure_ms"` // Unix milliseconds; 0: none
	Recoveries       map[string]int64 `json:"recoveries"`      // by outcome
	Recovery         *RecoveryStatus  `json:"recovery,omitempty"`
	RecentRecoveries []RecoveryStatus `json:"recent_recoveries"` // the last ones, newest last
	Replayed         int64            `json:"replayed_records"`  // records read again because their transaction was aborted

	Checkpoints       map[string]int64   `json:"checkpoints"`        // by result
	RecentCheckpoints []CheckpointStatus `json:"recent_checkpoints"` // the last ones, newest last; then what is under way

	Sources []SourceStatus `json:"sources"`
	Chain   []string       `json:"chain"` // the maps' kinds in order
	Sink    string         `json:"sink"`  // the sink block's name
	Maps    MapStats       `json:"maps"`  // since the process began, all map tasks
	Gaps    int64          `json:"gaps"`
	Waiting []string       `json:"waiting,omitempty"` // whatever waits, with its reason
}

// Transactions are the open and the prepared transaction of EXACTLY_ONCE. Ages are in seconds; 0: the broker's clock does not run yet.
type Transactions struct {
	Open        string  `json:"open,omitempty"`
	OpenAge     float64 `json:"open_age_seconds"`
	OpenSecs    float64 `json:"open_seconds"` // the age of the older of the two
	Prepared    string  `json:"prepared,omitempty"`
	PreparedAge float64 `json:"prepared_age_seconds"`
	TimeoutSec  float64 `json:"timeout_seconds"`
	// Budget is for how many seconds from now the bridge may be down before what it has prepared, or would prepare now, must be read
	// again instead of committed; nil without transactions, and before the stored checkpoints are known.
	Budget *float64 `json:"downtime_budget_seconds,omitempty"`
}

// RecoveryStatus is what one recovery found and did.
type RecoveryStatus struct {
	Outcome  string          `json:"outcome"`
	Epoch    semantics.Epoch `json:"epoch"`
	Reason   string          `json:"reason"`
	AtMs     int64           `json:"at_ms"` // Unix milliseconds
	Replayed int64           `json:"replayed_records"`
}

// CheckpointStatus is one checkpoint with the time of each phase in seconds.
type CheckpointStatus struct {
	Epoch    semantics.Epoch `json:"epoch"`
	Result   string          `json:"result"`    // decided | failed | empty while under way
	OpenedMs int64           `json:"opened_ms"` // the epoch, Unix milliseconds; under EXACTLY_ONCE not before its first batch
	BeganMs  int64           `json:"began_ms"`  // the barrier, Unix milliseconds
	Align    float64         `json:"align_seconds"`
	Flush    float64         `json:"flush_seconds"`
	Persist  float64         `json:"persist_seconds"`
	Commit   float64         `json:"commit_seconds"`
}

// Observation is something that metrics count. Exactly one of Checkpoint, Recovery and Restart is set.
type Observation struct {
	Checkpoint *CheckpointStatus
	Recovery   *semantics.Recovery
	Took       time.Duration // of a recovery: since the start or the failure before it
	Restart    error
}

// phase is a part of a checkpoint.
type phase uint8

const (
	phaseAlign phase = iota
	phaseFlush
	phasePersist
	phaseCommit
	phases
)

// checkpointRun is a checkpoint under way.
type checkpointRun struct {
	opened time.Time // its epoch
	began  time.Time
	at     phase
	since  time.Time
	took   [phases]time.Duration
}

// What a status holds at most.
const (
	recentCheckpoints = 20
	recentRecoveries  = 10
)

// hub collects what the driver does, for Status and metrics. All methods are safe from any goroutine.
type hub struct {
	b *Bridge

	mu             sync.Mutex
	now            semantics.Progress
	recovering     time.Time // when the last recovery began
	openedAt       time.Time // of the open epoch
	outAtOpen      int64     // batches written before it
	preparedAt     time.Time // when the committing one was opened
	lastDecided    time.Time
	restarts       int64
	lastFailure    string
	failedAt       time.Time // of lastFailure
	exit           string
	recoveries     map[string]int64
	lastRecoveries []RecoveryStatus // the last ones, newest last
	replayed       int64
	results        map[string]int64
	recent         []CheckpointStatus
	underWay       map[semantics.Epoch]*checkpointRun
	tasks          []*mapTask
	past           MapStats // of earlier runs
	waits          map[string]string
	unsent         map[string]bool // sources that have not sent the barrier under way
	aligned        int             // map tasks that have aligned it
	loadedOnce     bool            // the stored checkpoints are known
	pending        time.Time       // until when the broker keeps what a recovery has to settle; zero: nothing is to be settled
}

func (h *hub) init(b *Bridge) {
	h.b = b
	h.recoveries, h.results = map[string]int64{}, map[string]int64{}
	h.underWay, h.waits = map[semantics.Epoch]*checkpointRun{}, map[string]string{}
}

// progress takes over where the machine stands.
func (h *hub) progress(p semantics.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.recovering.IsZero() || h.now.State == semantics.StateRunning && p.State != semantics.StateRunning {
		h.recovering = time.Now()
	}
	if p.Committing != h.now.Committing {
		h.preparedAt = h.openedAt
	}
	switch {
	case p.Epoch != h.now.Epoch || p.State != h.now.State:
		h.openedAt, h.outAtOpen = time.Now(), h.batchesOut()
	case !p.Open.IsZero() && h.batchesOut() == h.outAtOpen:
		// The broker's clock starts with the first partition of the transaction: after an idle hour a new one is not an hour old. The
		// driver comes here every pollInterval, so this is never later than the first batch.
		h.openedAt = time.Now()
	}
	h.now = p
}

// batchesOut is how many batches this run has written. The caller holds mu.
func (h *hub) batchesOut() (n int64) {
	for _, t := range h.tasks {
		n += t.stats().BatchesOut
	}
	return n
}

// waiting shows the reason why something waits; "" ends it.
func (h *hub) waiting(what, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reason == "" {
		delete(h.waits, what)
		return
	}
	h.waits[what] = reason
}

// phase notes that a checkpoint has entered a phase.
func (h *hub) phase(n semantics.Epoch, at phase) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	c := h.underWay[n]
	if c == nil || at == phaseAlign {
		c = &checkpointRun{opened: h.openedAt, began: now, since: now}
		h.underWay[n] = c
	}
	c.took[c.at] += now.Sub(c.since)
	c.at, c.since = at, now
}

// decided notes it and returns how long the barrier took until everything was flushed.
func (h *hub) decided(a semantics.Publish) time.Duration {
	h.mu.Lock()
	h.lastDecided = time.Now()
	h.mu.Unlock()
	c := h.finish(a.Epoch, "decided")
	h.b.log.Debug("checkpoint decided", "epoch", a.Epoch, "align", c.Align, "flush", c.Flush, "persist", c.Persist, "commit", c.Commit)
	return time.Duration((c.Align + c.Flush) * float64(time.Second))
}

// checkpointFailed counts a failure that is tolerated. The barrier is still on its way, and still overdue.
func (h *hub) checkpointFailed(n semantics.Epoch) {
	h.mu.Lock()
	s := h.note(n, "failed")
	h.mu.Unlock()
	h.b.p.Observe(Observation{Checkpoint: &s})
}

// idle forgets a barrier that found nothing to do.
func (h *hub) idle(n semantics.Epoch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.underWay, n)
}

func (h *hub) finish(n semantics.Epoch, result string) CheckpointStatus {
	h.mu.Lock()
	s := h.note(n, result)
	delete(h.underWay, n)
	h.mu.Unlock()
	h.b.p.Observe(Observation{Checkpoint: &s})
	return s
}

// note adds a result. The caller holds mu.
func (h *hub) note(n semantics.Epoch, result string) CheckpointStatus {
	now := time.Now()
	c := h.underWay[n]
	if c == nil {
		c = &checkpointRun{opened: now, began: now, since: now}
	}
	c.took[c.at] += now.Sub(c.since)
	c.since = now
	s := c.status(n, result)
	h.results[result]++
	h.recent = keepLast(h.recent, s, recentCheckpoints)
	return s
}

func (c checkpointRun) status(n semantics.Epoch, result string) CheckpointStatus {
	return CheckpointStatus{
		Epoch: n, Result: result, OpenedMs: c.opened.UnixMilli(), BeganMs: c.began.UnixMilli(),
		Align: c.took[phaseAlign].Seconds(), Flush: c.took[phaseFlush].Seconds(),
		Persist: c.took[phasePersist].Seconds(), Commit: c.took[phaseCommit].Seconds(),
	}
}

// keepLast appends v to a list that holds at most limit.
func keepLast[T any](list []T, v T, limit int) []T {
	if len(list) == limit {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, v)
}

// failed notes a failure and the checkpoints that it cut off. A fatal one ends the bridge: no restart follows.
func (h *hub) failed(err error) {
	fatal := semantics.ClassOf(err) == semantics.Fatal
	h.mu.Lock()
	if !fatal {
		h.restarts++
	}
	h.lastFailure, h.failedAt = err.Error(), time.Now()
	cut := slices.Sorted(maps.Keys(h.underWay))
	h.mu.Unlock()
	for _, n := range cut {
		h.finish(n, "failed")
	}
	if !fatal {
		h.b.p.Observe(Observation{Restart: err})
	}
}

func (h *hub) recovered(r semantics.Recovery) {
	h.mu.Lock()
	h.recoveries[string(r.Outcome)]++
	s := RecoveryStatus{Outcome: string(r.Outcome), Epoch: r.Epoch, Reason: r.Reason, AtMs: time.Now().UnixMilli(), Replayed: distance(r.From, r.To)}
	h.lastRecoveries = keepLast(h.lastRecoveries, s, recentRecoveries)
	h.replayed += s.Replayed
	h.pending = time.Time{}
	took := time.Since(h.recovering)
	h.mu.Unlock()
	h.b.p.Observe(Observation{Recovery: &r, Took: took})
}

// distance is how many offsets lie between two positions.
func distance(from, to semantics.Positions) (n int64) {
	for t, tp := range to {
		for p, pos := range tp.Partitions {
			if a, ok := from.Get(t, p); ok {
				n += max(0, pos.Offset-a.Offset)
			}
		}
	}
	return n
}

// running takes the map tasks of a new run; the counters of the last one are kept.
func (h *hub) running(tasks []*mapTask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tasks {
		h.past.add(t.stats())
	}
	h.tasks = tasks
}

func (h *hub) exited(e *semantics.Exit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.exit = "stopped"
	if e.Err != nil {
		h.exit = e.Err.Error()
	}
}

// add sums up; s is the receiver's own.
func (s *MapStats) add(o MapStats) {
	s.RecordsIn += o.RecordsIn
	s.BytesIn += o.BytesIn
	s.RecordsCut += o.RecordsCut
	s.RecordsDropped += o.RecordsDropped
	s.Rejected += o.Rejected
	s.DeadLetters += o.DeadLetters
	addErrors(&s.MapErrors, o.MapErrors)
	s.RecordsOut += o.RecordsOut
	s.BytesOut += o.BytesOut
	s.BatchesOut += o.BatchesOut
	s.Untouched += o.Untouched
	if s.Reencoded == nil {
		s.Reencoded = map[string]int64{}
	}
	for k, v := range o.Reencoded {
		s.Reencoded[k] += v
	}
	if s.DroppedBy == nil {
		s.DroppedBy = map[string]int64{}
	}
	for k, v := range o.DroppedBy {
		s.DroppedBy[k] += v
	}
}

// Status returns the state now. Safe from any goroutine, also before Run and after it.
func (b *Bridge) Status() Status {
	s := b.hub.status()
	for _, src := range b.sources {
		st := src.status()
		s.Sources = append(s.Sources, st)
		s.Gaps += st.GapCount
		for _, w := range st.Waiting {
			s.Waiting = append(s.Waiting, fmt.Sprintf("source %s: %s", st.Name, w))
		}
	}
	s.Reason = b.hub.unready(s)
	s.Ready = s.Reason == ""
	s.WaitsFor = b.hub.waitsFor(s)
	if sized, ok := b.p.Store.(Sized); ok {
		s.CheckpointBytes = sized.Size()
	}
	return s
}

func (h *hub) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Status{
		Bridge: h.b.o.Name, Semantic: h.b.o.Semantic.String(), Incarnation: h.b.p.Incarnation, State: h.now.State.String(),
		Epoch: h.now.Epoch, DecidedEpoch: h.now.Decided, Restarts: h.restarts, LastFailure: h.lastFailure,
		Recoveries: maps.Clone(h.recoveries), RecentRecoveries: slices.Clone(h.lastRecoveries), Replayed: h.replayed,
		Checkpoints: maps.Clone(h.results), RecentCheckpoints: append(slices.Clone(h.recent), h.checkpointsUnderWay()...),
		Transaction: h.transactions(), Chain: []string{}, Sink: h.b.o.Sink.Name,
	}
	if !h.lastDecided.IsZero() {
		s.LastDecidedMs = h.lastDecided.UnixMilli()
	}
	if !h.failedAt.IsZero() {
		s.LastFailureMs = h.failedAt.UnixMilli()
	}
	if n := len(s.RecentRecoveries); n > 0 {
		s.Recovery = &s.RecentRecoveries[n-1]
	}
	for _, m := range h.b.o.Maps {
		s.Chain = append(s.Chain, m.Kind)
	}
	s.Transaction.Budget = h.budget(s.Transaction.OpenSecs)
	s.Maps.add(h.past)
	for _, t := range h.tasks {
		s.Maps.add(t.stats())
	}
	for _, what := range slices.Sorted(maps.Keys(h.waits)) {
		s.Waiting = append(s.Waiting, what+": "+h.waits[what])
	}
	return s
}

// transactions are the open and the prepared one. The caller holds mu.
func (h *hub) transactions() Transactions {
	t := Transactions{TimeoutSec: h.b.o.TransactionTimeout.Seconds()}
	if !h.now.Open.IsZero() {
		t.Open = h.now.Open.String()
		if h.batchesOut() > h.outAtOpen { // the broker's clock starts with the first partition of the transaction
			t.OpenAge = time.Since(h.openedAt).Seconds()
		}
	}
	t.OpenSecs = t.OpenAge
	if !h.now.Prepared.IsZero() {
		t.Prepared, t.PreparedAge = h.now.Prepared.String(), time.Since(h.preparedAt).Seconds()
		t.OpenSecs = t.PreparedAge
	}
	return t
}

// checkpointsUnderWay are those without a result, with the time of their phases until now. The caller holds mu.
func (h *hub) checkpointsUnderWay() (list []CheckpointStatus) {
	for _, n := range slices.Sorted(maps.Keys(h.underWay)) {
		c := *h.underWay[n]
		c.took[c.at] += time.Since(c.since)
		list = append(list, c.status(n, ""))
	}
	return list
}

// loaded takes over what the store holds: a recovery settles the newest checkpoint, if it is proposed.
func (h *hub) loaded(all []semantics.Checkpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loadedOnce, h.pending = true, time.Time{}
	if len(all) > 0 {
		h.pending = PreparedUntil(all[len(all)-1])
	}
}

// PreparedUntil is until when the broker keeps the transaction of a checkpoint that is proposed, at least; zero for any other. When
// the transaction began is not always known: then no time is promised beyond that of the save.
func PreparedUntil(c semantics.Checkpoint) time.Time {
	switch {
	case c.Status != semantics.Proposed || c.Transaction.IsZero() || c.Empty:
		return time.Time{}
	case c.StartedMs <= 0:
		return time.UnixMilli(c.SavedMs)
	default:
		return time.UnixMilli(c.StartedMs + c.TimeoutMs)
	}
}

// budget is Transactions.Budget; openFor is the age of the oldest transaction of this run in seconds. The caller holds mu.
func (h *hub) budget(openFor float64) *float64 {
	if h.b.o.Semantic != semantics.ExactlyOnce || !h.loadedOnce {
		return nil
	}
	left := h.b.o.TransactionTimeout.Seconds() - openFor
	if !h.pending.IsZero() {
		left = min(left, time.Until(h.pending).Seconds())
	}
	left = max(0, left)
	return &left
}

// unready says in one sentence why the bridge is not ready; empty when it is.
func (h *hub) unready(s Status) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	because := ""
	if len(s.Waiting) > 0 {
		because = ": " + s.Waiting[0]
	} else if h.lastFailure != "" {
		because = "; the last failure was: " + h.lastFailure
	}
	switch {
	case h.exit != "":
		return h.exit
	case h.now.Blocked != "":
		return h.now.Blocked
	case h.now.State != semantics.StateRunning:
		return "the bridge is " + h.now.State.String() + because
	}
	// A process that is green and moves nothing is the worst of all: a source that does not answer is not ready, nor is a
	// barrier that is overdue.
	for _, src := range s.Sources {
		if src.Stuck != "" {
			return fmt.Sprintf("source %s: %s", src.Name, src.Stuck)
		}
	}
	for n, c := range h.underWay {
		if late := time.Since(c.began); late > h.b.o.Checkpoint.Timeout+time.Second {
			return fmt.Sprintf("checkpoint %d has been under way for %s%s", n, late.Round(time.Second), because)
		}
	}
	return ""
}
