package txn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kafkabridge/semantics"
)

func goldenRecord() semantics.LedgerRecord {
	return semantics.LedgerRecord{
		Bridge: "orders", Kind: semantics.LedgerEpoch, Incarnation: "6f1c", TransactionalIDs: []string{"orders-0", "orders-1"}, Epoch: 42,
		Transaction: semantics.Transaction{ID: "orders-1", ProducerID: 4001, ProducerEpoch: 17, EndTxnVersion: 5},
		Positions: semantics.Positions{
			{Source: "east", Topic: "orders"}: {
				ID:         semantics.TopicID{0xde, 0xad, 0xbe, 0xef, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
				Partitions: map[int32]semantics.Position{0: {Offset: 1042, LeaderEpoch: 3}, 1: {Offset: 77, LeaderEpoch: -1}, 10: {Offset: 0, LeaderEpoch: 0}},
			},
			{Source: "north", Topic: "a<b>&\"c"}: {Partitions: map[int32]semantics.Position{2: {Offset: 1 << 60, LeaderEpoch: -1}}},
		},
	}
}

// The bytes of format 1 must never change: brokers keep them for ever.
func TestLedgerGolden(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "ledger-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := encodeLedger(goldenRecord())
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.TrimSpace(golden); !bytes.Equal(got, want) {
		t.Errorf("encoded\n%s\nwant\n%s", got, want)
	}
	rec, err := decodeLedger("orders", golden)
	if err != nil {
		t.Fatal(err)
	}
	if !sameRecord(rec, goldenRecord()) {
		t.Errorf("decoded %+v", rec)
	}
}

func sameRecord(a, b semantics.LedgerRecord) bool {
	ap, bp := a.Positions, b.Positions
	a.Positions, b.Positions = nil, nil
	return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) && ap.Equal(bp)
}

func TestFirstClaimHasNoTransaction(t *testing.T) {
	rec := goldenRecord()
	rec.Kind, rec.Epoch, rec.Transaction = semantics.LedgerClaim, 0, semantics.Transaction{}
	value, err := encodeLedger(rec)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeLedger("orders", value); err != nil || !sameRecord(got, rec) {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

func TestLedgerDecoderRefuses(t *testing.T) {
	good, err := encodeLedger(goldenRecord())
	if err != nil {
		t.Fatal(err)
	}
	swap := func(old, new string) string {
		s := strings.Replace(string(good), old, new, 1)
		if s == string(good) {
			t.Fatalf("%q is not in the record", old)
		}
		return s
	}
	for name, c := range map[string]struct{ value, want string }{
		"tombstone":           {"", "tombstone"},
		"newer format":        {swap(`"format":1`, `"format":2`), "newer version of the bridge"},
		"newer and different": {`{"format":7,"whatever":[1]}`, "newer version of the bridge"},
		"no format":           {swap(`"format":1,`, ``), "format 0"},
		"not JSON":            {"positions", "no JSON object"},
		"unknown field":       {swap(`"epoch":42`, `"epoch":42,"extra":1`), "unknown field"},
		"two of a field":      {swap(`"epoch":42`, `"epoch":41,"epoch":42`), "form"},
		"two of a partition":  {swap(`"0":1042`, `"0":1041,"0":1042`), "form"},
		"other case":          {swap(`"epoch":42`, `"Epoch":42`), "form"},
		"positions null":      {`{"format":1,"bridge":"orders","kind":"claim","incarnation":"","transactional_ids":[],"epoch":0}`, "form"},
		"something behind":    {string(good) + "{}", ""},
		"other bridge":        {swap(`"bridge":"orders"`, `"bridge":"others"`), "its value"},
		"other kind":          {swap(`"kind":"epoch"`, `"kind":"guess"`), "kind"},
		"epoch 0":             {swap(`"epoch":42`, `"epoch":0`), "epoch"},
		"negative epoch":      {swap(`"epoch":42`, `"epoch":-1`), "epoch"},
		"negative offset":     {swap(`"0":1042`, `"0":-5`), "partition 0"},
		"negative partition":  {swap(`"0":1042`, `"-1":1042`), "partition -1"},
		"huge partition":      {swap(`"0":1042`, `"4294967296":1042`), "number"},
		"topic id":            {swap(`deadbeef`, `deadbe`), "topic id"},
		"epoch of nothing":    {swap(`"leader_epochs":{"0":3`, `"leader_epochs":{"0":3,"1":2,"3":9`), ""},
		"negative pid":        {swap(`"producer_id":4001`, `"producer_id":-1`), "transaction"},
		"too large":           {string(good) + strings.Repeat(" ", maxLedgerValue), "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeLedger("orders", []byte(c.value))
			if !errors.Is(err, errLedgerRecord) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := decodeLedger("others", good); err == nil {
		t.Error("the record of another bridge was taken")
	}
	if _, err := decodeLedger("orders", []byte(" "+strings.ReplaceAll(string(good), ":{", " : {\n")+"\n")); err != nil {
		t.Errorf("white space is refused: %v", err)
	}
}

// JSON would replace what is not UTF-8, and the bridge would refuse its own record at the next start.
func TestLedgerTakesTextOnly(t *testing.T) {
	for _, rec := range []semantics.LedgerRecord{
		{Bridge: "b", Kind: semantics.LedgerClaim, TransactionalIDs: []string{"\xea\xab-0", "\xea\xab-1"}},
		{Bridge: "b", Kind: semantics.LedgerClaim, Positions: semantics.Positions{semantics.SourceTopic{Source: "\xff", Topic: "t"}: {}}},
	} {
		if _, err := encodeLedger(rec); semantics.ClassOf(err) != semantics.Fatal {
			t.Errorf("%q: %v", rec.TransactionalIDs, err)
		}
	}
	o := testOptions()
	o.TransactionalIDs = []string{"\xea\xab-0", "\xea\xab-1"}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("%v", err)
	}
}
