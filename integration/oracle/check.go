package oracle

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Expected is what a sink has to show: the records of the sources in their order. Not for concurrent use.
type Expected struct {
	// Map says what becomes of a record on its way; nil: itself.
	Map func(Record) []Record

	total   int
	prints  *fingerprinter
	records map[fingerprint]*place
	streams map[string]int32 // "source/topic/partition" → number
	next    []int32          // per stream
	names   []string
	parts   []int32 // per stream: the source partition
}

// place is where an expected record stands in its source, and how often the sink showed it.
type place struct {
	stream int32
	seq    int32
	offset int64
	seen   int32
	twins  []int32 // sequences of equal records behind it in the same stream
}

// times is how often the sink has to show the record.
func (p *place) times() int32 { return 1 + int32(len(p.twins)) }

// turn is the sequence of the n-th showing, n from 1.
func (p *place) turn(n int32) int32 {
	if n == 1 {
		return p.seq
	}
	return p.twins[n-2]
}

// NewExpected expects nothing yet.
func NewExpected() *Expected {
	return &Expected{prints: newFingerprinter(), records: map[fingerprint]*place{}, streams: map[string]int32{}}
}

// Len is the number of records expected.
func (e *Expected) Len() int { return e.total }

// Add expects a record that a source holds; records of one partition must come in their order. Two equal records of one
// partition (a producer of the traffic that repeated itself while its broker was down) are expected as often, in turn.
// In different partitions they could not be told apart and are refused.
func (e *Expected) Add(source string, r Record) error {
	stream := e.stream(source, r)
	out := []Record{r}
	if e.Map != nil {
		out = e.Map(r)
	}
	for _, o := range out {
		f := e.prints.of(o)
		if twin, found := e.records[f]; found {
			if twin.stream == stream {
				twin.twins = append(twin.twins, e.next[stream])
				e.next[stream]++
				e.total++
				continue
			}
			return fmt.Errorf("records of the test traffic are equal: %s and %s@%d", r, e.names[twin.stream], twin.offset)
		}
		e.records[f] = &place{stream: stream, seq: e.next[stream], offset: r.Offset}
		e.next[stream]++
		e.total++
	}
	return nil
}

func (e *Expected) stream(source string, r Record) int32 {
	name := fmt.Sprintf("%s:%s/%d", source, r.Topic, r.Partition)
	id, found := e.streams[name]
	if !found {
		id = int32(len(e.names))
		e.streams[name] = id
		e.names, e.next, e.parts = append(e.names, name), append(e.next, 0), append(e.parts, r.Partition)
	}
	return id
}

// AddTopics reads topics with Read at an isolation level and expects what they hold.
func (e *Expected) AddTopics(ctx context.Context, source string, bootstrap []string, isolation string, topics ...string) error {
	return Read(ctx, bootstrap, isolation, topics, func(r Record) error { return e.Add(source, r) })
}

// Report is the result of a check.
type Report struct {
	Expected  int
	Seen      int // records that the sink shows
	Lost      int // expected, never seen
	Doubled   int // seen again
	Reordered int // first seen after a later record of the same source partition in the same sink partition
	Misplaced int // not in the partition where Place wants it
	Foreign   int // not expected at all: changed, aborted or from elsewhere
	Examples  []string
}

// Check compares what a sink shows with what is expected. Not for concurrent use; one per read of the sink.
type Check struct {
	// Place says in which sink partition a record has to be; nil: anywhere. See SamePartition and ByKey.
	Place func(source int32, r Record) int32

	e      *Expected
	last   map[[2]int32]int32 // (stream, sink partition) → last sequence first seen there
	report Report
}

// NewCheck starts a check and forgets an earlier one.
func (e *Expected) NewCheck() *Check {
	for _, p := range e.records {
		p.seen = 0
	}
	return &Check{e: e, last: map[[2]int32]int32{}, report: Report{Expected: e.total}}
}

// SamePartition is a Place: a record keeps the number of its source partition.
func SamePartition(source int32, _ Record) int32 { return source }

// ByKey is a Place: Kafka's own murmur2 of the key, and for records without a key the source's number, both
// modulo the number of sink partitions.
func ByKey(partitions int32) func(int32, Record) int32 {
	return func(source int32, r Record) int32 {
		if r.Key == nil {
			return source % partitions
		}
		return r.KeyHash % partitions
	}
}

// Saw takes a record of the sink, in order per partition.
func (c *Check) Saw(r Record) error {
	c.report.Seen++
	p, found := c.e.records[c.e.prints.of(r)]
	if !found {
		c.example(&c.report.Foreign, "foreign", r.String())
		return nil
	}
	p.seen++
	if p.seen > p.times() {
		c.example(&c.report.Doubled, "doubled", fmt.Sprintf("%s, from %s@%d", r, c.e.names[p.stream], p.offset))
		return nil
	}
	if c.Place != nil && c.Place(c.e.parts[p.stream], r) != r.Partition {
		c.example(&c.report.Misplaced, "misplaced", fmt.Sprintf("%s, from %s@%d", r, c.e.names[p.stream], p.offset))
	}
	at := [2]int32{p.stream, r.Partition}
	seq := p.turn(p.seen)
	if last, found := c.last[at]; found && seq < last {
		c.example(&c.report.Reordered, "reordered", fmt.Sprintf("%s, from %s@%d", r, c.e.names[p.stream], p.offset))
		return nil
	}
	c.last[at] = seq
	return nil
}

// examplesPerKind of failure are kept.
const examplesPerKind = 5

func (c *Check) example(count *int, kind, text string) {
	*count++
	if *count <= examplesPerKind {
		c.report.Examples = append(c.report.Examples, kind+": "+text)
	}
}

// Report ends the check.
func (c *Check) Report() Report {
	for _, p := range c.e.records {
		for range p.times() - p.seen { // none where it was doubled
			c.example(&c.report.Lost, "lost", fmt.Sprintf("%s@%d", c.e.names[p.stream], p.offset))
		}
	}
	return c.report
}

// String is one line, and the examples.
func (r Report) String() string {
	line := fmt.Sprintf("expected %d, seen %d: lost %d, doubled %d, reordered %d, misplaced %d, foreign or changed %d",
		r.Expected, r.Seen, r.Lost, r.Doubled, r.Reordered, r.Misplaced, r.Foreign)
	return strings.Join(append([]string{line}, r.Examples...), "\n  ")
}

// ExactlyOnce is nil when every expected record was seen once, in order, and nothing else. A check that
// expected nothing proves nothing and fails.
func (r Report) ExactlyOnce() error {
	if r.Doubled > 0 {
		return errors.New(r.String())
	}
	return r.AtLeastOnce()
}

// AtLeastOnce is nil when nothing is missing, nothing is foreign, and first occurrences are in order.
func (r Report) AtLeastOnce() error {
	if r.Expected == 0 || r.Lost+r.Reordered+r.Misplaced+r.Foreign > 0 {
		return errors.New(r.String())
	}
	return nil
}
