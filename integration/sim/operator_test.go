package sim

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

// orders are what an operator has decided after a refusal, for the next start.
type orders struct {
	adopt  bridge.Adopt
	replay bool // on_timeout = "replay"
	skip   bool // on_gap = "skip", from then on
	empty  bool // begin anew with an empty directory
	kept   *vfs.MemFS
	back   bool // the directory that was put aside, kept, comes back
}

// apply changes the configuration for one start.
func (s *orders) apply(o bridge.Options) bridge.Options {
	o.Adopt = s.adopt
	if s.replay {
		o.OnTimeout = bridge.Replay
	}
	if s.skip {
		for i := range o.Sources {
			o.Sources[i].OnGap = bridge.Skip
		}
	}
	s.adopt, s.replay = bridge.Adopt{}, false
	return o
}

// disk is the state directory of the next start.
func (s *orders) disk(w *world, left *vfs.MemFS) *vfs.MemFS {
	switch {
	case s.empty:
		w.tr.add("sim", "the operator begins with an empty state directory")
		left = vfs.NewCrashableMem()
	case s.back && s.kept != nil:
		w.tr.add("sim", "the operator puts the state directory back")
		left = s.kept
	}
	s.empty, s.back = false, false
	return left
}

// consult is the operator who reads a refusal. It is true when the refusal is one that the bridge owes, and its way out is taken; a wrong one is
// left to checkExit.
func (w *world) consult(p *process) bool {
	if p.consulted || p.killed() || !p.ended() || exitCode(p.err) != semantics.ExitRefused {
		return p.consulted
	}
	text := p.err.Error()
	switch {
	case w.cfg.twist == twistTimeout && strings.Contains(text, `set on_timeout = "replay"`):
		p.consulted = !w.outcomeOf(text)
		w.orders.replay = true
	case w.cfg.twist == twistRetention && strings.Contains(text, `on_gap = "skip"`):
		p.consulted = true
		w.orders.skip = true
	case w.cfg.twist == twistState && w.oldDisk && strings.Contains(text, "the map state of epoch"):
		p.consulted = true
		w.orders.back = true
	case w.cfg.twist == twistLedger && w.removals > 0:
		p.consulted = w.adopt(text)
	}
	if p.consulted {
		w.tr.add("sim", "the operator has read %s's refusal: %+v", p.name, w.orders)
	}
	return p.consulted
}

var (
	transactionPattern = regexp.MustCompile(`(\S+) pid=(\d+) pepoch=(\d+)`)
	choicePattern      = regexp.MustCompile(`--adopt=(\d+) if it was(?: committed)?(?:, --adopt=(\d+) if it was not)?`)
)

// outcomeOf looks at the sink for the transaction that a refusal names.
func (w *world) outcomeOf(text string) (committed bool) {
	m := transactionPattern.FindStringSubmatch(text)
	if m == nil {
		w.errorf("a refusal names no transaction: %s", text)
		return false
	}
	pid, _ := strconv.ParseInt(m[2], 10, 64)
	epoch, _ := strconv.ParseInt(m[3], 10, 16)
	return w.watch.outcome(txnKey{strings.TrimLeft(m[1], "("), pid, int16(epoch)})
}

// adopt is what to do when the ledger is gone.
func (w *world) adopt(text string) bool {
	if m := choicePattern.FindStringSubmatch(text); m != nil {
		choice := m[1]
		if !w.outcomeOf(text) {
			choice = m[2]
		}
		epoch, err := strconv.ParseInt(choice, 10, 64)
		if err != nil {
			return w.beginAnew()
		}
		w.orders.adopt = bridge.Adopt{Enabled: true, Epoch: semantics.Epoch(epoch)}
		return true
	}
	switch {
	case strings.Contains(text, "start once with --adopt"):
		w.orders.adopt = bridge.Adopt{Enabled: true}
	case strings.Contains(text, "is not in the state directory"):
		return w.beginAnew()
	default:
		return false
	}
	return true
}

// beginAnew is right only where nothing was ever decided.
func (w *world) beginAnew() bool {
	w.orders.empty = w.watch.epochs() == 0
	return w.orders.empty
}
