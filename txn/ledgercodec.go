package txn

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"kafkabridge/semantics"
)

// ledgerFormat is the newest format that this program writes and reads. LEDGER.md lists what each means.
const ledgerFormat = 1

// Bounds of a ledger record that is read: whatever exceeds them was not written by a bridge.
const (
	maxLedgerValue = 16 << 20 // bytes; about 400,000 partitions
	maxLedgerIDs   = 64
	maxLedgerText  = 32767 // bytes of an id or name: Kafka's own limit of short strings
)

// ledgerValue is the JSON of a ledger record. The order of the fields is that of the encoding: part of the format.
type ledgerValue struct {
	Format           int                                     `json:"format"`
	Bridge           string                                  `json:"bridge"`
	Kind             semantics.LedgerKind                    `json:"kind"`
	Incarnation      string                                  `json:"incarnation"`
	TransactionalIDs []string                                `json:"transactional_ids"`
	Epoch            semantics.Epoch                         `json:"epoch"`
	Transaction      *ledgerTransaction                      `json:"transaction,omitempty"`
	Positions        map[string]map[string]ledgerTopicOffset `json:"positions"`
}

type ledgerTransaction struct {
	ID            string `json:"id"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	EndTxnVersion int16  `json:"end_txn_version"`
}

type ledgerTopicOffset struct {
	ID           string          `json:"id,omitempty"`
	Offsets      map[int32]int64 `json:"offsets"`
	LeaderEpochs map[int32]int32 `json:"leader_epochs,omitempty"` // only those that are known
}

// encodeLedger is the value of rec. The same record always gives the same bytes.
func encodeLedger(rec semantics.LedgerRecord) ([]byte, error) {
	if err := textOnly(rec); err != nil {
		return nil, err
	}
	v := ledgerValue{
		Format: ledgerFormat, Bridge: rec.Bridge, Kind: rec.Kind, Incarnation: rec.Incarnation,
		TransactionalIDs: append([]string{}, rec.TransactionalIDs...), Epoch: rec.Epoch,
		Positions: map[string]map[string]ledgerTopicOffset{},
	}
	if !rec.Transaction.IsZero() {
		t := ledgerTransaction(rec.Transaction)
		v.Transaction = &t
	}
	for key, tp := range rec.Positions {
		if v.Positions[key.Source] == nil {
			v.Positions[key.Source] = map[string]ledgerTopicOffset{}
		}
		if key.Topic == "" {
			continue // semantics.Positions.Know: a source without a topic is an empty object
		}
		to := ledgerTopicOffset{ID: tp.ID.String(), Offsets: map[int32]int64{}}
		for partition, pos := range tp.Partitions {
			to.Offsets[partition] = pos.Offset
			if pos.LeaderEpoch >= 0 {
				if to.LeaderEpochs == nil {
					to.LeaderEpochs = map[int32]int32{}
				}
				to.LeaderEpochs[partition] = pos.LeaderEpoch
			}
		}
		v.Positions[key.Source][key.Topic] = to
	}
	return marshalLedger(v)
}

// textOnly refuses what JSON would silently replace: the record would be read back as another one, and refused.
func textOnly(rec semantics.LedgerRecord) error {
	names := append([]string{rec.Bridge, rec.Incarnation, rec.Transaction.ID}, rec.TransactionalIDs...)
	for key := range rec.Positions {
		names = append(names, key.Source, key.Topic)
	}
	for _, name := range names {
		if !utf8.ValidString(name) {
			return semantics.Misconfigured("encode the ledger record", "the name %q is not UTF-8", name)
		}
	}
	return nil
}

func marshalLedger(v ledgerValue) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the ledger record of %q: %w", v.Bridge, err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// errLedgerRecord is wrapped by every reason why a value is not a ledger record of a format known here.
var errLedgerRecord = errors.New("not a ledger record that this program understands")

func badLedger(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errLedgerRecord, fmt.Errorf(format, args...))
}

// decodeLedger reads the value of a record whose key is bridge. It takes exactly what encodeLedger writes, but for white
// space: an unknown, missing, doubled or misspelt field means that somebody else wrote it, and what it meant is a guess.
func decodeLedger(bridge string, value []byte) (semantics.LedgerRecord, error) {
	var none semantics.LedgerRecord
	if len(value) == 0 {
		return none, badLedger("the record of %q is a tombstone: somebody deleted it", bridge)
	}
	if len(value) > maxLedgerValue {
		return none, badLedger("%d bytes are more than %d", len(value), maxLedgerValue)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(value, &head); err != nil {
		return none, badLedger("no JSON object with a format number: %w", err)
	}
	if head.Format > ledgerFormat {
		return none, badLedger("it has format %d, this program knows up to %d: a newer version of the bridge wrote it; run that one", head.Format, ledgerFormat)
	}
	if head.Format < 1 {
		return none, badLedger("it has format %d", head.Format)
	}
	var v ledgerValue
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return none, badLedger("%w", err)
	}
	if err := canonical(v, value); err != nil {
		return none, err
	}
	return v.record(bridge)
}

// canonical compares value with the encoding of what was read from it. encoding/json takes the last of two fields of
// one name, ignores case, and takes null for nothing: each would hide a position.
func canonical(v ledgerValue, value []byte) error {
	want, err := marshalLedger(v)
	if err != nil {
		return badLedger("%w", err)
	}
	var have bytes.Buffer
	if err := json.Compact(&have, value); err != nil {
		return badLedger("%w", err)
	}
	if !bytes.Equal(have.Bytes(), want) {
		return badLedger("it is not in the form that this program writes (fields doubled, missing, reordered or of another case)")
	}
	return nil
}

func (v ledgerValue) record(bridge string) (semantics.LedgerRecord, error) {
	rec := semantics.LedgerRecord{
		Bridge: v.Bridge, Kind: v.Kind, Incarnation: v.Incarnation, TransactionalIDs: v.TransactionalIDs, Epoch: v.Epoch,
		Positions: semantics.Positions{},
	}
	switch v.Kind {
	case semantics.LedgerEpoch, semantics.LedgerClaim, semantics.LedgerReset:
	default:
		return rec, badLedger("kind %q", v.Kind)
	}
	switch {
	case v.Bridge != bridge:
		return rec, badLedger("its key says bridge %q, its value %q", bridge, v.Bridge)
	case v.Epoch < 0, v.Kind == semantics.LedgerEpoch && v.Epoch == 0:
		return rec, badLedger("kind %s with epoch %d", v.Kind, v.Epoch)
	case v.Epoch == 0 && v.Transaction != nil, v.Kind == semantics.LedgerEpoch && v.Transaction == nil:
		// A claim may have an epoch and no transaction: the epochs before it were made under AT_LEAST_ONCE or NONE.
		return rec, badLedger("kind %s, epoch %d and its transaction contradict each other", v.Kind, v.Epoch)
	case len(v.TransactionalIDs) > maxLedgerIDs:
		return rec, badLedger("%d transactional ids", len(v.TransactionalIDs))
	case len(v.Incarnation) > maxLedgerText:
		return rec, badLedger("an incarnation of %d bytes", len(v.Incarnation))
	}
	if t := v.Transaction; t != nil {
		rec.Transaction = semantics.Transaction(*t)
		if t.ID == "" || len(t.ID) > maxLedgerText || t.ProducerID < 0 || t.ProducerEpoch < 0 || t.EndTxnVersion < 1 {
			return rec, badLedger("transaction %s with EndTxn version %d", rec.Transaction, t.EndTxnVersion)
		}
	}
	for source, topics := range v.Positions {
		if len(topics) == 0 {
			rec.Positions.Know(source)
		}
		for topic, to := range topics {
			tp, err := to.positions()
			if err != nil {
				return rec, badLedger("source %q, topic %q: %w", source, topic, err)
			}
			rec.Positions[semantics.SourceTopic{Source: source, Topic: topic}] = tp
		}
	}
	return rec, nil
}

func (to ledgerTopicOffset) positions() (semantics.TopicPositions, error) {
	tp := semantics.TopicPositions{Partitions: make(map[int32]semantics.Position, len(to.Offsets))}
	if to.ID != "" {
		id, err := hex.DecodeString(to.ID)
		if err != nil || len(id) != len(tp.ID) {
			return tp, fmt.Errorf("topic id %q is not 16 bytes in hexadecimal", to.ID)
		}
		tp.ID = semantics.TopicID(id)
	}
	for partition, offset := range to.Offsets {
		if partition < 0 || offset < 0 {
			return tp, fmt.Errorf("partition %d at offset %d", partition, offset)
		}
		tp.Partitions[partition] = semantics.Position{Offset: offset, LeaderEpoch: -1}
	}
	for partition, epoch := range to.LeaderEpochs {
		pos, ok := tp.Partitions[partition]
		if !ok || epoch < 0 {
			return tp, fmt.Errorf("leader epoch %d of partition %d, which has no offset", epoch, partition)
		}
		pos.LeaderEpoch = epoch
		tp.Partitions[partition] = pos
	}
	return tp, nil
}
