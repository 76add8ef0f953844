package sim

import (
	"context"
	"errors"
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
	case code == semantics.ExitRefused && w.undecidable(p.err):
	default:
		w.errorf("%s: exit code %d: %v", p.name, code, p.err)
	}
}

// undecidable is the one refusal that is in order: without a ledger, and with EndTxn v4, a prepared transaction that timed out is answered
// PRODUCER_FENCED, as one that was committed before somebody took the id is. An operator has to look.
func (w *world) undecidable(err error) bool {
	return exitCode(err) == semantics.ExitRefused && !w.cfg.ledger && !w.cfg.tv2 && strings.Contains(err.Error(), "nobody can tell")
}

// checkRecoveries: a state directory that was neither lost nor replaced, and that no rival has overtaken, is never behind the ledger. If
// it is, a commit was requested before its checkpoint was durable (I1).
func (w *world) checkRecoveries(p *process) {
	if p.b == nil || p.oldDisk || p.rivalled || p.illDisk {
		return
	}
	if n := p.b.Status().Recoveries[string(semantics.RecoveryStale)]; n > 0 {
		w.errorf("%s: %d recoveries found its state directory behind the ledger, but nobody has touched it", p.name, n)
	}
}

// judge compares what read_committed readers of the sink see with what the sample producers were acknowledged. Nothing of the bridge
// takes part in it.
func (w *world) judge(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	topics := w.existing(ctx, append(w.cfg.sinkTopics(), bridgeName+".ledger"))
	w.nothingOpen(ctx, topics)
	want := oracle.NewExpected()
	if w.cfg.headers {
		want.Map = func(r oracle.Record) []oracle.Record {
			r.Headers = append(slices.Clone(r.Headers), oracle.Header{Key: "x-origin", Value: []byte("sim")})
			return []oracle.Record{r}
		}
	}
	for _, f := range w.feeders {
		if err := f.expect(want, f.wanted); err != nil {
			w.errorf("oracle: %v", err)
		}
	}
	if !w.sane(ctx) {
		return
	}
	check := want.NewCheck()
	if !w.cfg.byKey {
		check.Place = oracle.SamePartition
	}
	for _, t := range topics {
		if t == bridgeName+".ledger" {
			continue
		}
		if err := w.read(ctx, t, check.Saw); err != nil {
			w.errorf("oracle: read %s: %v", t, err)
		}
	}
	report := check.Report()
	w.tr.add("sim", "VERDICT %s", report)
	if want.Len() == 0 {
		return // a short run without traffic
	}
	var err error
	switch {
	case w.refused: // what was not moved is missing, nothing else
		if report.Doubled+report.Reordered+report.Misplaced+report.Foreign > 0 {
			err = errors.New(report.String())
		}
	case w.cfg.semantic == semantics.ExactlyOnce:
		err = report.ExactlyOnce()
	default:
		err = report.AtLeastOnce()
	}
	if err != nil {
		w.errorf("%s: %v", w.cfg.semantic, err)
	}
}

// sane checks the simulation itself: a reader of the sources sees what the sample producers were acknowledged. Otherwise the verdict on
// the bridge would be one on kfake.
func (w *world) sane(ctx context.Context) bool {
	for _, f := range w.feeders {
		want := oracle.NewExpected()
		if err := f.expect(want, 0); err != nil || want.Len() == 0 {
			continue // expect's error was reported already
		}
		check := want.NewCheck()
		if err := w.read(ctx, f.name, check.Saw); err != nil {
			w.errorf("oracle: read %s: %v", f.name, err)
			return false
		}
		if err := check.Report().ExactlyOnce(); err != nil {
			w.errorf("the simulation: source %s is not what was acknowledged: %v", f.name, err)
			return false
		}
	}
	return true
}

func (w *world) existing(ctx context.Context, names []string) (out []string) {
	all, err := w.adm.ListTopics(ctx)
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
	ends, err := w.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		w.errorf("oracle: high watermarks: %v", err)
	}
	stable, err := w.adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		w.errorf("oracle: last stable offsets: %v", err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := stable.Lookup(o.Topic, o.Partition); s.Offset < o.Offset {
			w.errorf("left open: %s/%d: last stable offset %d, high watermark %d", o.Topic, o.Partition, s.Offset, o.Offset)
		}
	})
}

// read gives f everything that a read_committed reader of a topic sees, in order per partition.
func (w *world) read(ctx context.Context, topic string, f func(oracle.Record) error) error {
	ends, err := w.adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return err
	}
	left := map[int32]int64{}
	from := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition], from[o.Partition] = o.Offset, kgo.NewOffset().AtStart()
		}
	})
	if len(left) == 0 {
		return nil
	}
	cl := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
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
