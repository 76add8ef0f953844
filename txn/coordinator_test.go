package txn

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// open leaves a transaction with one batch behind.
func open(t *testing.T, version string) (*fixture, semantics.Transaction) {
	t.Helper()
	f, tx := begun(t, version, testOptions())
	if err := f.write(t, 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return f, tx
}

// endTxnVersions records the versions of all EndTxn requests.
func (f *fixture) endTxnVersions() func() []int16 {
	var mu sync.Mutex
	var versions []int16
	f.cluster.ControlKey(int16(kmsg.EndTxn), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		versions = append(versions, kreq.GetVersion())
		return nil, nil, false
	})
	return func() []int16 {
		mu.Lock()
		defer mu.Unlock()
		return versions
	}
}

// EndTxn is repeated with its own version until an answer decides, whatever comes in between; the answer to the
// request that did it may be lost.
func TestEndRepeatsUntilDefinitive(t *testing.T) {
	for _, err := range []*kerr.Error{
		kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress,
		kerr.UnknownServerError, kerr.RequestTimedOut, kerr.NetworkException, kerr.TransactionCoordinatorFenced,
	} {
		t.Run(err.Message, func(t *testing.T) {
			f, tx := open(t, "")
			versions := f.endTxnVersions()
			f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: tx.ID, Err: err, Count: 3})
			f.commit(t, tx)
			if v := versions(); len(v) < 4 || v[0] != 5 {
				t.Errorf("versions %v", v)
			}
			f.expect(t, 3)
		})
	}
}

func TestEndAfterLostAnswers(t *testing.T) {
	f, tx := open(t, "")
	cl2, s2 := f.join(t, f.sink.opts) // carries out the request whose answer is lost
	_ = cl2
	lost := 0
	f.cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		if lost++; lost == 1 {
			return nil, errors.New("cut"), true
		}
		return nil, nil, false
	})
	f.commit(t, tx)
	// The same again, long after: committed with version 5 and not used since.
	if o, next, err := s2.Coordinator.End(testContext(t), tx, true); err != nil || o != semantics.OutcomeCommitted || next.Same(tx) {
		t.Errorf("asked again: %s, %s, %v", o, next, err)
	}
}

// A cluster that offers version 5 gets version 4 for a transaction that says so.
func TestEndTxnVersionIsTheTransactions(t *testing.T) {
	f := start(t, "", testOptions())
	versions := f.endTxnVersions()
	tx, err := f.sink.Coordinator.Fence(testContext(t), "orders-0")
	if err != nil {
		t.Fatal(err)
	}
	tx.EndTxnVersion = 4
	if err := f.sink.Producer.Begin(testContext(t), tx); err != nil {
		t.Fatal(err)
	}
	if err := f.write(t, 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	f.commit(t, tx)
	if v := versions(); len(v) != 1 || v[0] != 4 {
		t.Errorf("versions %v, want 4", v)
	}
}

// When the context ends first, the outcome is unknown, never nil and never "not done".
func TestEndWithoutAnAnswerIsUnknown(t *testing.T) {
	f, tx := open(t, "")
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: tx.ID, Err: kerr.ConcurrentTransactions, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	o, _, err := f.sink.Coordinator.End(ctx, tx, true)
	if o != 0 || semantics.ClassOf(err) != semantics.Unknown || !errors.Is(err, kerr.ConcurrentTransactions) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("outcome %d, %v", o, err)
	}
}

func TestEndOfAFencedTransactionIsAmbiguous(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping} {
		f, tx := open(t, "")
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: tx.ID, Err: err})
		if o, _, err := f.sink.Coordinator.End(testContext(t), tx, true); err != nil || o != semantics.OutcomeAmbiguous {
			t.Errorf("%v: %s", err, o)
		}
	}
}

func TestAbortedIsAborted(t *testing.T) {
	f, tx := open(t, "")
	o, _, err := f.sink.Coordinator.End(testContext(t), tx, false)
	if err != nil || o != semantics.OutcomeAborted {
		t.Fatalf("abort: %s, %v", o, err)
	}
	if o, _, err := f.sink.Coordinator.End(testContext(t), tx, true); err != nil || o != semantics.OutcomeAborted {
		t.Fatalf("commit after an abort: %s, %v", o, err)
	}
}

// The fence waits for markers and a moving coordinator; a fenced owner's refresh says so and takes nothing back.
func TestFenceAndRefresh(t *testing.T) {
	f, old := open(t, "")
	_, rival := f.join(t, f.sink.opts)
	for _, err := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorNotAvailable} {
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TxnID: old.ID, Err: err, Count: 2})
	}
	tx, err := rival.Coordinator.Fence(testContext(t), old.ID)
	if err != nil || tx.ProducerID != old.ProducerID || tx.ProducerEpoch <= old.ProducerEpoch || tx.EndTxnVersion != 5 {
		t.Fatalf("fence: %s, %v", tx, err)
	}
	// The fake broker takes any older epoch and would give the id back; a real one fences (see the tests on real brokers).
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TxnID: old.ID, Err: kerr.ProducerFenced})
	if _, err := f.sink.Coordinator.Refresh(testContext(t), old); !semantics.IsFenced(err) {
		t.Errorf("refresh of the fenced: %v", err)
	}
	_ = f.sink.Producer.Write(testContext(t), outbound(t, 0, 3, 3, nil))
	if _, err := f.sink.Producer.Flush(testContext(t)); !semantics.IsFenced(err) {
		t.Errorf("produce of the fenced: %v", err)
	}
	next, err := rival.Coordinator.Refresh(testContext(t), tx)
	if err != nil || next.Same(tx) {
		t.Errorf("refresh of the owner: %s, %v", next, err)
	}
	if _, err := rival.Coordinator.Refresh(testContext(t), semantics.Transaction{ID: "orders-0", ProducerID: -1, ProducerEpoch: -1}); semantics.ClassOf(err) != semantics.Fatal {
		t.Errorf("a blind refresh: %v", err)
	}
}

func TestChecks(t *testing.T) {
	t.Run("Kafka 3.5", func(t *testing.T) {
		f := start(t, "v3.5", testOptions())
		err := f.sink.Check(testContext(t))
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitUsage || !strings.Contains(err.Error(), "Kafka 3.6") {
			t.Errorf("check: %v", err)
		}
	})
	t.Run("transaction timeout", func(t *testing.T) {
		opts := testOptions()
		opts.TransactionTimeout = time.Hour
		f := start(t, "", opts, kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "900000"}))
		err := f.sink.Check(testContext(t))
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitUsage || !strings.Contains(err.Error(), "transaction_timeout") || !strings.Contains(err.Error(), "15m") {
			t.Errorf("check: %v", err)
		}
	})
	t.Run("transaction timeout, settings not readable", func(t *testing.T) {
		f := start(t, "", testOptions())
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.ClusterAuthorizationFailed, Count: -1})
		if err := f.sink.Check(testContext(t)); err != nil {
			t.Errorf("check: %v", err)
		}
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TxnID: "orders-0", Err: kerr.InvalidTransactionTimeout})
		_, err := f.sink.Coordinator.Fence(testContext(t), "orders-0")
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitUsage || !strings.Contains(err.Error(), "transaction.max.timeout.ms") {
			t.Errorf("fence: %v", err)
		}
	})
	t.Run("authorization", func(t *testing.T) {
		f := start(t, "", testOptions())
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TxnID: "orders-0", Err: kerr.TransactionalIDAuthorizationFailed})
		_, err := f.sink.Coordinator.Fence(testContext(t), "orders-0")
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitUsage || !strings.Contains(err.Error(), `WRITE on transactional id "orders-0"`) {
			t.Errorf("fence: %v", err)
		}
	})
}

func TestOptionsReportAllProblems(t *testing.T) {
	_, err := New(Options{TransactionalIDs: []string{"a"}, MaxInFlight: -1}, nil, nil)
	for _, want := range []string{"semantic", "bridge", "max in flight"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
