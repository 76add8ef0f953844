package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/oracle"
	"kafkabridge/semantics"
)

// checkExit: which exit codes a bridge may give itself.
func (w *world) checkExit(p *process) {
	if p.killed() {
		return
	}
	switch code := exitCode(p.err); {
	case code == semantics.ExitDone:
	case code == semantics.ExitLost && p.rivalled:
	case code == semantics.ExitLost && !w.cfg.ledger && w.coord.excused.Load(): // without a ledger nobody can tell this from a rival
	case code == semantics.ExitGaveUp && p.illDisk:
	case code == semantics.ExitRefused && (p.consulted || w.undecidable(p.err)):
	default:
		w.errorf("%s: exit code %d: %v", p.name, code, p.err)
	}
}

// undecidable is the one refusal that is in order: without a ledger, and with EndTxn v4, a prepared transaction that timed out is answered
// PRODUCER_FENCED, as one that was committed before somebody took the id is; one whose id has expired is answered INVALID_PRODUCER_ID_MAPPING. An operator
// has to look.
func (w *world) undecidable(err error) bool {
	return exitCode(err) == semantics.ExitRefused && !w.cfg.ledger && (!w.cfg.tv2 || w.cfg.twist == twistExpiry) && strings.Contains(err.Error(), "nobody can tell")
}

// checkRecoveries: a state directory that was neither lost nor replaced, and that no rival has overtaken, is never behind the ledger. If
// it is, a commit was requested before its checkpoint was durable (I1).
func (w *world) checkRecoveries(p *process) {
	if p.b == nil || p.oldDisk || p.rivalled || p.illDisk || w.cfg.twist == twistSemantic {
		return
	}
	if n := p.b.Status().Recoveries[string(semantics.RecoveryStale)]; n > 0 {
		w.errorf("%s: %d recoveries found its state directory behind the ledger, but nobody has touched it", p.name, n)
	}
}

// checkRecoveryTime: undisturbed, a bridge that starts has its claim committed within the time that settling may take, and a bit.
func (w *world) checkRecoveryTime(p *process, began time.Time) {
	claimed := w.watch.claimedAt(p.name)
	if claimed.IsZero() {
		return // it has no ledger
	}
	took, limit := claimed.Sub(began), w.cfg.timeout+10*time.Second+time.Minute
	w.tr.add("sim", "RECOVERED within %s", took)
	noteRecovery(took)
	if took > limit {
		w.errorf("%s needed %s to recover, more than %s", p.name, took, limit)
	}
}

// judge compares what read_committed readers of the sink see with what the sample producers were acknowledged. Nothing of the bridge
// takes part in it.
func (w *world) judge(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	topics := w.existing(ctx, append(w.cfg.sinkTopics(), ledgerTopic))
	if w.refused {
		time.Sleep(w.cfg.timeout + w.cfg.sweeper + 10*time.Second) // whoever refuses touches nothing: the brokers abort what the last life left open
	}
	w.nothingOpen(ctx, topics)
	if !w.sane(ctx) {
		return
	}
	shown := slices.Clone(w.relics)
	for _, t := range topics {
		if t == ledgerTopic {
			continue
		}
		err := w.read(ctx, w.to, t, kgo.ReadCommitted(), func(r oracle.Record) error {
			shown = append(shown, r)
			return nil
		})
		if err != nil {
			w.errorf("oracle: read %s: %v", t, err)
		}
	}
	w.compare(shown)
}

// compare judges by the weakest semantic that an incarnation had.
func (w *world) compare(shown []oracle.Record) {
	if w.weakest == semantics.AtLeastOnce {
		gone := w.gone()
		shown = slices.DeleteFunc(shown, func(r oracle.Record) bool { return gone[print(r)] })
	}
	want := w.expected(w.prints(shown))
	check := want.NewCheck()
	if !w.cfg.byKey {
		check.Place = oracle.SamePartition
	}
	for _, r := range shown {
		_ = check.Saw(r) // never fails
	}
	report := check.Report()
	w.tr.add("sim", "VERDICT %s", report)
	if want.Len() == 0 {
		return // a short run without traffic
	}
	if w.refused {
		report.Lost = 0 // what was not moved is missing, nothing else
	}
	var err error
	switch w.weakest {
	case semantics.ExactlyOnce:
		err = report.ExactlyOnce()
	case semantics.AtLeastOnce:
		err = report.AtLeastOnce()
	default: // NONE: nothing changed, nothing foreign, first showings in order
		report.Lost = 0
		if w.oldDisk || w.cfg.twist == twistSemantic {
			report.Reordered = 0 // what was lost is read again from older positions, and shown behind what came after it
		}
		err = report.AtLeastOnce()
	}
	if err != nil {
		w.errorf("%s: %v", w.weakest, err)
	}
}

// sane checks the simulation itself: a reader of the sources sees what the sample producers were acknowledged. Otherwise the verdict on
// the bridge would be one on kfake.
func (w *world) sane(ctx context.Context) bool {
	for _, f := range w.feeders {
		var shown []oracle.Record
		if err := w.read(ctx, w.from, f.name, kgo.ReadCommitted(), func(r oracle.Record) error {
			shown = append(shown, r)
			return nil
		}); err != nil {
			w.errorf("oracle: read %s: %v", f.name, err)
			return false
		}
		for _, r := range shown {
			w.readable[place{tp{r.Topic, r.Partition}, r.Offset}] = true
		}
		want, seen := oracle.NewExpected(), w.prints(shown)
		for part, in := range f.logs() {
			cleaned := w.cleaned(in)
			for _, r := range in {
				if (cleaned[r.Offset] || r.Offset < w.deleted[tp{f.name, part}]) && !seen[print(r)] {
					continue
				}
				if err := want.Add(f.name, r); err != nil {
					w.errorf("oracle: %v", err)
				}
			}
		}
		check := want.NewCheck()
		for _, r := range shown {
			_ = check.Saw(r) // never fails
		}
		if err := check.Report().ExactlyOnce(); err != nil && want.Len() > 0 {
			w.errorf("the simulation: source %s is not what was acknowledged: %v", f.name, err)
			return false
		}
	}
	return true
}

func (w *world) existing(ctx context.Context, names []string) (out []string) {
	all, err := w.to.adm.ListTopics(ctx)
	if err != nil {
		w.errorf("list topics: %v", err)
	}
	for _, n := range names {
		if all.Has(n) {
			out = append(out, n)
		}
	}
	return out
}

// nothingOpen: the last stable offset is the high watermark everywhere.
func (w *world) nothingOpen(ctx context.Context, topics []string) {
	ends, err := w.to.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		w.errorf("oracle: high watermarks: %v", err)
	}
	stable, err := w.to.adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		w.errorf("oracle: last stable offsets: %v", err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := stable.Lookup(o.Topic, o.Partition); s.Offset < o.Offset {
			w.errorf("left open: %s/%d: last stable offset %d, high watermark %d", o.Topic, o.Partition, s.Offset, o.Offset)
		}
	})
}

// read gives f everything that a reader of a topic sees, in order per partition.
func (w *world) read(ctx context.Context, at *site, topic string, isolation kgo.IsolationLevel, f func(oracle.Record) error) error {
	list := at.adm.ListCommittedOffsets
	if isolation == kgo.ReadUncommitted() {
		list = at.adm.ListEndOffsets
	}
	ends, err := list(ctx, topic)
	if err != nil {
		return err
	}
	starts, err := at.adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return err
	}
	left := map[int32]int64{}
	from := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if start, _ := starts.Lookup(topic, o.Partition); o.Offset > start.Offset {
			left[o.Partition], from[o.Partition] = o.Offset, kgo.NewOffset().AtStart()
		}
	})
	if len(left) == 0 {
		return nil
	}
	cl := at.client(w.t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("partitions not at their end: %v: %w", left, err)
		}
		var failed error
		fetches.EachRecord(func(k *kgo.Record) {
			if k.Offset+1 >= left[k.Partition] {
				delete(left, k.Partition)
			}
			if !k.Attrs.IsControl() && failed == nil {
				failed = f(observed(k))
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}
