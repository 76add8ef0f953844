package semantics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Semantic is the guarantee that a bridge gives. It decides which actions a Machine asks for.
type Semantic uint8

// The three guarantees; the zero value is none of them, so that a forgotten one is never the weakest.
const (
	None        Semantic = iota + 1 // records may be lost or doubled when something fails
	AtLeastOnce                     // nothing is lost; records may be doubled after a failure
	ExactlyOnce                     // a read_committed reader sees each record's effect once, in order per source partition
)

// String is the name used in configuration, logs and status.
func (s Semantic) String() string {
	switch s {
	case None:
		return "NONE"
	case AtLeastOnce:
		return "AT_LEAST_ONCE"
	case ExactlyOnce:
		return "EXACTLY_ONCE"
	default:
		return fmt.Sprintf("Semantic(%d)", uint8(s))
	}
}

// ParseSemantic accepts the exact names only: a typing error must never select a weaker guarantee.
func ParseSemantic(s string) (Semantic, error) {
	for _, v := range []Semantic{None, AtLeastOnce, ExactlyOnce} {
		if s == v.String() {
			return v, nil
		}
	}
	return 0, fmt.Errorf("semantic %q is none of NONE, AT_LEAST_ONCE, EXACTLY_ONCE", s)
}

// Epoch numbers barrier intervals from 1. A number whose transaction was aborted is used again: it identifies nothing,
// Transaction does.
type Epoch int64

// TopicID is Kafka's topic id; zero where the broker has none (before Kafka 2.8).
type TopicID [16]byte

// String is the hexadecimal form; empty for the zero id.
func (t TopicID) String() string {
	if t == (TopicID{}) {
		return ""
	}
	return fmt.Sprintf("%x", t[:])
}

// Position is the next offset to read, and the leader epoch of the batch before it (-1 when unknown).
type Position struct {
	Offset      int64
	LeaderEpoch int32
}

// SourceTopic names a topic as one source block reads it.
type SourceTopic struct {
	Source string
	Topic  string
}

// TopicPositions are the positions of one topic. ID tells a topic from a later one of the same name.
type TopicPositions struct {
	ID         TopicID
	Partitions map[int32]Position
}

// Positions say per source, topic and partition where to read next. A Positions that was handed over is never
// written again: whoever wants to change one clones it.
type Positions map[SourceTopic]TopicPositions

// Clone is a deep copy.
func (p Positions) Clone() Positions {
	c := make(Positions, len(p))
	for k, t := range p {
		c[k] = TopicPositions{ID: t.ID, Partitions: maps.Clone(t.Partitions)}
	}
	return c
}

// Equal compares ids, offsets and leader epochs.
func (p Positions) Equal(o Positions) bool {
	return maps.EqualFunc(p, o, func(a, b TopicPositions) bool { return a.ID == b.ID && maps.Equal(a.Partitions, b.Partitions) })
}

// Get is the position of one partition.
func (p Positions) Get(t SourceTopic, partition int32) (Position, bool) {
	pos, ok := p[t].Partitions[partition]
	return pos, ok
}

// Set stores the position of one partition and keeps the topic's id unless id is not zero.
func (p Positions) Set(t SourceTopic, id TopicID, partition int32, pos Position) {
	tp := p[t]
	if tp.Partitions == nil {
		tp.Partitions = map[int32]Position{}
	}
	if id != (TopicID{}) {
		tp.ID = id
	}
	tp.Partitions[partition] = pos
	p[t] = tp
}

// Know notes a source that was resolved and has no topic yet. What such a source finds later was made later, so none of
// it may be left out by start = "latest", also when the bridge dies before its first position is decided. The note is an
// entry without a topic name and without partitions.
func (p Positions) Know(source string) { p[SourceTopic{Source: source}] = TopicPositions{} }

// Knows says whether the source has any entry.
func (p Positions) Knows(source string) bool {
	for k := range p {
		if k.Source == source {
			return true
		}
	}
	return false
}

// Over is p laid over base: entries of base that p does not have (sources and topics that are no longer configured,
// partitions not found this time) are carried on. Where a topic's id differs, p's topic replaces base's whole.
func (p Positions) Over(base Positions) Positions {
	out := base.Clone()
	for k, t := range p {
		if b, ok := out[k]; ok && b.ID != t.ID && t.ID != (TopicID{}) && b.ID != (TopicID{}) {
			out[k] = TopicPositions{ID: t.ID, Partitions: maps.Clone(t.Partitions)}
			continue
		}
		for part, pos := range t.Partitions {
			out.Set(k, t.ID, part, pos)
		}
	}
	return out
}

// Topics lists the topics in a fixed order, for encodings and messages that must not change from run to run.
func (p Positions) Topics() []SourceTopic {
	return slices.SortedFunc(maps.Keys(p), func(a, b SourceTopic) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Topic, b.Topic))
	})
}

// Transaction is the identity of one Kafka transaction: by I6 there is one per (producer id, producer epoch).
// The producer epoch is the one under which the records were written; what EndTxn returns belongs to the next one.
type Transaction struct {
	ID            string // transactional id
	ProducerID    int64
	ProducerEpoch int16
	EndTxnVersion int16 // request version of EndTxn, chosen at the fence: 5 (transaction.version 2) or 4; never mixed on one id
}

// IsZero says that there is no transaction.
func (t Transaction) IsZero() bool { return t == Transaction{} }

// Same compares the identity: transactional id, producer id, producer epoch.
func (t Transaction) Same(o Transaction) bool {
	return t.ID == o.ID && t.ProducerID == o.ProducerID && t.ProducerEpoch == o.ProducerEpoch
}

// String names the transaction as logs do.
func (t Transaction) String() string {
	if t.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s pid=%d pepoch=%d", t.ID, t.ProducerID, t.ProducerEpoch)
}

// Status is what Pebble knows of a checkpoint's outcome.
type Status uint8

// Proposed: durable, outcome not known here. Decided: it counts. Aborted is written only where the ledger cannot tell
// (ledger = false, --adopt), so that the outcome of settling survives a crash after the fence.
const (
	Proposed Status = iota + 1
	Decided
	Aborted
)

// String is the word used in status and logs.
func (s Status) String() string {
	switch s {
	case Proposed:
		return "proposed"
	case Decided:
		return "decided"
	case Aborted:
		return "aborted"
	default:
		return fmt.Sprintf("Status(%d)", uint8(s))
	}
}

// Checkpoint is what one epoch leaves behind: all that is needed to go on after it.
type Checkpoint struct {
	Epoch         Epoch
	Semantic      Semantic
	Status        Status
	Incarnation   string
	Positions     Positions
	State         map[string][]byte // map state by key (map, source, topic, partition); nil without stateful maps
	Transaction   Transaction       // zero unless ExactlyOnce
	Follows       Transaction       // the last decided transaction before this epoch; zero when there was none
	Empty         bool              // ledger = false only: the transaction got no partition, so it is never ended or settled
	LedgerTopicID TopicID           // the ledger topic this checkpoint's ledger record is in
	StartedMs     int64             // the coordinator's start time of the transaction, Unix milliseconds; 0 when unknown
	TimeoutMs     int64             // the transaction timeout in milliseconds
	SavedMs       int64             // the bridge's clock when it was saved, Unix milliseconds; for people only
}

// LedgerKind tells what a ledger record stands for.
type LedgerKind string

// Epoch: the transaction holds that epoch's output. Claim: no output, an incarnation announces itself. Reset: an epoch
// without output whose positions were set by an operator.
const (
	LedgerEpoch LedgerKind = "epoch"
	LedgerClaim LedgerKind = "claim"
	LedgerReset LedgerKind = "reset"
)

// LedgerRecord is one record of the ledger topic. It is complete: compaction keeps only the last one.
type LedgerRecord struct {
	Bridge           string
	Kind             LedgerKind
	Incarnation      string      // who wrote it
	TransactionalIDs []string    // all transactional ids of the writer, in fencing order
	Epoch            Epoch       // the last decided epoch, this one's for LedgerEpoch; 0 when there was none
	Transaction      Transaction // that epoch's transaction; zero when Epoch is 0, and in a claim after epochs of another semantic
	Positions        Positions
}

// LedgerEnd is what a read of the ledger found.
type LedgerEnd struct {
	TopicID TopicID
	Found   bool // a record of this bridge is there
	Record  LedgerRecord
	Offset  int64 // of Record; -1 when there is none
}

// Numbers lists the partition numbers in order.
func (t TopicPositions) Numbers() []int32 { return slices.Sorted(maps.Keys(t.Partitions)) }
