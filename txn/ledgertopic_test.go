package txn

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"kafkabridge/semantics"
)

func TestLedgerTopicIsCreatedAndChecked(t *testing.T) {
	for brokers, wantISR := range map[int]string{1: "1", 3: "2"} {
		f := start(t, "", testOptions(), kfake.NumBrokers(brokers))
		f.sink.read(t, true)
		values, err := topicConfigs(testContext(t), f.sink.Ledger.adm, "orders.ledger")
		if err != nil {
			t.Fatal(err)
		}
		if values["cleanup.policy"] != "compact" || values["message.timestamp.type"] != "LogAppendTime" || values["min.insync.replicas"] != wantISR {
			t.Errorf("%d brokers: policy %q, timestamps %q, min.insync.replicas %q", brokers, values["cleanup.policy"], values["message.timestamp.type"], values["min.insync.replicas"])
		}
	}
	for name, c := range map[string]struct {
		partitions int32
		policy     string
		want       string
	}{
		"two partitions": {2, "compact", "2 partitions"},
		"delete":         {1, "delete", "cleanup.policy"},
		"both policies":  {1, "compact,delete", "cleanup.policy"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, "", testOptions())
			adm := kadm.NewClient(f.client)
			if _, err := adm.CreateTopic(testContext(t), c.partitions, 1, map[string]*string{"cleanup.policy": kadm.StringPtr(c.policy)}, "orders.ledger"); err != nil {
				t.Fatal(err)
			}
			_, err := f.sink.Ledger.Read(testContext(t), true, nil)
			refusedWith(t, err, c.want)
		})
	}
}

func TestLedgerRecordAboveTheTopicsLimit(t *testing.T) {
	opts := testOptions()
	f := start(t, "", opts)
	adm := kadm.NewClient(f.client)
	if _, err := adm.CreateTopic(testContext(t), 1, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact"), "max.message.bytes": kadm.StringPtr("2000")}, "orders.ledger"); err != nil {
		t.Fatal(err)
	}
	f.sink.read(t, true)
	tx := f.begin(t)
	rec := numbered(opts, 1)
	for p := range int32(200) {
		rec.Positions.Set(semantics.SourceTopic{Source: "east", Topic: "in"}, semantics.TopicID{}, p, semantics.Position{Offset: 1 << 40, LeaderEpoch: 5})
	}
	_, err := f.sink.Ledger.Append(testContext(t), tx, rec)
	refusedWith(t, err, "max.message.bytes")
}

// A settled read that went to a leader with an old log is found out when the claim lands behind records that it did
// not see.
func TestClaimFindsAStaleRead(t *testing.T) {
	opts := testOptions()
	f := start(t, "", opts)
	rival := opts
	rival.Incarnation = "two"
	_, r := f.join(t, rival)
	f.sink.read(t, true)
	f.sink.record(t, "orders-0", numbered(opts, 1), true)
	f.sink.read(t, true)
	r.record(t, "orders-0", numbered(rival, 2), true) // what the stale read did not see
	ctx := testContext(t)
	tx, err := f.sink.Coordinator.Fence(ctx, "orders-0")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.sink.Producer.Begin(ctx, tx); err != nil {
		t.Fatal(err)
	}
	claim := numbered(opts, 1)
	claim.Kind = semantics.LedgerClaim
	_, err = f.sink.Ledger.Append(ctx, tx, claim)
	if semantics.ClassOf(err) != semantics.Unknown || err == nil || !strings.Contains(err.Error(), "did not see") {
		t.Errorf("claim after a stale read: %v", err)
	}
}

// The claim right after the read passes, with markers and another bridge's records in between.
func TestClaimAfterAFreshReadPasses(t *testing.T) {
	opts := testOptions()
	f := start(t, "", opts)
	other := opts
	other.Bridge, other.LedgerTopic, other.TransactionalIDs = "other", "orders.ledger", []string{"other-0", "other-1"}
	_, o := f.join(t, other)
	f.sink.read(t, true)
	f.sink.record(t, "orders-0", numbered(opts, 1), true)
	f.sink.read(t, true)
	o.record(t, "other-0", numbered(other, 1), true)
	claim := numbered(opts, 1)
	claim.Kind = semantics.LedgerClaim
	offset := f.sink.record(t, "orders-0", claim, true)
	if end := f.sink.read(t, true); end.Offset != offset || end.Record.Kind != semantics.LedgerClaim {
		t.Errorf("after the claim: %+v", end)
	}
}
