package sim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// watch is the oracle on the wire: it sees what every living process sends and what it is answered, and what the coordinator commits, and
// holds that against the invariants (numbers as in design and code). It shares nothing with the bridge but the ledger's JSON.
type watch struct {
	errorf func(format string, args ...any)
	ledger bool
	jumps  bool // the semantic changes: a claim may stand for epochs that had no transaction

	mu      sync.Mutex
	txns    map[txnKey]*txnSeen
	procs   map[string]*procSeen
	decided []decision // what the coordinator has committed, in order; claims too
}

// txnKey is a transaction's identity: one per producer id and epoch (I6).
type txnKey struct {
	id    string
	pid   int64
	epoch int16
}

func (k txnKey) String() string { return fmt.Sprintf("%s pid=%d pepoch=%d", k.id, k.pid, k.epoch) }

func keyOf(r *kmsg.EndTxnRequest) txnKey {
	return txnKey{r.TransactionalID, r.ProducerID, r.ProducerEpoch}
}

// txnSeen is what was seen of one transaction.
type txnSeen struct {
	batches map[batchKey]bool // sent; true: acknowledged
	data    int               // of them, those that are not the ledger's
	records []ledgerValue     // the ledger's
	commit  bool              // its commit was asked for
	known   bool              // and answered definitively
	commits int               // by the coordinator
	written bool              // something was sent since the last of them
	blind   int               // the step of the process in which a blind InitProducerID gave out this epoch; 0: none did
}

type batchKey struct {
	topic     string
	partition int32
	sequence  int32
}

func (t *txnSeen) claim() bool {
	return t.data == 0 && len(t.records) == 1 && t.records[0].Kind == "claim"
}

// procSeen is what was seen of one process.
type procSeen struct {
	step    int
	fenced  int       // the step of the last answered blind InitProducerID on the first id since its last claim; 0: none
	claimed int       // the step of its last committed claim; 0: none
	at      time.Time // of its first committed claim
}

// ledgerValue is the JSON of a ledger record (txn/LEDGER.md), as far as it is looked at.
type ledgerValue struct {
	Kind        string `json:"kind"`
	Incarnation string `json:"incarnation"`
	Epoch       int64  `json:"epoch"`
	Transaction *struct {
		ID            string `json:"id"`
		ProducerID    int64  `json:"producer_id"`
		ProducerEpoch int16  `json:"producer_epoch"`
	} `json:"transaction"`
	Positions map[string]map[string]struct {
		Offsets map[int32]int64 `json:"offsets"`
	} `json:"positions"`
}

func (v ledgerValue) key() txnKey {
	if v.Transaction == nil {
		return txnKey{}
	}
	return txnKey{v.Transaction.ID, v.Transaction.ProducerID, v.Transaction.ProducerEpoch}
}

// decision is one committed transaction.
type decision struct {
	key    txnKey
	record ledgerValue
}

func newWatch(cfg config, errorf func(string, ...any)) *watch {
	return &watch{errorf: errorf, ledger: cfg.ledger, jumps: cfg.twist == twistSemantic, txns: map[txnKey]*txnSeen{}, procs: map[string]*procSeen{}}
}

func (w *watch) txn(k txnKey) *txnSeen {
	t := w.txns[k]
	if t == nil {
		t = &txnSeen{batches: map[batchKey]bool{}}
		w.txns[k] = t
	}
	return t
}

func (w *watch) proc(who string) *procSeen {
	p := w.procs[who]
	if p == nil {
		p = &procSeen{}
		w.procs[who] = p
	}
	p.step++
	return p
}

// header is what the oracle needs of a record batch (format v2).
type header struct {
	pid      int64
	epoch    int16
	sequence int32
	records  []byte
	codec    byte
}

func headerOf(raw []byte) header {
	b := binary.BigEndian
	return header{int64(b.Uint64(raw[43:])), int16(b.Uint16(raw[51:])), int32(b.Uint32(raw[53:])), raw[61:], raw[22] & 7}
}

// eachBatch calls f with every batch of a request; one batch per partition and request.
func eachBatch(r *kmsg.ProduceRequest, f func(topic string, partition int32, h header)) {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if len(p.Records) >= 61 {
				f(t.Topic, p.Partition, headerOf(p.Records))
			}
		}
	}
}

// readLedger decodes the one record of a ledger batch.
func readLedger(h header) (v ledgerValue, err error) {
	size, n := binary.Varint(h.records)
	if n <= 0 || h.codec != 0 {
		return v, fmt.Errorf("not a plain record batch")
	}
	r := kmsg.NewRecord()
	if err := r.ReadFrom(h.records[:min(n+int(size), len(h.records))]); err != nil {
		return v, err
	}
	return v, json.Unmarshal(r.Value, &v)
}
