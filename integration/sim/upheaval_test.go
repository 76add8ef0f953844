package sim

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/oracle"
)

// upheaval is what the run's twist does to the clusters, sometimes.
func (w *world) upheaval(likely float64) {
	if !chance(w.rand, likely) {
		return
	}
	switch w.cfg.twist {
	case twistSink:
		w.removeSink()
	case twistLedger:
		w.removeLedger()
	case twistRetention:
		w.deleteRecords()
	case twistCompaction:
		w.tr.add("sim", "source topics are compacted")
		w.compacted = true
		w.from.cluster.Compact()
	}
}

const mostRemovals = 2

// removeLedger deletes the ledger topic under whoever runs.
func (w *world) removeLedger() {
	if w.removals == mostRemovals || w.to.cluster.TopicInfo(ledgerTopic) == nil || w.watch.epochs() == 0 && chance(w.rand, 0.8) {
		return
	}
	w.removals++
	w.tr.add("sim", "the ledger topic is removed; %d epochs are decided", w.watch.epochs())
	if err := w.to.cluster.DeleteTopic(ledgerTopic); err != nil {
		w.errorf("remove the ledger: %v", err)
	}
	w.coord.forgetLags()
}

// removeSink deletes a sink topic. What readers have seen by then is theirs; what was not committed by then may be gone, whatever becomes of
// its transaction.
func (w *world) removeSink() {
	topic := pick(w.rand, w.cfg.sinkTopics()...)
	if w.removals == mostRemovals || w.to.cluster.TopicInfo(topic) == nil {
		return
	}
	w.removals++
	for _, p := range w.processes { // nothing is appended between the reading and the removal
		p.wire.cut(time.Second, w.to)
	}
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.read(ctx, w.to, topic, kgo.ReadCommitted(), func(r oracle.Record) error {
		w.relics = append(w.relics, r)
		return nil
	}); err != nil {
		w.errorf("read %s before its removal: %v", topic, err)
	}
	stable, err := w.to.adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		w.errorf("read %s before its removal: %v", topic, err)
	}
	if err := w.read(ctx, w.to, topic, kgo.ReadUncommitted(), func(r oracle.Record) error {
		if s, _ := stable.Lookup(topic, r.Partition); r.Offset >= s.Offset {
			w.doomed[print(r)] = struct{}{}
		}
		return nil
	}); err != nil {
		w.errorf("read %s before its removal: %v", topic, err)
	}
	w.tr.add("sim", "sink topic %s is removed: %d records were seen, %d not committed", topic, len(w.relics), len(w.doomed))
	if err := w.to.cluster.DeleteTopic(topic); err != nil {
		w.errorf("remove %s: %v", topic, err)
	}
}

// deleteRecords is retention: the log of a source partition begins later. Only of partitions that the bridge knows: another one begins at
// its log start, wherever that is.
func (w *world) deleteRecords() {
	f := w.feeders[w.rand.IntN(len(w.feeders))]
	known := w.watch.known(f.name)
	for part, recs := range f.logs() {
		if _, ok := known[part]; !ok || len(recs) == 0 || !chance(w.rand, 0.5) {
			continue
		}
		at := tp{f.name, part}
		offset := recs[w.rand.IntN(len(recs))].Offset + 1
		if offset <= w.deleted[at] {
			continue
		}
		w.tr.add("sim", "%s/%d: records below %d are deleted; the ledger stands at %d", f.name, part, offset, known[part])
		if err := w.from.cluster.DeleteRecords(f.name, part, offset); err != nil {
			w.errorf("delete records of %s/%d: %v", f.name, part, err)
			continue
		}
		w.deleted[at] = offset
	}
}

// known are the positions of a topic in the last decided ledger record.
func (w *watch) known(topic string) map[int32]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.decided) == 0 {
		return nil
	}
	for _, topics := range w.decided[len(w.decided)-1].record.Positions {
		if p, ok := topics[topic]; ok {
			return p.Offsets
		}
	}
	return nil
}

func (c *coordinator) forgetLags() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lags = nil
}
