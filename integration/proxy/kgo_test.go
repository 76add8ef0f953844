package proxy

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRealClient: a real client and an embedded broker over loopback. Every frame of a transaction can be decoded in
// both directions, and a commit whose answer is lost was carried out.
func TestRealClient(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	n := New()
	defer n.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.Serve(0, l, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", broker.ListenAddrs()[0])
	})
	seen := map[kmsg.Key]int{}
	n.Observe(func(f *Frame, _ bool) {
		seen[f.Key]++
		if _, err := f.Request(); err != nil {
			t.Error(err)
		}
		if f.Direction == Answer {
			if _, err := f.Response(); err != nil {
				t.Error(err)
			}
		}
	})
	lost := n.Add(Rule{Keys: []kmsg.Key{kmsg.EndTxn}, Direction: Answer, Match: commits, Times: 1, Action: Cut})
	transaction(t, l.Addr().String())
	if lost.Count() != 1 {
		t.Errorf("%d answers to EndTxn were cut, want 1", lost.Count())
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("a"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got := consumer.PollFetches(ctx).NumRecords(); got != 1 {
		t.Errorf("%d committed records, want 1", got)
	}
	n.Close()
	if err := n.Err(); err != nil {
		t.Error(err)
	}
	for _, key := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.InitProducerID, kmsg.Produce, kmsg.EndTxn} {
		if seen[key] < 2 {
			t.Errorf("%s was seen %d times", key.Name(), seen[key])
		}
	}
}

// transaction commits one record through the proxy; the embedded broker does not advertise it, so the client dials it.
func transaction(t *testing.T, proxied string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(proxied), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("a"),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, proxied)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	_ = cl.EndTransaction(t.Context(), kgo.TryCommit) // its answer is cut; whether kgo repeats it is not of interest
}
