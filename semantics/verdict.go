package semantics

import (
	"fmt"
	"strings"
)

// RecoveryOutcome is the label of bridge_recoveries_total.
type RecoveryOutcome string

// The outcomes of a recovery.
const (
	RecoveryClean     RecoveryOutcome = "clean"     // nothing was prepared
	RecoveryCommitted RecoveryOutcome = "committed" // what was prepared counts; nothing is read again
	RecoveryReplayed  RecoveryOutcome = "replayed"  // what was prepared was aborted; its range is read again
	RecoveryAdopted   RecoveryOutcome = "adopted"   // the ledger had lost its records; a checkpoint of the directory is the truth
	RecoveryStale     RecoveryOutcome = "stale"     // the state directory is old, empty or a copy; the ledger is the truth
)

// Recovery tells people what a recovery found and did.
type Recovery struct {
	Outcome RecoveryOutcome
	Epoch   Epoch // the epoch that the bridge goes on after
	Reason  string
	// From and To are the replayed range for RecoveryReplayed: From inclusive, To exclusive.
	From, To Positions
}

// base is the point that a bridge goes on from.
type base struct {
	recovery  Recovery
	epoch     Epoch
	tx        Transaction
	positions Positions // of everything ever read: what is no longer configured is carried on
	reading   Positions // of what is read now; known when the sources are resolved
	state     map[string][]byte
	decide    Epoch   // proposed checkpoint that the ledger shows to be committed; marked after the claim; 0: none
	drop      []Epoch // checkpoints that no longer belong to this history; deleted after the claim
}

// evidence is what recovery knows when the ledger is read (section 6 of the design).
type evidence struct {
	end         LedgerEnd
	checkpoints []Checkpoint
	settled     Outcome // of the newest checkpoint's transaction; 0: not asked or no definitive answer
}

func (e *evidence) newest() *Checkpoint {
	if len(e.checkpoints) == 0 {
		return nil
	}
	return &e.checkpoints[len(e.checkpoints)-1]
}

// upTo is the last decided transaction once c counts: its own, or the one it follows where c has none or an empty one.
func (c *Checkpoint) upTo() Transaction {
	if c.Transaction.IsZero() || c.Empty {
		return c.Follows
	}
	return c.Transaction
}

// named is the checkpoint that the ledger's record stands for (I12). The number is compared as well: a claim made over an
// AT_LEAST_ONCE past names the transaction of an older epoch, whose map state does not belong to the claim's positions. A
// checkpoint without a transaction has no identity, so its positions must agree, too.
func (e *evidence) named() *Checkpoint {
	l := e.end.Record
	for i := len(e.checkpoints) - 1; i >= 0; i-- {
		c := &e.checkpoints[i]
		own := !c.Transaction.IsZero() && !c.Empty
		if c.Epoch == l.Epoch && c.upTo().Same(l.Transaction) && (own || c.Positions.Over(l.Positions).Equal(l.Positions)) {
			return c
		}
	}
	return nil
}

// judge compares the ledger with the state directory. It is the whole of step 6, Resume, and has no other input.
func judge(cfg *Config, e *evidence) (*base, error) {
	n := e.newest()
	switch {
	case n == nil && !e.end.Found:
		return &base{recovery: Recovery{Outcome: RecoveryClean, Reason: "first start: no checkpoint and no ledger record"}}, nil
	case n == nil:
		return judgeEmptyDirectory(cfg, e)
	case n.Transaction.IsZero():
		return judgeOtherSemantic(cfg, e, n)
	case !e.end.Found:
		if n.LedgerTopicID == (TopicID{}) {
			return judgeWithoutLedger(cfg, e) // ledger = false until now
		}
		return adopt(cfg, e, fmt.Sprintf("the ledger holds no record of bridge %q, but checkpoint %d was written beside one", cfg.Bridge, n.Epoch))
	default:
		return judgeBoth(cfg, e, n)
	}
}

// judgeBoth is the ordinary case: a ledger record, and a newest checkpoint with a transaction.
func judgeBoth(cfg *Config, e *evidence, n *Checkpoint) (*base, error) {
	l := e.end.Record
	switch {
	case e.named() == n: // not the transaction alone: a claim over an AT_LEAST_ONCE past names an older epoch's
		b := fromLedger(e, RecoveryClean, fmt.Sprintf("the ledger names the transaction of checkpoint %d", n.Epoch))
		b.state = n.State
		if n.Status == Proposed {
			b.decide = n.Epoch
		}
		if n.Status == Proposed || e.settled == OutcomeCommitted {
			b.recovery.Outcome = RecoveryCommitted
			b.recovery.Reason = fmt.Sprintf("checkpoint %d was prepared and is committed: the ledger names its transaction", n.Epoch)
		}
		return b, nil
	case l.Transaction.Same(n.Follows) && l.Epoch == n.Epoch-1:
		return judgeAborted(cfg, e, n)
	case l.Epoch < n.Epoch-1:
		return adopt(cfg, e, fmt.Sprintf("the ledger stands at epoch %d, but checkpoint %d follows epoch %d: the ledger lost records", l.Epoch, n.Epoch, n.Epoch-1))
	case n.LedgerTopicID != (TopicID{}) && e.end.TopicID != n.LedgerTopicID:
		return adopt(cfg, e, fmt.Sprintf("the ledger topic was deleted and made anew (id %s, checkpoint %d was written beside %s)", e.end.TopicID, n.Epoch, n.LedgerTopicID))
	default:
		return judgeStale(cfg, e, fmt.Sprintf("the state directory is old or a copy: its newest checkpoint is %d (%s), the ledger stands at epoch %d (%s)",
			n.Epoch, n.Transaction, l.Epoch, l.Transaction))
	}
}

// judgeAborted: the prepared transaction is not in the ledger, so the broker aborted it: the transaction timeout passed, a rival fenced it, or a late
// request of our own did.
func judgeAborted(cfg *Config, e *evidence, n *Checkpoint) (*base, error) {
	l := e.end.Record
	if n.Status == Decided || e.settled == OutcomeCommitted {
		return adopt(cfg, e, fmt.Sprintf("checkpoint %d is known to be committed (%s), but the ledger stands before it, at epoch %d: the ledger lost records", n.Epoch, n.Transaction, l.Epoch))
	}
	ranges := Ranges(l.Positions, n.Positions)
	if cfg.OnTimeoutFail {
		return nil, Refuse("recover", "the prepared transaction of epoch %d (%s) was aborted by the broker, and on_timeout = \"fail\"; not delivered: %s; to read this range again set on_timeout = \"replay\" and start anew",
			n.Epoch, n.Transaction, ranges)
	}
	b := fromLedger(e, RecoveryReplayed, fmt.Sprintf("the prepared transaction of epoch %d (%s) was aborted by the broker; reading again: %s", n.Epoch, n.Transaction, ranges))
	b.recovery.From, b.recovery.To = l.Positions, n.Positions
	return withState(cfg, e, b)
}

// judgeEmptyDirectory: a record is there, no checkpoint: a lost directory, a new host, or a first start that died after its claim.
func judgeEmptyDirectory(cfg *Config, e *evidence) (*base, error) {
	if e.end.Record.Epoch == 0 {
		return fromLedger(e, RecoveryClean, "no epoch was decided yet"), nil
	}
	return judgeStale(cfg, e, fmt.Sprintf("the state directory is empty, the ledger stands at epoch %d", e.end.Record.Epoch))
}

// judgeStale goes on from the ledger alone.
func judgeStale(cfg *Config, e *evidence, reason string) (*base, error) {
	return withState(cfg, e, fromLedger(e, RecoveryStale, reason))
}

// judgeOtherSemantic: the newest checkpoint was made under NONE or AT_LEAST_ONCE. It is newer than the ledger only if
// the ledger still stands at the transaction that it follows.
func judgeOtherSemantic(cfg *Config, e *evidence, n *Checkpoint) (*base, error) {
	l := e.end.Record
	if cfg.Groups && e.end.Found {
		// A group's offsets do not say which transaction they follow. They were published after each decided epoch and committed
		// since, so at worst the last epoch before the change is read again; the ledger's would read again everything since.
		return &base{
			recovery: Recovery{Outcome: RecoveryClean, Epoch: l.Epoch, Reason: "going on from the offsets committed to the sources' groups"},
			epoch:    max(n.Epoch, l.Epoch), tx: l.Transaction, positions: n.Positions.Over(l.Positions),
		}, nil
	}
	if !e.end.Found && (n.Follows.IsZero() || cfg.Semantic != ExactlyOnce) || // nobody without EXACTLY_ONCE needs the ledger's positions
		e.end.Found && l.Transaction.Same(n.Follows) && l.Epoch <= n.Epoch { // a claim with a higher number was made over a later checkpoint
		return &base{
			recovery: Recovery{Outcome: RecoveryClean, Epoch: n.Epoch, Reason: fmt.Sprintf("going on after checkpoint %d (%s)", n.Epoch, n.Semantic)},
			epoch:    n.Epoch, tx: n.Follows, positions: n.Positions, state: n.State,
		}, nil
	}
	if !e.end.Found {
		return adopt(cfg, e, fmt.Sprintf("the ledger holds no record of bridge %q, but checkpoint %d follows one", cfg.Bridge, n.Epoch))
	}
	return judgeStale(cfg, e, fmt.Sprintf("the ledger (epoch %d) has moved on since checkpoint %d (%s)", e.end.Record.Epoch, n.Epoch, n.Semantic))
}

// judgeDirectory is judge without a ledger: ledger = false, or NONE and AT_LEAST_ONCE with ledger = false.
func judgeDirectory(cfg *Config, e *evidence) (*base, error) {
	n := e.newest()
	if n != nil && n.Transaction.IsZero() {
		return judgeOtherSemantic(cfg, &evidence{checkpoints: e.checkpoints, end: LedgerEnd{Found: !n.Follows.IsZero(), Record: LedgerRecord{Transaction: n.Follows}}}, n)
	}
	return judgeWithoutLedger(cfg, e)
}

// judgeWithoutLedger goes on from the state directory alone (ledger = false): the newest checkpoint that is not known as
// aborted. Settling has made the outcome of the newest durable before.
func judgeWithoutLedger(cfg *Config, e *evidence) (*base, error) {
	n := e.newest()
	if n == nil {
		return &base{recovery: Recovery{Outcome: RecoveryClean, Reason: "first start: no checkpoint"}}, nil
	}
	if n.Status == Proposed && e.settled != OutcomeCommitted && e.settled != OutcomeAborted {
		return nil, Refuse("recover", "nobody can tell whether the transaction of checkpoint %d (%s) was committed; see --adopt=EPOCH", n.Epoch, n.Transaction)
	}
	for i := len(e.checkpoints) - 1; i >= 0; i-- {
		c := &e.checkpoints[i]
		if c.Status == Decided || c == n && e.settled == OutcomeCommitted {
			b := &base{epoch: c.Epoch, tx: c.upTo(), positions: c.Positions, state: c.State}
			b.recovery = Recovery{Outcome: RecoveryClean, Epoch: c.Epoch, Reason: fmt.Sprintf("going on after checkpoint %d", c.Epoch)}
			if c == n && e.settled == OutcomeCommitted {
				b.recovery.Outcome = RecoveryCommitted
			}
			if c != n {
				b.replay(c.Positions, n)
			}
			for _, later := range e.checkpoints[i+1:] {
				b.drop = append(b.drop, later.Epoch)
			}
			return b, nil
		}
	}
	return nil, Refuse("recover", "checkpoint %d was aborted and the state directory holds no decided one before it: the positions to go on from are not known; restore the directory, or begin anew with an empty one", n.Epoch)
}

func (b *base) replay(from Positions, aborted *Checkpoint) {
	b.recovery.Outcome = RecoveryReplayed
	b.recovery.Reason = fmt.Sprintf("the prepared transaction of epoch %d (%s) was aborted by the broker; reading again: %s", aborted.Epoch, aborted.Transaction, Ranges(from, aborted.Positions))
	b.recovery.From, b.recovery.To = from, aborted.Positions
}

// adopt is where the ledger lost its records: refuse, unless the operator said --adopt. Taking the ledger as it is would
// read again what was delivered.
func adopt(cfg *Config, e *evidence, reason string) (*base, error) {
	if !cfg.Adopt {
		return nil, Refuse("recover", "%s; if the topic was lost or recreated, start once with --adopt to go on from the state directory", reason)
	}
	c, err := adopted(cfg, e)
	if err != nil {
		return nil, err
	}
	b := &base{epoch: c.Epoch, tx: c.upTo(), positions: c.Positions, state: c.State}
	b.recovery = Recovery{Outcome: RecoveryAdopted, Epoch: c.Epoch, Reason: fmt.Sprintf("%s; adopted checkpoint %d", reason, c.Epoch)}
	for _, later := range e.checkpoints {
		if later.Epoch > c.Epoch {
			b.drop = append(b.drop, later.Epoch)
		}
	}
	return b, nil
}

func adopted(cfg *Config, e *evidence) (*Checkpoint, error) {
	if cfg.AdoptEpoch != 0 {
		for i := range e.checkpoints {
			if e.checkpoints[i].Epoch == cfg.AdoptEpoch {
				return &e.checkpoints[i], nil
			}
		}
		return nil, Refuse("adopt", "the state directory holds no checkpoint %d", cfg.AdoptEpoch)
	}
	n := e.newest()
	if n.Status == Decided || e.settled == OutcomeCommitted {
		return n, nil
	}
	var before *Checkpoint
	for i := range e.checkpoints[:len(e.checkpoints)-1] {
		if c := &e.checkpoints[i]; c.upTo().Same(n.Follows) {
			before = c
		}
	}
	aborted := n.Status == Aborted || e.settled == OutcomeAborted
	switch {
	case aborted && before != nil:
		return before, nil
	case aborted:
		return nil, Refuse("adopt", "the transaction of checkpoint %d was aborted and the checkpoint before it is not in the state directory", n.Epoch)
	case before != nil:
		return nil, Refuse("adopt", "nobody can tell whether the transaction of checkpoint %d (%s) was committed; look at the sink, then choose: --adopt=%d if it was, --adopt=%d if it was not", n.Epoch, n.Transaction, n.Epoch, before.Epoch)
	default:
		return nil, Refuse("adopt", "nobody can tell whether the transaction of checkpoint %d (%s) was committed, and the checkpoint before it is not in the state directory; look at the sink; --adopt=%d if it was committed", n.Epoch, n.Transaction, n.Epoch)
	}
}

// fromLedger goes on from the ledger's positions (I3) and forgets every checkpoint that is not part of its history.
func fromLedger(e *evidence, o RecoveryOutcome, reason string) *base {
	l := e.end.Record
	b := &base{epoch: l.Epoch, tx: l.Transaction, positions: l.Positions, recovery: Recovery{Outcome: o, Epoch: l.Epoch, Reason: reason}}
	named := e.named()
	for i := range e.checkpoints {
		c := &e.checkpoints[i]
		if c != named && (c.Status == Proposed || c.Epoch >= l.Epoch) {
			b.drop = append(b.drop, c.Epoch)
		}
	}
	return b
}

// withState adds the map state of the checkpoint that the ledger names. Without it a stateful map would go on with a state that
// does not belong to the positions.
func withState(cfg *Config, e *evidence, b *base) (*base, error) {
	c := e.named()
	if c != nil {
		b.state = c.State
	}
	if cfg.Stateful && c == nil && e.end.Record.Epoch > 0 {
		return nil, Refuse("recover", "%s; the map state of epoch %d (%s) is not in the state directory: restore the directory that belongs to it, or begin anew under another bridge name",
			b.recovery.Reason, e.end.Record.Epoch, e.end.Record.Transaction)
	}
	return b, nil
}

// Ranges lists what lies between two positions, as topic/partition [from, to), for messages.
func Ranges(from, to Positions) string {
	var parts []string
	for _, t := range to.Topics() {
		for _, p := range to[t].Numbers() {
			a, ok := from.Get(t, p)
			b := to[t].Partitions[p]
			switch {
			case !ok:
				parts = append(parts, fmt.Sprintf("%s/%s/%d up to %d", t.Source, t.Topic, p, b.Offset))
			case a.Offset < b.Offset:
				parts = append(parts, fmt.Sprintf("%s/%s/%d offsets %d to %d", t.Source, t.Topic, p, a.Offset, b.Offset-1))
			}
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	const most = 20 // a thousand partitions must not make a message that nobody can read
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}
