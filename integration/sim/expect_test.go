package sim

import (
	"fmt"
	"slices"

	"kafkabridge/integration/oracle"
)

// mapped is what the maps make of the records of one source partition, in the order of its log; the oracle's own idea of it. A record keeps
// the topic, partition and offset that it came from.
func (w *world) mapped(in []oracle.Record) []oracle.Record {
	out := slices.Clone(in)
	if w.cfg.headers {
		for i, r := range out {
			out[i].Headers = append(slices.Clone(r.Headers), oracle.Header{Key: "x-origin", Value: []byte("sim")})
		}
	}
	if w.cfg.twist == twistState {
		out = stamped(out)
	}
	return out
}

// expected is what the sink has to show. What may be missing is expected where it was seen.
func (w *world) expected(seen map[string]bool) *oracle.Expected {
	want := oracle.NewExpected()
	gaps := w.gaps()
	for _, f := range w.feeders {
		logs := f.logs()
		for part := range f.partitions {
			in := logs[part]
			if part == 0 {
				in = slices.DeleteFunc(slices.Clone(in), func(r oracle.Record) bool { return r.Offset < f.wanted })
			}
			excused := w.cleaned(in)
			for _, r := range w.mapped(in) {
				if (w.isDoomed(r) || excused[r.Offset] || covered(gaps, r)) && !seen[print(r)] {
					continue
				}
				if err := want.Add(f.name, r); err != nil {
					w.errorf("oracle: %v", err)
				}
			}
		}
	}
	return want
}

// cleaned are the offsets of one partition that compaction may have taken: a later record has the key, or it is a tombstone.
func (w *world) cleaned(in []oracle.Record) map[int64]bool {
	out := map[int64]bool{}
	if !w.compacted {
		return out
	}
	last := map[string]int64{}
	for _, r := range in {
		last[string(r.Key)] = r.Offset
	}
	for _, r := range in {
		out[r.Offset] = r.Value == nil || last[string(r.Key)] > r.Offset
	}
	return out
}

// place is where a record stands.
type place struct {
	tp
	offset int64
}

// gone are the prints of what the sink may miss and the sources no longer hold. AT_LEAST_ONCE promises no order for it: a request of a dead incarnation
// that arrives late brings it after what a later incarnation wrote, which could not read it any more.
func (w *world) gone() map[string]bool {
	out := map[string]bool{}
	gaps := w.gaps()
	for _, f := range w.feeders {
		for _, in := range f.logs() {
			cleaned := w.cleaned(in)
			for _, r := range w.mapped(in) {
				if (cleaned[r.Offset] || covered(gaps, r)) && !w.readable[place{tp{r.Topic, r.Partition}, r.Offset}] {
					out[print(r)] = true
				}
			}
		}
	}
	return out
}

// gap is a range that a bridge says it could not read: from inclusive, to exclusive.
type gap struct {
	tp
	from, to int64
}

// gaps are all that were reported. Each must be of records that are deleted.
func (w *world) gaps() (out []gap) {
	for _, p := range w.processes {
		if p.b == nil {
			continue
		}
		for _, s := range p.b.Status().Sources {
			for _, g := range s.Gaps {
				at := tp{g.Topic, g.Partition}
				if g.To > w.deleted[at] {
					w.errorf("%s reports a gap in %s/%d from %d to %d, but only what is below %d was deleted", p.name, g.Topic, g.Partition, g.From, g.To, w.deleted[at])
				}
				out = append(out, gap{at, g.From, g.To})
			}
		}
	}
	return out
}

func covered(gaps []gap, r oracle.Record) bool {
	return slices.ContainsFunc(gaps, func(g gap) bool {
		return g.topic == r.Topic && g.partition == r.Partition && g.from <= r.Offset && r.Offset < g.to
	})
}

func (w *world) isDoomed(r oracle.Record) bool {
	if len(w.doomed) == 0 {
		return false
	}
	_, doomed := w.doomed[print(r)]
	return doomed
}

// prints are what was shown, in runs where records may be missing.
func (w *world) prints(shown []oracle.Record) map[string]bool {
	switch w.cfg.twist {
	case twistSink, twistRetention, twistCompaction:
	default:
		return nil
	}
	seen := map[string]bool{}
	for _, r := range shown {
		seen[print(r)] = true
	}
	return seen
}

// print tells records apart by what they hold.
func print(r oracle.Record) string {
	return fmt.Sprintf("%d %t%q %t%q %q", r.Timestamp, r.Key == nil, r.Key, r.Value == nil, r.Value, r.Headers)
}
