package bridge

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kafkabridge/semantics"
)

// Defaults of the settings; the names are those of the configuration file.
const (
	DefaultSemantic        = semantics.AtLeastOnce
	DefaultStart           = StartEarliest
	DefaultReadCommitted   = true // isolation_level; EnsureDefaults cannot tell a false that was meant from a forgotten one
	DefaultOnGap           = Fail
	DefaultDiscover        = time.Minute
	DefaultCommitInterval  = 5 * time.Second
	DefaultFetchMaxBytes   = 50 << 20
	DefaultPartitionByKey  = false
	DefaultCreateTopics    = true
	DefaultCompression     = "source"
	DefaultLinger          = 5 * time.Millisecond
	DefaultMaxMessageBytes = 1 << 20
	DefaultOnTimeout       = Replay
	DefaultOnError         = Fail
	DefaultOnReject        = Fail
	DefaultInterval        = 5 * time.Second
	DefaultTimeout         = 10 * time.Second
	DefaultBackoff         = 500 * time.Millisecond
	DefaultBackoffMax      = 30 * time.Second
	DefaultStopTimeout     = 20 * time.Second
	DefaultMaxInFlight     = 32 << 20
)

// MaxWorkers bounds workers: every map task has its own buffers, so a number with a digit too many would eat the memory.
const MaxWorkers = 1024

// Compressions are the words that compression takes.
func Compressions() []string { return []string{"source", "none", "gzip", "snappy", "lz4", "zstd"} }

// maxTopicName is the longest name of a topic that brokers accept (org.apache.kafka.common.internals.Topic).
const maxTopicName = 249

var (
	nameSyntax      = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	errNameSyntax   = errors.New("a name has letters, digits, '.', '_' and '-' only, and at least one of them")
	errTopicTooLong = fmt.Errorf("a topic's name has at most %d characters", maxTopicName)
)

// CheckName says why name cannot be the name of a bridge, a source or a sink; nil when it can. The names go into transactional
// ids, topic names and metrics, so what is not allowed in one of them is not allowed here.
func CheckName(name string) error {
	if !nameSyntax.MatchString(name) {
		return errNameSyntax
	}
	if len(name) > maxTopicName {
		return fmt.Errorf("a name has at most %d characters", maxTopicName)
	}
	return nil
}

// CheckTopic says why name cannot be the name of a topic; nil when it can.
func CheckTopic(name string) error {
	switch {
	case name == "." || name == "..":
		return errors.New(`a topic cannot be called "." or ".."`)
	case len(name) > maxTopicName:
		return errTopicTooLong
	case !nameSyntax.MatchString(name):
		return errNameSyntax
	}
	return nil
}

// SplitPartition takes a key of start_offsets, "topic/partition", apart.
func SplitPartition(key string) (topic string, partition int32, err error) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return "", 0, errors.New(`a key is "topic/partition", as in "orders/0"`)
	}
	if err := CheckTopic(key[:i]); err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(key[i+1:], 10, 31)
	if err != nil {
		return "", 0, errors.New("what follows the last '/' must be a partition's number from 0 on")
	}
	return key[:i], int32(n), nil
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// EnsureDefaults replaces zero values by the defaults. Booleans stay as they are: their defaults are constants of this
// package, and configs sets them.
func (o *Options) EnsureDefaults() {
	orDefault(&o.Semantic, DefaultSemantic)
	orDefault(&o.OnTimeout, DefaultOnTimeout)
	orDefault(&o.StopTimeout, DefaultStopTimeout)
	orDefault(&o.MaxInFlight, DefaultMaxInFlight)
	for i := range o.Sources {
		s := &o.Sources[i]
		orDefault(&s.Start.At, DefaultStart)
		orDefault(&s.Group, o.Name)
		orDefault(&s.OnGap, DefaultOnGap)
		orDefault(&s.Discover, DefaultDiscover)
		orDefault(&s.FetchMaxBytes, DefaultFetchMaxBytes)
	}
	for i := range o.Maps {
		orDefault(&o.Maps[i].OnError, DefaultOnError)
	}
	orDefault(&o.Sink.OnReject, DefaultOnReject)
	orDefault(&o.Sink.Compression, DefaultCompression)
	orDefault(&o.Sink.Linger, DefaultLinger)
	orDefault(&o.Sink.MaxMessageBytes, DefaultMaxMessageBytes)
	orDefault(&o.Checkpoint.Interval, o.Checkpoint.defaultInterval())
	orDefault(&o.Checkpoint.Timeout, DefaultTimeout)
	orDefault(&o.Restart.Backoff, DefaultBackoff)
	orDefault(&o.Restart.BackoffMax, max(DefaultBackoffMax, o.Restart.Backoff))
}

func (c CheckpointOptions) defaultInterval() time.Duration {
	if c.Enabled {
		return DefaultInterval
	}
	return DefaultCommitInterval
}

// problems collects what is wrong, so that a user hears of everything in one go.
type problems struct{ list []error }

func (p *problems) unless(ok bool, format string, args ...any) {
	if !ok {
		p.list = append(p.list, fmt.Errorf(format, args...))
	}
}

func (p *problems) check(err error, format string, args ...any) {
	if err != nil {
		p.list = append(p.list, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
	}
}

// Validate reports all problems at once, as one Fatal error with exit code 2 whose lines name the settings. It expects
// that EnsureDefaults has run. It never shows what came from a secret: no option here holds one.
func (o *Options) Validate() error {
	var p problems
	p.check(CheckName(o.Name), "bridge name %q", o.Name)
	p.unless(o.Semantic >= semantics.None && o.Semantic <= semantics.ExactlyOnce, "semantic: %v is none of NONE, AT_LEAST_ONCE, EXACTLY_ONCE", o.Semantic)
	p.unless(o.Workers >= 0 && o.Workers <= MaxWorkers, "workers = %d: must be from 0 (as many as GOMAXPROCS) to %d", o.Workers, MaxWorkers)
	p.unless(slices.Contains([]Policy{Replay, Fail}, o.OnTimeout), "on_timeout = %q: must be %q or %q", o.OnTimeout, Replay, Fail)
	p.unless(o.Adopt.Epoch >= 0, "--adopt=%d: an epoch is a number from 1 on", o.Adopt.Epoch)
	p.unless(o.StopTimeout > 0, "stop timeout %v: must be above 0", o.StopTimeout)
	p.unless(o.MaxInFlight > 0, "bytes in flight %d: must be above 0", o.MaxInFlight)
	if o.Semantic == semantics.ExactlyOnce {
		p.unless(o.Checkpoint.Enabled, "checkpoint: semantic EXACTLY_ONCE needs a checkpoint block; without one only NONE and AT_LEAST_ONCE are accepted")
		p.unless(len(o.TransactionalIDs) == 2 && o.TransactionalIDs[0] != o.TransactionalIDs[1] && !slices.Contains(o.TransactionalIDs, ""),
			"transactional_id: semantic EXACTLY_ONCE needs two different transactional ids, not %q", o.TransactionalIDs)
	}
	o.validateSources(&p)
	for i, m := range o.Maps {
		p.unless(m.Kind != "", "map %d: the kind is missing", i+1)
		p.unless(slices.Contains([]Policy{Fail, Skip, DeadLetter}, m.OnError), "map %d: on_error = %q: must be %q, %q or %q", i+1, m.OnError, Fail, Skip, DeadLetter)
		p.unless(m.OnError != DeadLetter || o.Sink.DeadLetterTopic != "", "map %d: on_error = %q needs a dead_letter block in the sink", i+1, DeadLetter)
	}
	o.Sink.validate(&p)
	o.Checkpoint.validate(&p)
	o.Restart.validate(&p)
	if len(p.list) == 0 {
		return nil
	}
	return semantics.Misconfigured("options of bridge "+strconv.Quote(o.Name), "%w", errors.Join(p.list...))
}

func (o *Options) validateSources(p *problems) {
	p.unless(len(o.Sources) > 0, "source: a bridge needs at least one source block")
	seen := map[string]bool{}
	for i := range o.Sources {
		s := &o.Sources[i]
		p.unless(!seen[s.Name], "source %q: two source blocks have this name; positions are kept by it", s.Name)
		seen[s.Name] = true
		s.validate(p)
	}
}

func (s *SourceOptions) validate(p *problems) {
	at := fmt.Sprintf("source %q", s.Name)
	p.check(CheckName(s.Name), "%s: name", at)
	p.unless((len(s.Topics) > 0) != (s.TopicsRegex != ""), "%s: exactly one of topics and topics_regex must be set", at)
	p.unless(len(s.TopicsExclude) == 0 || s.TopicsRegex != "", "%s: topics_exclude goes with topics_regex only", at)
	for i, t := range s.Topics {
		p.check(CheckTopic(t), "%s: topics: %q", at, t)
		p.unless(!slices.Contains(s.Topics[:i], t), "%s: topics: %q is there twice", at, t)
	}
	for _, expr := range slices.Concat([]string{s.TopicsRegex}, s.TopicsExclude) {
		_, err := regexp.Compile(expr)
		p.check(err, "%s: topics_regex, topics_exclude: %q", at, expr)
	}
	p.unless(s.Start.At >= StartEarliest && s.Start.At <= StartTime, "%s: start: unknown kind %d", at, s.Start.At)
	p.unless((s.Start.At == StartTime) == !s.Start.Time.IsZero(), "%s: start: a time goes with the kind time, and only with it", at)
	for key, offset := range s.StartOffsets {
		_, _, err := SplitPartition(key)
		p.check(err, "%s: start_offsets: %q", at, key)
		p.unless(offset >= 0, "%s: start_offsets: %q = %d: an offset is not negative", at, key, offset)
	}
	p.unless(s.Group != "", "%s: group: must not be empty", at)
	p.unless(slices.Contains([]Policy{Fail, Skip}, s.OnGap), "%s: on_gap = %q: must be %q or %q", at, s.OnGap, Fail, Skip)
	p.unless(s.Discover > 0, "%s: discover = %v: must be above 0", at, s.Discover)
	p.unless(s.FetchMaxBytes > 0, "%s: fetch_max_bytes = %d: must be above 0", at, s.FetchMaxBytes)
}

func (s *SinkOptions) validate(p *problems) {
	p.check(CheckName(s.Name), "sink %q: name", s.Name)
	p.unless(s.Topic != nil, "sink %q: topic: must be set", s.Name)
	p.unless(slices.Contains(Compressions(), s.Compression), "sink %q: compression = %q: must be one of %s", s.Name, s.Compression, strings.Join(Compressions(), ", "))
	p.unless(slices.Contains([]Policy{Fail, DeadLetter}, s.OnReject), "sink %q: on_reject = %q: must be %q or %q", s.Name, s.OnReject, Fail, DeadLetter)
	p.unless(s.OnReject != DeadLetter || s.DeadLetterTopic != "", "sink %q: on_reject = %q needs a dead_letter block", s.Name, DeadLetter)
	if s.DeadLetterTopic != "" {
		p.check(CheckTopic(s.DeadLetterTopic), "sink %q: dead_letter: topic: %q", s.Name, s.DeadLetterTopic)
	}
	p.unless(s.Linger > 0, "sink %q: linger = %v: must be above 0", s.Name, s.Linger)
	p.unless(s.MaxMessageBytes > 0, "sink %q: max_message_bytes = %d: must be above 0", s.Name, s.MaxMessageBytes)
}

func (c *CheckpointOptions) validate(p *problems) {
	setting := "checkpoint: interval"
	if !c.Enabled {
		setting = "commit_interval"
	}
	p.unless(c.Interval > 0, "%s = %v: must be above 0", setting, c.Interval)
	p.unless(c.MaxRecords >= 0, "checkpoint: max_records = %d: must not be negative; 0 is off", c.MaxRecords)
	p.unless(c.Timeout > 0, "checkpoint: timeout = %v: must be above 0", c.Timeout)
	p.unless(c.MinPause >= 0, "checkpoint: min_pause = %v: must not be negative", c.MinPause)
	p.unless(c.TolerableFailures >= 0, "checkpoint: tolerable_failures = %d: must not be negative", c.TolerableFailures)
}

func (r *RestartOptions) validate(p *problems) {
	p.unless(r.Backoff > 0, "restart: backoff = %v: must be above 0", r.Backoff)
	p.unless(r.BackoffMax >= r.Backoff, "restart: backoff_max = %v: must not be below backoff (%v)", r.BackoffMax, r.Backoff)
	p.unless(r.Attempts >= 0, "restart: attempts = %d: must not be negative; 0 is for ever", r.Attempts)
}
