//go:build kafka

package integration

import (
	"fmt"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
)

// TestMaps: a chain with a map of each kind and dead letters, killed at random moments, at the commit point, and once for so long
// that the broker aborts what was prepared. All sink topics show what the test computes, once and in order.
func TestMaps(t *testing.T) {
	for _, cluster := range suiteClusters() {
		t.Run(clusterName(cluster), func(t *testing.T) {
			c := sharedCluster(t, cluster)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			o := &orders{bootstrap: c.Bootstrap(), topic: r.in[0], partitions: 3, records: 3_000, begin: time.Now(), during: 6 * time.Second}
			r.cfg.Maps = o.blocks(r.out)
			r.deadLettersTo(r.name + "-dead")
			r.cfg.Checkpoint["interval"], r.cfg.Checkpoint["timeout"] = "200ms", "5s"
			r.cfg.Sink.Attrs["transaction_timeout"] = "6s"
			done := make(chan error, 1)
			go func() { done <- o.produce(t.Context()) }()
			r.killLoop(1)
			r.failpoint(r.start(daemon.AfterPersist+":2"), time.Minute)
			r.aborted()
			r.failpoint(r.start(daemon.AfterCommit), time.Minute) // what is read again
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			r.untilEnd()
			r.nothingOpen()
			for _, topic := range []string{r.out + "-east", r.out + "-west"} {
				r.shows(topic, func(rec oracle.Record) []oracle.Record {
					if topicOf(r.out, of(rec)) != topic {
						return nil
					}
					return o.becomes(rec)
				}, nil)
			}
			r.shows(r.name+"-dead", o.letter, func(rec oracle.Record) oracle.Record {
				rec, err := withoutError(rec)
				if err != nil {
					t.Error(err)
				}
				return rec
			})
			err := oracle.Read(t.Context(), c.Bootstrap(), oracle.Committed, []string{r.out}, func(rec oracle.Record) error {
				return fmt.Errorf("%s was not routed", rec)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
