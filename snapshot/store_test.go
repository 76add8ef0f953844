package snapshot

import (
	"errors"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kafkabridge/semantics"
)

// full carries a value in every field of a checkpoint.
func full(epoch semantics.Epoch, status semantics.Status) semantics.Checkpoint {
	p := semantics.Positions{}
	p.Set(semantics.SourceTopic{Source: "a", Topic: "orders"}, semantics.TopicID{1, 2, 3}, 0, semantics.Position{Offset: 1 << 40, LeaderEpoch: 7})
	p.Set(semantics.SourceTopic{Source: "a", Topic: "orders"}, semantics.TopicID{1, 2, 3}, 5, semantics.Position{Offset: int64(epoch), LeaderEpoch: -1})
	p.Set(semantics.SourceTopic{Source: "b", Topic: "orders"}, semantics.TopicID{}, 0, semantics.Position{})
	return semantics.Checkpoint{
		Epoch: epoch, Semantic: semantics.ExactlyOnce, Status: status, Incarnation: "inc", Positions: p,
		State:         map[string][]byte{"m/a/orders/0": {0, 255}, "not \xff utf8": {}},
		Transaction:   semantics.Transaction{ID: "t.1", ProducerID: 4000, ProducerEpoch: 32767, EndTxnVersion: 5},
		Follows:       semantics.Transaction{ID: "t.0", ProducerID: 4001, ProducerEpoch: 3, EndTxnVersion: 4},
		Empty:         true,
		LedgerTopicID: semantics.TopicID{9, 15: 8}, StartedMs: 1, TimeoutMs: 900000, SavedMs: 1700000000000,
	}
}

func mustOpen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func epochs(t *testing.T, s *Store) (out []semantics.Epoch) {
	t.Helper()
	all, err := s.Load()
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	for _, c := range all {
		out = append(out, c.Epoch)
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryFieldComesBack(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, Options{Path: "state", Bridge: "b", FS: fs})
	want := full(300, semantics.Proposed)
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Fatalf("the test leaves field %s zero", v.Type().Field(i).Name)
		}
	}
	must(t, s.Save(want))
	must(t, s.Save(semantics.Checkpoint{Epoch: 2, Semantic: semantics.None, Status: semantics.Aborted}))
	must(t, s.Close())
	s = mustOpen(t, Options{Path: "state", Bridge: "b", FS: fs})
	defer s.Close()
	got, err := s.Load()
	must(t, err)
	if len(got) != 2 || got[0].Epoch != 2 || !reflect.DeepEqual(got[1], want) {
		t.Fatalf("got %+v\nwant %+v", got, want)
	}
	if got[0].State != nil || got[0].Positions != nil {
		t.Fatalf("nil maps came back as %+v", got[0])
	}
}

func TestRetentionKeepsLastDecidedAndNewer(t *testing.T) {
	s := mustOpen(t, Options{Path: "state", Bridge: "b", FS: vfs.NewMem(), Retain: 2})
	defer s.Close()
	for e := semantics.Epoch(1); e <= 5; e++ {
		must(t, s.Save(full(e, semantics.Proposed)))
	}
	want := func(step string, w ...semantics.Epoch) {
		t.Helper()
		if got := epochs(t, s); !reflect.DeepEqual(got, w) {
			t.Fatalf("after %s: %v, want %v", step, got, w)
		}
	}
	want("five proposed", 1, 2, 3, 4, 5)
	must(t, s.Decide(3, semantics.Decided))
	want("3 decided: it, 4 and 5 stay whatever Retain says", 3, 4, 5)
	must(t, s.Decide(4, semantics.Decided))
	want("4 decided", 4, 5)
	must(t, s.Decide(5, semantics.Decided))
	want("5 decided", 4, 5)
	must(t, s.Save(full(6, semantics.Decided)))
	want("6 saved as decided", 5, 6)
	must(t, s.Drop(6, 77))
	want("6 dropped", 5)
}

func TestDecidedIsNotLost(t *testing.T) {
	s := mustOpen(t, Options{Path: "state", Bridge: "b", FS: vfs.NewMem()})
	defer s.Close()
	must(t, s.Save(full(1, semantics.Decided)))
	for what, err := range map[string]error{
		"replaced by a proposed one": s.Save(full(1, semantics.Proposed)),
		"aborted after decided":      s.Decide(1, semantics.Aborted),
		"decided back to proposed":   s.Decide(1, semantics.Proposed),
		"unknown epoch":              s.Decide(9, semantics.Decided),
	} {
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitRefused {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	if got := epochs(t, s); !reflect.DeepEqual(got, []semantics.Epoch{1}) {
		t.Fatal(got)
	}
}
