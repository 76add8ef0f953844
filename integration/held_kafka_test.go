//go:build kafka

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
	"kafkabridge/integration/kafka"
)

// TestHeldBack: a foreign transaction is left open in the source. The status names it, with its age, in the document, in the sentence and
// in the metrics; when it ends everything comes through.
func TestHeldBack(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			d := r.start("")
			r.ready(d)
			foreign := r.name + "-somebody"
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.TransactionalID(foreign), kgo.TransactionTimeout(5*time.Minute),
				kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: r.in[0], Partition: 2, Value: []byte("held")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			var held bridge.PartitionStatus
			ctx, cancel := contextWithTimeout(t, time.Minute)
			defer cancel()
			var seen string
			err = kafka.Poll(ctx, "the status names the holder", func() (bool, error) {
				text, err := d.Status(t.Context())
				if err != nil {
					return false, err
				}
				var doc struct{ Bridges []bridge.Status }
				if err := json.Unmarshal([]byte(text), &doc); err != nil {
					return false, err
				}
				for _, p := range doc.Bridges[0].Sources[0].Partitions {
					if p.Partition == 2 {
						held = p
					} else if p.HeldSecs != 0 {
						t.Errorf("partition %d is held, too: %+v", p.Partition, p)
					}
				}
				seen = doc.Bridges[0].WaitsFor + " " + doc.Bridges[0].Sources[0].HoldersUnknown
				if held.HeldBy == nil {
					return false, nil
				}
				return strings.Contains(seen, fmt.Sprintf("the open transaction of transactional id %q", foreign)), nil
			})
			if err != nil {
				t.Fatalf("%v: held %+v, it says: %s", err, held, seen)
			}
			h := held.HeldBy
			if h.TransactionalID != foreign || h.Own || h.ProducerID < 0 || h.SinceMs < began.Add(-time.Minute).UnixMilli() || h.SinceMs > time.Now().Add(time.Second).UnixMilli() {
				t.Errorf("%+v, began %d", h, began.UnixMilli())
			}
			if n := r.metric(d, "bridge_source_held_back_seconds", `partition="2"`); n < 5 {
				t.Errorf("held for %v s", n)
			}
			if n := r.metric(d, "bridge_source_held_back_by", fmt.Sprintf("transactional_id=%q", foreign)); n != 1 {
				t.Errorf("held by: %v", n)
			}
			if out, _ := r.command(0, "status"); !strings.Contains(out, fmt.Sprintf("by transactional id %q", foreign)) {
				t.Errorf("bridge status:\n%s", out)
			}
			if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			r.drained(d)
			r.terminate(d)
		})
	}
}
