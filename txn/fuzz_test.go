package txn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/metrics"
	"strings"
	"testing"
	"unicode/utf8"

	"kafkabridge/semantics"
)

// allocated is what the process has allocated so far, in bytes, large objects exactly.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// FuzzLedgerDecode: whatever the decoder takes, it gives back, nothing is lost between the bytes and the record; what it
// refuses it refuses as no ledger record, in bounded memory and in a text that fits into a log.
func FuzzLedgerDecode(f *testing.F) {
	good, err := encodeLedger(goldenRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":1,"bridge":"orders","kind":"claim","incarnation":"","transactional_ids":[],"epoch":0,"positions":{}}`))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"format":1,"bridge":` + strings.Repeat("[", 20000)))
	f.Add([]byte(strings.Replace(string(good), `"6f1c"`, `"`+strings.Repeat("x", 40000)+`"`, 1)))
	f.Fuzz(func(t *testing.T, value []byte) {
		before := allocated()
		rec, err := decodeLedger("orders", value)
		if n := allocated() - before; n > 256*uint64(len(value))+4<<20 {
			t.Fatalf("%d bytes allocate %d (%v)", len(value), n, err)
		}
		if err != nil {
			if !errors.Is(err, errLedgerRecord) || len(err.Error()) > 1000 {
				t.Fatalf("an error of %d bytes, a refusal: %v", len(err.Error()), errors.Is(err, errLedgerRecord))
			}
			return
		}
		checkLedger(t, rec)
	})
}

func checkLedger(t *testing.T, rec semantics.LedgerRecord) {
	value, err := encodeLedger(rec)
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeLedger(rec.Bridge, value)
	if err != nil || !sameRecord(rec, back) {
		t.Fatalf("%+v\nis %s\nand became %+v: %v", rec, value, back, err)
	}
}

// FuzzLedgerRecord: every record that a bridge can write is read again as it was written.
func FuzzLedgerRecord(f *testing.F) {
	f.Add(uint64(1), "orders", "6f1c", "orders-0", int64(42), int64(4001), int16(17))
	f.Add(uint64(7), "a<b>&\"c\u2028", "", "\\\x00", int64(1), int64(0), int16(0))
	f.Fuzz(func(t *testing.T, seed uint64, bridge, incarnation, id string, epoch, pid int64, pepoch int16) {
		if !utf8.ValidString(bridge) || !utf8.ValidString(incarnation) || !utf8.ValidString(id) || len(incarnation)+len(id) > maxLedgerText || id == "" || epoch < 1 || pid < 0 || pepoch < 0 {
			return // what the configuration and the brokers do not let come so far
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		rec := semantics.LedgerRecord{
			Bridge: bridge, Kind: semantics.LedgerEpoch, Incarnation: incarnation, TransactionalIDs: []string{id + "-0", id + "-1"}, Epoch: semantics.Epoch(epoch),
			Transaction: semantics.Transaction{ID: id, ProducerID: pid, ProducerEpoch: pepoch, EndTxnVersion: int16(4 + rng.IntN(2))},
			Positions:   semantics.Positions{},
		}
		if seed&1 != 0 {
			rec.Kind = semantics.LedgerClaim
		}
		if seed&2 != 0 {
			rec.Positions.Know(bridge)
		}
		for i := range rng.IntN(5) {
			topic := semantics.SourceTopic{Source: fmt.Sprint("source", i%2), Topic: fmt.Sprint(i, id)}
			tp := semantics.TopicPositions{Partitions: map[int32]semantics.Position{}}
			if rng.IntN(2) == 0 {
				tp.ID = semantics.TopicID{1: byte(rng.Uint32()) | 1}
			}
			for range rng.IntN(5) {
				tp.Partitions[rng.Int32()] = semantics.Position{Offset: rng.Int64(), LeaderEpoch: rng.Int32N(4) - 1}
			}
			rec.Positions[topic] = tp
		}
		checkLedger(t, rec)
	})
}
