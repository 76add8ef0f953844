package semantics

import "testing"

// TestGroupsGoOnFromTheirOffsets: EXACTLY_ONCE, then AT_LEAST_ONCE without a checkpoint block. The group has moved on since the ledger's
// last epoch: taking the ledger's positions would read everything since then again, at each start.
func TestGroupsGoOnFromTheirOffsets(t *testing.T) {
	topic := SourceTopic{Source: "s", Topic: "t"}
	at := func(offsets map[int32]int64) Positions {
		p := Positions{}
		for part, o := range offsets {
			p.Set(topic, TopicID{1}, part, Position{Offset: o, LeaderEpoch: -1})
		}
		return p
	}
	tx := Transaction{ID: "b-1", ProducerID: 7, ProducerEpoch: 3, EndTxnVersion: 5}
	e := &evidence{
		end:         LedgerEnd{Found: true, Offset: 12, Record: LedgerRecord{Epoch: 5, Transaction: tx, Positions: at(map[int32]int64{0: 10, 1: 3})}},
		checkpoints: []Checkpoint{{Epoch: 0, Semantic: AtLeastOnce, Status: Decided, Positions: at(map[int32]int64{0: 20})}},
	}
	b, err := judge(&Config{Semantic: AtLeastOnce, Ledger: true, Groups: true}, e)
	if err != nil {
		t.Fatal(err)
	}
	want := at(map[int32]int64{0: 20, 1: 3}) // partition 1 was never published: the ledger knows it
	if !b.positions.Equal(want) || b.epoch != 5 || !b.tx.Same(tx) || b.recovery.Outcome != RecoveryClean {
		t.Errorf("goes on from %v, epoch %d, %s, %s", b.positions, b.epoch, b.tx, b.recovery.Outcome)
	}
	if b, err = judge(&Config{Semantic: AtLeastOnce, Ledger: true}, e); err != nil || b.positions.Equal(want) {
		t.Errorf("a state directory that follows nothing must not win over the ledger: %v, %v", b, err)
	}
}
