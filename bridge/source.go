package bridge

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/semantics"
)

const gapsKept = 100 // gaps shown in the status; the count goes on

// source is the source task of one source block. It lives as long as the bridge; run is called once for each run of the
// pipeline, never twice at a time. All other methods are safe from any goroutine.
type source struct {
	o           SourceOptions
	cl          *kgo.Client // transport only: neither its producer nor its consumer is used
	log         hclog.Logger
	maxInFlight int64        // bytes
	window      func() int64 // bytes that may be in flight now, at most maxInFlight

	match    *regexp.Regexp // nil with a topic list
	exclude  []*regexp.Regexp
	matchErr error // of compiling; resolve returns it

	own []string // transactional ids of this bridge on the source's cluster

	handed   atomic.Int64 // records
	current  atomic.Pointer[sourceRun]
	barriers chan barrierRequest // to the task; unbuffered

	mu       sync.Mutex
	gaps     []Gap // the last gapsKept
	gapCount int64
	gapsOf   map[topicPartition]int64   // how many there were, ever
	totals   map[topicPartition]counted // of earlier runs, for counters that never go back
	holders  string                     // why holders of open transactions cannot be found out; "" when they can
	// saidHolders is set once that was logged.
	saidHolders bool
}

// topicPartition names a partition within one source.
type topicPartition struct {
	topic     string
	partition int32
}

// String is the form that messages use.
func (k topicPartition) String() string {
	return fmt.Sprintf("topic %s partition %d", k.topic, k.partition)
}

// newSource makes the source task of o. maxInFlight bounds the bytes of record batches between the arrival of a fetch
// answer and the release of its batches. cl stays the caller's.
func newSource(o SourceOptions, cl *kgo.Client, log hclog.Logger, maxInFlight int64) *source {
	if o.Discover <= 0 {
		o.Discover = DefaultDiscover
	}
	if o.FetchMaxBytes <= 0 {
		o.FetchMaxBytes = DefaultFetchMaxBytes
	}
	if maxInFlight <= 0 {
		maxInFlight = DefaultMaxInFlight
	}
	s := &source{
		o: o, cl: cl, log: log.With("source", o.Name), maxInFlight: maxInFlight,
		totals: map[topicPartition]counted{}, barriers: make(chan barrierRequest),
	}
	s.window = func() int64 { return s.maxInFlight }
	s.matchErr = s.compile()
	return s
}

// compile compiles the regular expressions. They match whole topic names, as Kafka's own pattern subscription does: a
// regex that also matched parts would silently take in topics like "orders-copy".
func (s *source) compile() (err error) {
	if s.o.TopicsRegex == "" {
		return nil
	}
	if s.match, err = regexp.Compile("^(?:" + s.o.TopicsRegex + ")$"); err != nil {
		return semantics.Misconfigured("match topics", "source %q: topics_regex: %w", s.o.Name, err)
	}
	for _, e := range s.o.TopicsExclude {
		re, err := regexp.Compile("^(?:" + e + ")$")
		if err != nil {
			return semantics.Misconfigured("match topics", "source %q: topics_exclude: %w", s.o.Name, err)
		}
		s.exclude = append(s.exclude, re)
	}
	return nil
}

// run reads from pos and sends deliveries to out, one bounded channel per map task, until ctx is done (nil) or something
// fails (an error with its class). Topics and partitions that are found meanwhile start at their log start and are in
// the positions of the next barrier. It returns when all its goroutines have ended.
func (s *source) run(ctx context.Context, pos semantics.Positions, out []chan<- delivery) error {
	if s.matchErr != nil {
		return s.matchErr
	}
	r := newSourceRun(s, pos, out)
	s.keepTotals(s.current.Swap(r))
	return r.run(ctx)
}

// errRunEnded says that the run ended while the barrier was on its way.
var errRunEnded = errors.New("the source task has ended")

// barrier asks the running task for the barrier of epoch: the task records its positions, then sends the barrier down
// every channel, so that exactly the batches handed over before lie before it. The positions are the caller's to keep,
// nobody writes to them. Without a run it waits for one, so ctx must end with the run.
//
// When ctx ends first, a barrier that the task has begun to send is sent all the same as soon as the channels have room:
// what went down one channel cannot be taken back. Asking again for the same epoch in the same run returns the positions
// of that barrier and sends nothing.
func (s *source) barrier(ctx context.Context, epoch semantics.Epoch) (semantics.Positions, error) {
	req := barrierRequest{epoch: epoch, reply: make(chan semantics.Positions, 1)}
	select {
	case s.barriers <- req:
	case <-ctx.Done():
		return nil, s.classify("barrier", fmt.Errorf("epoch %d: %w", epoch, context.Cause(ctx)))
	}
	select {
	case pos, ok := <-req.reply:
		if !ok {
			return nil, s.classify("barrier", errRunEnded)
		}
		return pos, nil
	case <-ctx.Done():
		return nil, s.classify("barrier", fmt.Errorf("epoch %d: %w", epoch, context.Cause(ctx)))
	}
}

// handedOver counts the records of all batches that were sent to map tasks since the process began. A batch that is cut
// counts whole.
func (s *source) handedOver() int64 { return s.handed.Load() }

// Gap is a range of source offsets that was to be read and is no longer there.
type Gap struct {
	Source    string `json:"source"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // first lost offset
	To        int64  `json:"to"`   // the offset after the last lost one; -1 when nobody can tell (a recreated topic)
	Reason    string `json:"reason"`
}

// The reasons of gaps.
const (
	gapRetention = "retention" // the log start passed the position
	gapTruncated = "truncated" // the log ends before the position, or it diverges: what was read there is not the log any more
	gapRecreated = "recreated" // the topic was deleted and made anew
)

// String is the gap as messages tell it.
func (g Gap) String() string {
	switch g.Reason {
	case gapRecreated:
		return fmt.Sprintf("topic %s partition %d: the topic was deleted and made anew, what followed offset %d is lost", g.Topic, g.Partition, g.From)
	case gapTruncated:
		return fmt.Sprintf("topic %s partition %d: the log was truncated, offsets %d to %d were read and are gone", g.Topic, g.Partition, g.From, g.To-1)
	default:
		return fmt.Sprintf("topic %s partition %d: offsets %d to %d were deleted before they were read (%s)", g.Topic, g.Partition, g.From, g.To-1, g.Reason)
	}
}

// gap obeys on_gap: with skip it records g and returns nil, otherwise it refuses. resume says where skipping goes on.
func (s *source) gap(g Gap, resume int64) error {
	if s.o.OnGap != Skip {
		return semantics.Refuse("read source", "source %q: %s; to go on at offset %d without them set on_gap = %q for this source",
			s.o.Name, g, resume, Skip)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.gaps, g) {
		return nil // a recovery that is repeated finds the same gap again
	}
	s.gapCount++
	if s.gapsOf == nil {
		s.gapsOf = map[topicPartition]int64{}
	}
	s.gapsOf[topicPartition{g.Topic, g.Partition}]++
	if len(s.gaps) == gapsKept {
		s.gaps = s.gaps[1:]
	}
	s.gaps = append(s.gaps, g)
	s.log.Error("records of the source are lost, going on behind them", "topic", g.Topic, "partition", g.Partition,
		"from", g.From, "to", g.To, "reason", g.Reason, "offset", resume)
	return nil
}

// classify gives an error of a request that only reads its class: nothing happened outside, so Retry, except that
// missing permissions do not pass by themselves.
func (s *source) classify(op string, err error) error {
	var e *semantics.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &semantics.Error{Class: semantics.Retry, Op: op, Err: fmt.Errorf("source %q: %w", s.o.Name, err)}
}
