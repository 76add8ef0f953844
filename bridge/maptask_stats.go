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
	RecordsOut     int64            `json:"records_out"`     // taken by the Writer
	BytesOut       int64            `json:"bytes_out"`       // of batches as taken by the Writer
	BatchesOut     int64            `json:"batches_out"`
	Untouched      int64            `json:"untouched_batches"` // source batches handed on as they were
	Reencoded      map[string]int64 `json:"reencoded_batches"` // source batches that were decoded, by reason
}

// counts are what was written.
type counts struct{ records, batches, bytes int64 }

// batchCounts are what was read.
type batchCounts struct{ in, bytesIn, cut, dropped, emitted, untouched int64 }

// mapCounters are counted by the map task's goroutine without a lock, and published once per batch.
type mapCounters struct {
	records batchCounts
	dropped []int64 // records, by position of the map

	mu        sync.Mutex
	published MapStats
	by        map[string]int64 // reasons, under mu
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
		DroppedBy: c.published.DroppedBy, RecordsOut: out.records, BytesOut: out.bytes, BatchesOut: out.batches, Untouched: r.untouched}
}

// stats is safe to call from any goroutine.
func (t *mapTask) stats() MapStats {
	c := &t.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.published
	s.Reencoded, s.DroppedBy = maps.Clone(c.by), maps.Clone(s.DroppedBy)
	return s
}
