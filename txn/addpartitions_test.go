package txn

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// Explicit membership: every partition is added before its first batch, also after passing refusals, and never with a
// version that is for brokers.
func TestAddsPartitionsBeforeTheirFirstBatch(t *testing.T) {
	f, tx := begun(t, "v3.9", testOptions())
	var mu sync.Mutex
	added := map[int32]bool{}
	refusals := []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress}
	f.cluster.ControlKey(int16(kmsg.AddPartitionsToTxn), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		req := kreq.(*kmsg.AddPartitionsToTxnRequest)
		mu.Lock()
		defer mu.Unlock()
		if req.Version > 3 {
			t.Errorf("AddPartitionsToTxn version %d", req.Version)
		}
		var refuse *kerr.Error
		if len(refusals) > 0 {
			refuse, refusals = refusals[0], refusals[1:]
		}
		resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewAddPartitionsToTxnResponseTopic()
			st.Topic = rt.Topic
			for _, p := range rt.Partitions {
				sp := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				sp.Partition = p
				if refuse != nil {
					sp.ErrorCode = refuse.Code
				} else {
					added[p] = true
				}
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, refuse != nil
	})
	f.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		req := kreq.(*kmsg.ProduceRequest)
		mu.Lock()
		defer mu.Unlock()
		for _, rt := range req.Topics {
			for _, rp := range rt.Partitions {
				if !added[rp.Partition] || req.Version > 11 {
					t.Errorf("partition %d: batch before it was added (version %d)", rp.Partition, req.Version)
				}
			}
		}
		return nil, nil, false
	})
	if err := f.write(t, 5, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	f.commit(t, tx)
	f.expect(t, 15)
}

func TestAddPartitionsFenced(t *testing.T) {
	f, _ := begun(t, "v3.9", testOptions())
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, TxnID: "orders-0", Err: kerr.ProducerFenced, Count: -1})
	_ = f.sink.Producer.Write(testContext(t), outbound(t, 0, 0, 3, nil))
	_, err := f.sink.Producer.Flush(testContext(t))
	if !semantics.IsFenced(err) || semantics.ClassOf(err) != semantics.Unknown {
		t.Errorf("flush: %v", err)
	}
}
