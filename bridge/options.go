package bridge

import (
	"time"

	"kafkabridge/semantics"
)

// Options configure one bridge. Zero values are replaced by EnsureDefaults; Validate reports all problems at once.
type Options struct {
	Name             string // [A-Za-z0-9._-]+
	Semantic         semantics.Semantic
	Workers          int // map tasks; 0 = GOMAXPROCS
	Sources          []SourceOptions
	Maps             []MapOptions // in order
	Sink             SinkOptions
	Checkpoint       CheckpointOptions
	Restart          RestartOptions
	TransactionalIDs []string // two, in fencing order; under other semantics for recovering an EXACTLY_ONCE past
	Ledger           bool     // false: the state directory is the only truth
	OnTimeout        Policy   // Replay (default) or Fail
	// TransactionTimeout is the sink's; it bounds settling and stands in checkpoints.
	TransactionTimeout time.Duration
	Adopt              Adopt
	UntilEnd           bool          // stop after everything that was committed in the sources at start
	StopTimeout        time.Duration // how long a stop may take before it gives up waiting for brokers; default 20s
	MaxInFlight        int64         // bytes of record batches between fetch and acknowledgement; default 32 MiB
}

// Policy is one word of a closed set; each field says which.
type Policy string

// The policies.
const (
	Replay Policy = "replay" // on_timeout: replay the range of an aborted transaction
	Fail   Policy = "fail"   // on_timeout, on_gap, on_error, on_reject: stop with exit code 3
	Skip   Policy = "skip"   // on_gap: record the gap and go on; on_error: drop the record and count it
	// DeadLetter, of on_error and on_reject, sends the source record as it was to the dead letter topic, in the epoch's transaction.
	DeadLetter Policy = "dead_letter"
)

// Adopt asks recovery to take a checkpoint of the state directory as the truth where the ledger lost its records.
type Adopt struct {
	Enabled bool
	Epoch   semantics.Epoch // 0: the newest whose outcome is known
}

// SourceOptions configure one source block.
type SourceOptions struct {
	Name          string
	Topics        []string
	TopicsRegex   string           // instead of Topics
	TopicsExclude []string         // regular expressions; with TopicsRegex
	NeverMatch    []string         // exact names that TopicsRegex never matches: ledger and sink topics on the same cluster
	OnSinkCluster bool             // its cluster is the sink's: no map may route to what it reads
	Start         Start            // for partitions that no checkpoint or ledger knows
	StartOffsets  map[string]int64 // "topic/partition" → offset; wins over Start
	ReadCommitted bool             // isolation_level; default true (set by configs)
	Group         string           // positions are published here after each decided epoch
	OnGap         Policy           // Fail (default) or Skip
	Discover      time.Duration    // how often new topics and partitions are looked for; default 1m
	FetchMaxBytes int32            // of one fetch answer; default 50 MiB
	// Explain adds the likely cause to a failure of the connection, without secrets; nil: errors stay as they are.
	Explain func(error) error
}

// Start says where a partition begins that nothing is known about.
type Start struct {
	At   StartAt
	Time time.Time // for StartTime
}

// StartAt is the kind of Start.
type StartAt uint8

// The kinds; StartCommitted falls back to the earliest offset where the group has none.
const (
	StartEarliest StartAt = iota + 1
	StartLatest
	StartCommitted
	StartTime
)

// SinkOptions configure routing and encoding; what concerns transactions is txn's.
type SinkOptions struct {
	Name            string
	Topic           func(sourceTopic string) (string, error) // the sink topic of a source topic; asked once per source topic
	PartitionByKey  bool                                     // partition = "key"; false: same number as the source
	CreateTopics    bool
	Compression     string        // source | none | gzip | snappy | lz4 | zstd
	Linger          time.Duration // how long an open batch that is encoded here may wait for more records; default 5ms
	MaxMessageBytes int32         // default 1 MiB
	OnReject        Policy        // records that the sink cannot take: Fail (default) or DeadLetter
	DeadLetterTopic string        // "": there is none, and no policy may be DeadLetter
	Reserved        []string      // exact names on the sink's cluster that no map may route to: ledger topics
}

// CheckpointOptions configure barriers.
type CheckpointOptions struct {
	Enabled           bool          // a checkpoint block is there; without one positions are committed to the source's group
	Interval          time.Duration // between two barriers; default 5s. Without a checkpoint block: commit_interval
	MaxRecords        int64         // also start a barrier after so many records; 0 = off
	Timeout           time.Duration // a barrier that is not flushed by then fails; default 10s
	MinPause          time.Duration // between the end of one checkpoint and the next barrier
	TolerableFailures int           // barriers in a row that may fail before the epoch fails
}

// RestartOptions configure what happens after a failure that may pass.
type RestartOptions struct {
	Backoff    time.Duration // default 500ms, doubled each time
	BackoffMax time.Duration // default 30s
	Attempts   int           // 0 = for ever
}

// MapOptions name a map kind of the registry and carry its own settings.
type MapOptions struct {
	Kind     string
	Settings any    // the kind's own options type, e.g. HeadersOptions
	OnError  Policy // records for which the map fails: Fail (default), Skip or DeadLetter
}
