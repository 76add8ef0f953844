package bridge

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// The headers of a dead letter, behind the record's own. All values are text.
const (
	headerSource    = "bridge.source"
	headerTopic     = "bridge.topic"
	headerPartition = "bridge.partition"
	headerOffset    = "bridge.offset"
	headerTimestamp = "bridge.timestamp" // Unix milliseconds
	headerMap       = "bridge.map"       // position and kind, as in "2 jq"; sinkMap for on_reject
	headerError     = "bridge.error"
)

// sinkMap stands where a map would, for what the sink refuses.
const sinkMap = "sink"

// errorLimit bounds the text of an error in headers and logs, in bytes: maps may put parts of a record into it.
const errorLimit = 1 << 10

// bounded is valid UTF-8 of at most limit bytes.
func bounded(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for s = s[:limit]; !utf8.ValidString(s); {
		s = s[:len(s)-1] // a character was cut
	}
	return s
}

// deadLetters writes source records to the dead letter topic, in the same transaction and by the same encoders as all else.
type deadLetters struct {
	sink    *sinkTopic // nil: there is none
	headers batch.HeadersBuffer
	out     output
}

// write appends the record being read, of p, as it was read, with the headers that say why.
func (d *deadLetters) write(x *encoders, p *sourcePartition, r *batch.Record, codec batch.Codec, where, reason string) error {
	if d.sink.takes.compacted && r.Key == nil {
		return semantics.Refuse("write a dead letter", "%s offset %d: dead letter topic %q is compacted and takes no record without a key; set its cleanup.policy to delete",
			p, r.Offset, d.sink.name)
	}
	h := &d.headers
	h.Reset()
	h.AddAll(r.Headers)
	add := func(key, value string) { h.Add([]byte(key), []byte(value)) }
	add(headerSource, p.source)
	add(headerTopic, p.topic)
	add(headerPartition, strconv.Itoa(int(p.partition)))
	add(headerOffset, strconv.FormatInt(r.Offset, 10))
	add(headerTimestamp, strconv.FormatInt(r.Timestamp, 10))
	add(headerMap, bounded(where, errorLimit))
	add(headerError, bounded(reason, errorLimit))
	d.out = output{record: *r, sink: d.sink}
	d.out.record.Headers = h.Headers()
	e := d.sink.encoders[p.partition%int32(len(d.sink.encoders))]
	if err := x.append(e, d.sink.wanted(codec), p, r.Offset, &d.out, false); err != nil {
		return fmt.Errorf("dead letter topic %q: %w", d.sink.name, err)
	}
	return nil
}

// journalInterval is how long the log stays silent about further records.
const journalInterval = 10 * time.Second

// journal tells people about records that were skipped or dead-lettered: the first at once, then at most one line per
// journalInterval with how many there were since. Safe from any goroutine.
type journal struct {
	log hclog.Logger

	mu    sync.Mutex
	last  time.Time
	since int64 // records without a line
}

// note is about the record at offset of a source partition.
func (j *journal) note(p *sourcePartition, offset int64, done Policy, where, reason string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	now := time.Now()
	silent := !j.last.IsZero() && now.Sub(j.last) < journalInterval
	if silent {
		j.since++
		j.mu.Unlock()
		return
	}
	unsaid := j.since
	j.last, j.since = now, 0
	j.mu.Unlock()
	message := "a record was skipped"
	if done == DeadLetter {
		message = "a record goes to the dead letter topic"
	}
	j.log.Warn(message, "source", p.source, "topic", p.topic, "partition", p.partition, "offset", offset, "map", where,
		"error", bounded(reason, errorLimit), "more_since_the_last_line", unsaid)
}
