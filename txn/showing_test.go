package txn

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// TestLongWaitsAreShown: Fence, Refresh and End tell why they repeat, and take it back.
func TestLongWaitsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &kfake.VirtualNetwork{}
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(net.Listen))
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), kgo.Dialer(net.DialContext))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		sink, err := New(testOptions(), cl, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sink.Close() }()
		var mu sync.Mutex
		shown := map[string]string{}
		sink.Coordinator.Report(func(what, reason string) {
			mu.Lock()
			defer mu.Unlock()
			shown[what] = reason
		})
		tx, err := sink.Coordinator.Fence(t.Context(), "orders-0")
		if err != nil {
			t.Fatal(err)
		}
		busy := func(key int16, answer func(kmsg.Request) kmsg.Response) {
			cluster.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				return answer(req), nil, true
			})
		}
		busy(22, func(req kmsg.Request) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			resp.ErrorCode = kerr.ConcurrentTransactions.Code
			return resp
		})
		busy(26, func(req kmsg.Request) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.EndTxnResponse)
			resp.ErrorCode = kerr.ConcurrentTransactions.Code
			return resp
		})
		for what, call := range map[string]func(context.Context) error{
			"fencing orders-0":                          func(ctx context.Context) error { _, err := sink.Coordinator.Fence(ctx, "orders-0"); return err },
			"refreshing the producer epoch of orders-0": func(ctx context.Context) error { _, err := sink.Coordinator.Refresh(ctx, tx); return err },
			"commit the transaction orders-0":           func(ctx context.Context) error { _, _, err := sink.Coordinator.End(ctx, tx, true); return err },
			"abort the transaction orders-0":            func(ctx context.Context) error { _, _, err := sink.Coordinator.End(ctx, tx, false); return err },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			time.Sleep(5 * time.Second) // virtual
			mu.Lock()
			if why := shown[what]; !strings.Contains(why, "CONCURRENT_TRANSACTIONS") {
				t.Errorf("%s: shown %q of %v", what, why, shown)
			}
			mu.Unlock()
			cancel()
			if err := <-done; semantics.ClassOf(err) != semantics.Unknown {
				t.Errorf("%s: %v", what, err)
			}
			if why := shown[what]; why != "" {
				t.Errorf("%s: still shown: %q", what, why)
			}
		}
	})
}
