package bridge

import (
	"maps"
	"sync"
)

// MapStats count what one map task has done in this run. Records that an aborted epoch has taken are in them too.
type MapStats struct {
	RecordsIn      int64            `json:"records_in"`      // of the source, those that were cut included
	BytesIn        int64            `json:"bytes_in"`        // of source batches as fetched
	RecordsCut     int64            `json:"records_cut"`     // below the wanted offset
	RecordsDropped int64            `json:"records_dropped"` // for which the maps emitted nothing
	DroppedBy      map[string]int64 `json:"dropped_by"`      // by kind of the map that emitted nothing
	// MapErrors are records for which a map failed, by its kind and by what was done (fail, skip, dead_letter).
	MapErrors   map[string]map[Policy]int64 `json:"map_errors"`
	Rejected    int64                       `json:"rejected"`     // records that the sink refuses
	DeadLetters int64                       `json:"dead_letters"` // taken by the encoders; of maps and of the sink
	RecordsOut  int64                       `json:"records_out"`  // taken by the Writer, dead letters included
	BytesOut    int64                       `json:"bytes_out"`    // of batches as taken by the Writer
	BatchesOut  int64                       `json:"batches_out"`
	Untouched   int64                       `json:"untouched_batches"` // source batches handed on as they were
	Reencoded   map[string]int64            `json:"reencoded_batches"` // source batches that were decoded, by reason
}

// counts are what was written.
type counts struct{ records, batches, bytes int64 }

// batchCounts are what was read.
type batchCounts struct{ in, bytesIn, cut, dropped, untouched, rejected, deadLetters int64 }

// mapCounters are counted by the map task's goroutine without a lock, and published once per batch.
type mapCounters struct {
	records batchCounts
	dropped []int64 // records, by position of the map

	mu        sync.Mutex
	published MapStats
	by        map[string]int64            // reasons, under mu
	errors    map[string]map[Policy]int64 // by kind of map, under mu
}

// failed counts a record for which a map failed.
func (c *mapCounters) failed(kind string, done Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addErrors(&c.errors, map[string]map[Policy]int64{kind: {done: 1}})
}

// addErrors adds more to into, which may be nil.
func addErrors(into *map[string]map[Policy]int64, more map[string]map[Policy]int64) {
	for kind, by := range more {
		for policy, n := range by {
			if *into == nil {
				*into = map[string]map[Policy]int64{}
			}
			if (*into)[kind] == nil {
				(*into)[kind] = map[Policy]int64{}
			}
			(*into)[kind][policy] += n
		}
	}
}

// reencode counts a batch that was decoded for reason.
func (c *mapCounters) reencode(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int64{}
	}
	c.by[reason]++
}

// publish makes the counters visible to stats.
func (t *mapTask) publish() {
	c, r, out := &t.counters, t.counters.records, t.encoders.out
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range c.dropped {
		if n == 0 {
			continue // the usual case makes no map
		}
		if c.published.DroppedBy == nil {
			c.published.DroppedBy = map[string]int64{}
		}
		c.published.DroppedBy[t.cfg.maps[i].Kind] += n
		c.dropped[i] = 0
	}
	c.published = MapStats{RecordsIn: r.in, BytesIn: r.bytesIn, RecordsCut: r.cut, RecordsDropped: r.dropped,
		Rejected: r.rejected, DeadLetters: r.deadLetters, DroppedBy: c.published.DroppedBy, RecordsOut: out.records, BytesOut: out.bytes, BatchesOut: out.batches, Untouched: r.untouched}
}

// stats is safe to call from any goroutine.
func (t *mapTask) stats() MapStats {
	c := &t.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.published
	s.Reencoded, s.DroppedBy = maps.Clone(c.by), maps.Clone(s.DroppedBy)
	addErrors(&s.MapErrors, c.errors)
	return s
}
