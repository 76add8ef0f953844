package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
	"kafkabridge/txn"
)

type recoverCommand struct {
	fileFlag
	formatFlag
	Plan bool `help:"Show what was found and what run would do. Nothing is changed."`
}

// Run shows the plan of every bridge. Its exit code is 0 also where run would refuse: the plan says so.
func (c *recoverCommand) Run(env environment) error {
	if !c.Plan {
		return &usageError{errors.New("recover only plans, run recovers: say --plan")}
	}
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	ctx, release := env.looking()
	defer release()
	plans := []plan{}
	for _, b := range file.Bridges {
		p, err := planBridge(ctx, env, file, b)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	if c.Output == "json" {
		return writeJSON(env.stdout, struct {
			Bridges []plan `json:"bridges"`
		}{plans})
	}
	for i, p := range plans {
		if i > 0 {
			_, _ = fmt.Fprintln(env.stdout)
		}
		if err := p.show(env.stdout); err != nil {
			return err
		}
	}
	return nil
}

// plan is what recover --plan tells of one bridge.
type plan struct {
	Bridge   string           `json:"bridge"`
	Semantic string           `json:"semantic"`
	Path     string           `json:"path,omitempty"`
	Daemon   *bridge.Status   `json:"daemon,omitempty"` // a daemon runs: its own status, and nothing else is here
	Stored   *checkpointEntry `json:"stored,omitempty"` // newest checkpoint
	Broker   []transaction    `json:"broker"`           // this bridge's transactional ids, as their coordinators see them
	Ledger   *ledgerEntry     `json:"ledger,omitempty"`

	Verdict  verdictWord   `json:"verdict,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Run      string        `json:"run,omitempty"` // what run would do, in one sentence
	RunExits int           `json:"run_exits"`     // the exit code of a run that refuses; 0: it goes on
	Epoch    int64         `json:"epoch"`         // run goes on after it
	Replay   []replayRange `json:"replay,omitempty"`
	Gaps     []string      `json:"gaps,omitempty"`  // positions that a source does not have
	Notes    []string      `json:"notes,omitempty"` // what could not be seen
}

// verdictWord is a word of the plan's field verdict.
type verdictWord string

// The verdicts.
const (
	verdictClean     verdictWord = "clean"           // nothing is prepared
	verdictPending   verdictWord = "would_commit"    // prepared and not ended: run commits it
	verdictCommitted verdictWord = "committed"       // was committed; nobody here knows yet
	verdictReplay    verdictWord = "aborted"         // its range is read again
	verdictStale     verdictWord = "stale_directory" // the ledger is the truth
	verdictAdopted   verdictWord = "adopted"
	verdictLost      verdictWord = "ledger_lost" // run refuses; run --adopt goes on from the state directory
	verdictRefused   verdictWord = "refused"
)

type ledgerEntry struct {
	Topic       string `json:"topic"`
	TopicID     string `json:"topic_id,omitempty"`
	Found       bool   `json:"found"`
	Offset      int64  `json:"offset"`
	Kind        string `json:"kind,omitempty"`
	Epoch       int64  `json:"epoch"`
	Transaction string `json:"transaction,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
}

type replayRange struct {
	Source    string `json:"source"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // inclusive
	To        int64  `json:"to"`   // exclusive
	Records   int64  `json:"records_at_most"`
}

// planBridge gathers what can be seen and asks the machine.
func planBridge(ctx context.Context, env environment, file *configs.File, b configs.Bridge) (plan, error) {
	p := plan{Bridge: b.Options.Name, Semantic: b.Options.Semantic.String(), Broker: []transaction{}}
	var stored []semantics.Checkpoint
	if b.Store != nil {
		p.Path = b.Store.Path
		var err error
		stored, err = readCheckpoints(b)
		if errors.Is(err, snapshot.ErrLocked) {
			return p.ofDaemon(env, file, err)
		}
		if err != nil {
			return p, err
		}
	}
	r, err := openRepair(ctx, b, hclog.NewNullLogger())
	if err != nil {
		return p, err
	}
	err = p.look(ctx, r, stored)
	return p, errors.Join(err, r.Close())
}

// ofDaemon: whoever holds the directory knows better than anything that can be seen from outside.
func (p plan) ofDaemon(env environment, file *configs.File, locked error) (plan, error) {
	d, err := askDaemon(env, file)
	switch {
	case errors.Is(err, errNoDaemon):
		return p, locked
	case err != nil:
		return p, fmt.Errorf("%w; %w", locked, err)
	}
	i := slices.IndexFunc(d.Bridges, func(s bridge.Status) bool { return s.Bridge == p.Bridge })
	if i < 0 {
		return p, locked
	}
	p.Daemon = &d.Bridges[i]
	p.Run = "a daemon is running; there is nothing to recover, and a second run would be refused the state directory"
	return p, nil
}

// sighting is one look at everything that a verdict rests on.
type sighting struct {
	ids    []txn.Described
	ledger txn.LedgerView
}

// steadyLooks is how often the look is repeated while something moves, which only another instance can do.
const steadyLooks = 5

// see looks until two looks in a row saw the same.
func (r *repair) see(ctx context.Context, ids []string) (s sighting, steady bool, err error) {
	for range steadyLooks {
		before := s
		if s, err = r.sight(ctx, ids); err != nil {
			return s, false, r.explain(err)
		}
		if len(before.ids) > 0 && reflect.DeepEqual(before, s) {
			return s, true, nil
		}
	}
	return s, false, nil
}

// sight looks once. Without EXACTLY_ONCE nobody needs a right on ids and ledger: then they are taken as absent, as a start does.
func (r *repair) sight(ctx context.Context, ids []string) (s sighting, err error) {
	s.ledger.End.Offset = -1
	if s.ids, err = r.sink.Coordinator.DescribeEnded(ctx, ids...); err == nil && r.b.Sink.Ledger {
		s.ledger, err = r.sink.Ledger.View(ctx)
	}
	if err != nil && r.b.Options.Semantic != semantics.ExactlyOnce && semantics.ClassOf(err) == semantics.Fatal {
		r.log.Debug("ids or ledger cannot be seen; taken as absent, since the semantic does not need them", "error", err)
		return sighting{ids: []txn.Described{{}}, ledger: txn.LedgerView{End: semantics.LedgerEnd{Offset: -1}}}, nil
	}
	return s, err
}

func (p *plan) look(ctx context.Context, r *repair, stored []semantics.Checkpoint) error {
	ids := r.b.Sink.TransactionalIDs
	if n := len(stored); n > 0 {
		p.Stored = &[]checkpointEntry{entry(stored[n-1])}[0]
		p.Stored.Positions = nil // long, and `checkpoints show` has them
		if id := stored[n-1].Transaction.ID; id != "" && !slices.Contains(ids, id) {
			ids = append(slices.Clone(ids), id)
		}
	}
	var s sighting
	if len(ids) > 0 {
		var steady bool
		var err error
		if s, steady, err = r.see(ctx, ids); err != nil {
			return err
		}
		if !steady {
			p.note("transactions or ledger changed while they were looked at: another instance of this bridge is at work")
		}
		for _, d := range s.ids {
			if d.ID == "" {
				continue // not allowed to see it, and no need to
			}
			p.Broker = append(p.Broker, transactionOf(p.Bridge, d, stored))
		}
	}
	if r.b.Sink.Ledger {
		p.Ledger = ledgerOf(r.sink.Ledger.Topic(), s.ledger.End)
	}
	r.judge(ctx, p, stored, s)
	return nil
}

func (p *plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

func ledgerOf(topic string, end semantics.LedgerEnd) *ledgerEntry {
	e := &ledgerEntry{Topic: topic, TopicID: end.TopicID.String(), Found: end.Found, Offset: end.Offset}
	if end.Found {
		e.Kind, e.Epoch, e.Incarnation = string(end.Record.Kind), int64(end.Record.Epoch), end.Record.Incarnation
		if !end.Record.Transaction.IsZero() {
			e.Transaction = end.Record.Transaction.String()
		}
	}
	return e
}

// viewOf is what the machine is told.
func viewOf(stored []semantics.Checkpoint, s sighting) semantics.View {
	v := semantics.View{Ledger: s.ledger.End}
	if len(stored) == 0 {
		return v
	}
	tx := stored[len(stored)-1].Transaction
	if i := slices.IndexFunc(s.ids, func(d txn.Described) bool { return d.ID == tx.ID }); i >= 0 {
		v.Settled, v.Pending = s.ids[i].Witness().Settles(tx)
	}
	return v
}

// judge asks the machine that run would use.
func (r *repair) judge(ctx context.Context, p *plan, stored []semantics.Checkpoint, s sighting) {
	cfg, v := r.config(), viewOf(stored, s)
	if cfg.Groups {
		p.note("without a checkpoint block the offsets committed to the sources' groups are the progress: nothing is prepared by this bridge")
		stored = nil
	}
	if s.ledger.Hidden > 0 && !r.ownHolder(s.ledger.Holder) {
		p.note("ledger topic %s: an open transaction of %s hides what comes after the record shown; if that is a record of this bridge the verdict changes", p.Ledger.Topic, s.ledger.Holder)
	}
	f := semantics.Foresee(cfg, stored, v)
	if f.Err != nil {
		p.refused(cfg, stored, v, f)
		return
	}
	p.Reason, p.Epoch = f.Recovery.Reason, int64(f.Recovery.Epoch)
	switch f.Recovery.Outcome {
	case semantics.RecoveryCommitted:
		p.Verdict, p.Run = verdictCommitted, fmt.Sprintf("goes on after checkpoint %d; nothing is read again", f.Recovery.Epoch)
		if v.Pending {
			p.Verdict, p.Run = verdictPending, fmt.Sprintf("commits %s, then goes on after checkpoint %d; nothing is read again", f.Settles, f.Recovery.Epoch)
			p.deadline(s.ids, f.Settles)
		}
	case semantics.RecoveryReplayed:
		p.Verdict, p.Run = verdictReplay, fmt.Sprintf("goes on after epoch %d and reads the range of the aborted transaction again", f.Recovery.Epoch)
		p.Replay = ranges(f.Recovery.From, f.Recovery.To)
	case semantics.RecoveryStale:
		p.Verdict, p.Run = verdictStale, fmt.Sprintf("goes on from the ledger, after epoch %d", f.Recovery.Epoch)
	case semantics.RecoveryAdopted:
		p.Verdict, p.Run = verdictAdopted, fmt.Sprintf("goes on from the state directory, after checkpoint %d", f.Recovery.Epoch)
	case semantics.RecoveryClean:
		p.Verdict, p.Run = verdictClean, fmt.Sprintf("goes on after epoch %d", f.Recovery.Epoch)
		if f.Recovery.Epoch == 0 {
			p.Run = "begins at the start positions"
		}
	}
	r.checkSources(ctx, p, f.Positions)
}

// ownHolder says whether nobody but this bridge holds the ledger's end back: its prepared transaction is in the verdict, and
// what is merely open is aborted by the fence.
func (r *repair) ownHolder(holder string) bool {
	for _, h := range strings.Split(holder, ", ") {
		if !slices.ContainsFunc(r.b.Sink.TransactionalIDs, func(id string) bool { return h == fmt.Sprintf("transactional id %q", id) }) {
			return false
		}
	}
	return true
}

// refused also tells what --adopt would do, by asking the machine that, too.
func (p *plan) refused(cfg semantics.Config, stored []semantics.Checkpoint, v semantics.View, f semantics.Plan) {
	p.Verdict, p.Reason, p.RunExits = verdictRefused, f.Err.Error(), int(f.Exit)
	p.Run = fmt.Sprintf("refuses with exit code %d", f.Exit)
	cfg.Adopt = true
	if a := semantics.Foresee(cfg, stored, v); a.Err == nil && a.Recovery.Outcome == semantics.RecoveryAdopted {
		p.Verdict = verdictLost
		p.Run += fmt.Sprintf("; run --adopt goes on after checkpoint %d", a.Recovery.Epoch)
	}
}

// deadline tells how long a prepared transaction can still be committed.
func (p *plan) deadline(ids []txn.Described, tx semantics.Transaction) {
	for _, d := range ids {
		if d.ID != tx.ID || d.StartedMs == 0 || d.TimeoutMs == 0 {
			continue
		}
		left := time.Until(time.UnixMilli(d.StartedMs + d.TimeoutMs)).Round(time.Second)
		if left > 0 {
			p.note("the broker aborts it by its timeout in about %s: start before that, or its range is read again", left)
		} else {
			p.note("its timeout has passed %s ago: the broker aborts it at any moment, and then its range is read again", -left)
		}
	}
}

func ranges(from, to semantics.Positions) (out []replayRange) {
	for _, st := range to.Topics() {
		for _, n := range to[st].Numbers() {
			a, _ := from.Get(st, n)
			if b := to[st].Partitions[n]; a.Offset < b.Offset {
				out = append(out, replayRange{Source: st.Source, Topic: st.Topic, Partition: n, From: a.Offset, To: b.Offset, Records: b.Offset - a.Offset})
			}
		}
	}
	return out
}

// checkSources looks whether the sources still have what run would read. Which that cannot be asked is noted: the verdict does not
// rest on it.
func (r *repair) checkSources(ctx context.Context, p *plan, at semantics.Positions) {
	for i, o := range r.b.Options.Sources {
		cl, err := r.source(ctx, i)
		if err != nil {
			p.note("%v", err)
			continue
		}
		v, err := viewSource(ctx, o, r.b.SourceConnections[i], cl)
		if err != nil {
			p.note("%v", err)
			continue
		}
		gaps := v.gaps(at)
		p.Gaps = append(p.Gaps, gaps...)
		if len(gaps) > 0 && o.OnGap == bridge.Fail {
			p.RunExits = int(semantics.ExitRefused)
			p.Run += fmt.Sprintf("; refuses with exit code %d, because source %q no longer has what comes next and on_gap = \"fail\": on_gap = \"skip\", or bridge reset, goes on behind it", semantics.ExitRefused, o.Name)
		}
	}
}
