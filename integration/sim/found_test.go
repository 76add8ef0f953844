package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// Runs that have found something, made by hand: a seed means something else after every change of the simulation.

// TestOwnOpenTransactionIsNoRival: without a ledger, on brokers with transaction.version 1, a bridge that fails with a transaction open gets its ids
// back in the same process. InitProducerID on the open transaction is answered PRODUCER_FENCED there (TestRealInitOnOwnOpenTransaction), and the
// bridge exited with code 4 because of "another instance".
func TestOwnOpenTransactionIsNoRival(t *testing.T) {
	for _, tv2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := buildWorld(t, 1, func(c *config) {
				*c = config{semantic: semantics.ExactlyOnce, tv2: tv2, brokers: 1, workers: 2, interval: time.Second, flushWithin: time.Second,
					timeout: time.Minute, oneSink: true, codec: "source", sources: [][]topic{{{"in0a", 2}}}}
			})
			w.feeders[0].first(0)
			w.feeders[0].pace = 50 * time.Millisecond
			w.feed()
			p := w.start(vfs.NewCrashableMem(), launch{})
			time.Sleep(5500 * time.Millisecond)
			// The barrier fails, its transaction is open, and the one attempt to abort it does not get through.
			f := w.to.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.NotEnoughReplicas, Count: -1},
				kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: ids()[0], Err: kerr.CoordinatorNotAvailable, Count: -1},
				kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: ids()[1], Err: kerr.CoordinatorNotAvailable, Count: -1})
			time.Sleep(5 * time.Second)
			f.Remove()
			time.Sleep(30 * time.Second)
			if p.ended() {
				w.errorf("the bridge ended: %v", p.err)
			}
			p.kill()
			<-p.done
			w.conclude(p.left())
			if t.Failed() {
				w.tr.save(t, 0)
			}
		})
	}
}
