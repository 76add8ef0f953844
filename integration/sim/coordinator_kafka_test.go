//go:build kafka

package sim

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/kafka"
)

// TestRealInitOnOwnOpenTransaction asks real coordinators what the simulation's must answer to an InitProducerID with (producer id, epoch)
// while that producer's own transaction is open: no table of facts has it.
func TestRealInitOnOwnOpenTransaction(t *testing.T) {
	for _, b := range []struct {
		name    string
		options kafka.Options
		want    string
	}{
		{"TV2", kafka.Options{TransactionVersion: 2}, "ok"},
		{"TV1", kafka.Options{TransactionVersion: 1}, "PRODUCER_FENCED"},
		{"3.9", kafka.Options{Version: kafka.BeforeV2}, "PRODUCER_FENCED"},
	} {
		t.Run(b.name, func(t *testing.T) {
			c := kafka.StartT(t, b.options)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := c.Admin().CreateTopic(ctx, 1, 1, nil, "own"); err != nil {
				t.Fatal(err)
			}
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.TransactionalID("own"), kgo.DefaultProduceTopic("own"))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
				t.Fatal(err)
			}
			pid, epoch, err := cl.ProducerID(ctx)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("open: pid %d epoch %d", pid, epoch)
			for range 20 {
				req := kmsg.NewPtrInitProducerIDRequest()
				req.TransactionalID = kmsg.StringPtr("own")
				req.TransactionTimeoutMillis = 60000
				req.ProducerID, req.ProducerEpoch = pid, epoch
				resp, err := req.RequestWith(ctx, cl)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("InitProducerID(%d, %d): %s, pid %d epoch %d", pid, epoch, code(resp.ErrorCode), resp.ProducerID, resp.ProducerEpoch)
				if resp.ErrorCode != kerr.ConcurrentTransactions.Code {
					if got := code(resp.ErrorCode); got != b.want || got == "ok" && resp.ProducerEpoch != epoch+1 {
						t.Errorf("got %s, want %s, and the next epoch where it is ok", got, b.want)
					}
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Error("no answer but CONCURRENT_TRANSACTIONS")
		})
	}
}
