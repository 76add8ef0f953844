package bridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// TestSourceAbortedTransactions interleaves committed and aborted transactions of several producers and plain records on
// the same partitions. What is expected comes from kgo's own consumer.
func TestSourceAbortedTransactions(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprintf("read_committed=%v", committed), func(t *testing.T) {
			r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, ReadCommitted: committed}, kfake.NumBrokers(2), kfake.SeedTopics(2, "a"))
			total := interleaveTransactions(r)
			want := consume(r, committed, total)
			if committed && len(want[topicPartition{"a", 0}])+len(want[topicPartition{"a", 1}]) == total {
				t.Fatal("nothing was aborted")
			}
			r.start(r.resolve(nil, true), 2)
			r.caughtUp(2)
			for k, v := range want {
				r.eventually(k.String(), func() bool { return len(r.values(k)) >= len(v) })
				r.want(k, v)
			}
			// From every offset on: a transaction that began before the fetch must be found aborted too.
			end := r.s.status().Partitions[1].Position // so that nothing of the other partition is in the way
			r.stop()
			k := topicPartition{"a", 0}
			for from := int64(0); from < 60; from += 7 {
				r.mu.Lock()
				clear(r.got)
				r.mu.Unlock()
				r.start(at("a", from, end), 1)
				var wantFrom []string
				for _, v := range want[k] {
					if o := offsetIn(t, v); o >= from {
						wantFrom = append(wantFrom, v)
					}
				}
				r.eventually("from", func() bool { return len(r.values(k)) >= len(wantFrom) && r.s.status().Partitions[0].Lag == 0 })
				r.want(k, wantFrom)
				r.cancel()
				<-r.result
				r.ended.Wait()
				r.cancel = nil
			}
		})
	}
}

// offsets of the values in TestSourceAbortedTransactions, filled by consume.
func offsetIn(t *testing.T, v string) int64 {
	var o int64
	if _, err := fmt.Sscanf(v[lastAt(v):], "@%d", &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func lastAt(v string) int {
	for i := len(v) - 1; i >= 0; i-- {
		if v[i] == '@' {
			return i
		}
	}
	return 0
}

// interleaveTransactions returns how many records it wrote. Each value ends in @ and the record's offset.
func interleaveTransactions(r *sourceRig) (total int) {
	ctx := srcContext(r.tb)
	plain := r.client()
	var producers []*kgo.Client
	for i := range 3 {
		producers = append(producers, r.client(kgo.TransactionalID(fmt.Sprint("up", i))))
	}
	next := [2]int64{}
	open := make([][2]bool, len(producers)) // partitions of the open transaction
	send := func(cl *kgo.Client, p int32) {
		r.produce(cl, "a", p, fmt.Sprintf("%d@%d", total, next[p]))
		next[p]++
		total++
	}
	rng := rand.New(rand.NewPCG(7, 7))
	end := func(i int, how kgo.TransactionEndTry) {
		if err := producers[i].EndTransaction(ctx, how); err != nil {
			r.tb.Fatal(err)
		}
		for p := range next {
			if open[i][p] {
				next[p]++ // the marker
			}
		}
		open[i] = [2]bool{}
	}
	for range 150 {
		i, p := rng.IntN(len(producers)+1), int32(rng.IntN(2))
		switch {
		case i == len(producers):
			send(plain, p)
		case open[i] == [2]bool{}:
			if err := producers[i].BeginTransaction(); err != nil {
				r.tb.Fatal(err)
			}
			fallthrough
		case rng.IntN(4) > 0:
			send(producers[i], p)
			open[i][p] = true
		default:
			end(i, kgo.TransactionEndTry(rng.IntN(2) == 0))
		}
	}
	for i := range producers {
		if open[i] != [2]bool{} {
			end(i, kgo.TryAbort) // markers are the last of the log: the lag behind them must be 0
		}
	}
	return total
}

// consume reads topic a with kgo's consumer up to its end.
func consume(r *sourceRig, committed bool, total int) map[topicPartition][]string {
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	cl := r.client(kgo.ConsumeTopics("a"), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(), kgo.FetchMaxWait(20*time.Millisecond))
	ends, err := r.admin().ListEndOffsets(srcContext(r.tb), "a")
	if err != nil {
		r.tb.Fatal(err)
	}
	out := map[topicPartition][]string{}
	next := map[int32]int64{}
	for {
		done := true
		ends.Each(func(o kadmListed) { done = done && next[o.Partition] >= o.Offset })
		if done {
			return out
		}
		fs := cl.PollFetches(srcContext(r.tb))
		if fs.Err() != nil {
			r.tb.Fatal(fs.Err())
		}
		fs.EachRecord(func(rec *kgo.Record) {
			next[rec.Partition] = rec.Offset + 1
			if !rec.Attrs.IsControl() {
				k := topicPartition{"a", rec.Partition}
				out[k] = append(out[k], string(rec.Value))
			}
		})
	}
}

// TestSourceHandMadeLog walks a compacted log: a batch that lost records at its end and in the middle, one that is
// empty, a control batch without its record, an aborted transaction without its first records, a gap between batches.
func TestSourceHandMadeLog(t *testing.T) {
	log := handLog{
		batches: [][]byte{
			handBatch(0, 9, 0, -1, 0, 4, 5),        // 1-3 and 6-9 are gone
			handBatch(10, 4, 0x10, 77, 3),          // of an aborted transaction
			sealHandBatch(15, 2, 0, 5, 0, nil),     // empty, kept for its producer
			handBatch(18, 0, 0x10, 88, 0),          // committed
			handMarker(19, 77, 0),                  // aborts 77
			handBatch(20, 0, 0x10, 77, 0),          // the next transaction of 77
			sealHandBatch(21, 0, 0x30, 88, 0, nil), // a marker whose record is gone
			handMarker(22, 77, 1),                  // commits 77
			handBatch(30, 1, 0, -1, 1),             // 23-30 are gone
			sealHandBatch(32, 7, 0, 5, 0, nil),     // the log ends in an empty batch
		},
		end:     40,
		aborted: []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 77, FirstOffset: 13}},
	}
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, ReadCommitted: true}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	r.serve(log.fill)
	r.start(at("a", 0), 1)
	r.caughtUp(1)
	k := topicPartition{"a", 0}
	r.eventually("all", func() bool { return len(r.values(k)) >= 6 })
	r.want(k, []string{"o0", "o4", "o5", "o18", "o20", "o31"})
	pos, err := r.s.barrier(srcContext(t), 1)
	if err != nil || offsetOf(pos, "a", 0) != 40 {
		t.Fatalf("position %d, want 40; %v", offsetOf(pos, "a", 0), err)
	}
}

// TestSourceSkipsBatchesBefore has a broker that answers from an earlier batch on than asked for: its aborted
// transactions still count, its batches do not come.
func TestSourceSkipsBatchesBefore(t *testing.T) {
	log := handLog{
		batches: [][]byte{
			handBatch(0, 0, 0, -1, 0),
			handBatch(1, 0, 0x10, 77, 0), // aborted
			handMarker(2, 77, 0),
			handBatch(3, 1, 0x10, 77, 0, 1), // the next transaction, committed
			handMarker(5, 77, 1),
		},
		end:     6,
		aborted: []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 77, FirstOffset: 1}},
	}
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, ReadCommitted: true}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	r.serve(func(offset int64, p *kmsg.FetchResponseTopicPartition) {
		p.HighWatermark, p.LastStableOffset = log.end, log.end
		if offset < log.end {
			log.raw(offset, p)
			p.AbortedTransactions = slices.Clone(log.aborted)
		}
	})
	r.start(at("a", 4), 1)
	r.caughtUp(1)
	r.eventually("the record", func() bool { return len(r.values(topicPartition{"a", 0})) == 1 })
	r.want(topicPartition{"a", 0}, []string{"o4"})
}

// TestAbortedFilterMarkers: only the abort marker of the same producer ends its aborted transaction (Kafka's
// CompletedFetch.containsAbortMarker), a marker that the cleaner emptied does not.
func TestAbortedFilterMarkers(t *testing.T) {
	f := newAbortedFilter([]kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7, FirstOffset: 0}})
	for i, step := range []struct {
		raw  []byte
		drop bool
	}{
		{handBatch(0, 0, 0x10, 7, 0), true},
		{handMarker(1, 7, 1), true},
		{handBatch(2, 0, 0x10, 7, 0), true},
		{sealHandBatch(3, 0, 0x30, 7, 0, nil), true},
		{handMarker(4, 8, 0), true},
		{handBatch(5, 0, 0x10, 7, 0), true},
		{handBatch(6, 0, 0x10, 8, 0), false},
		{handBatch(7, 0, 0, 7, 0), false}, // idempotent only: not of a transaction
		{handMarker(8, 7, 0), true},
		{handBatch(9, 0, 0x10, 7, 0), false},
	} {
		h, raw, _, err := batch.Next(step.raw)
		if err != nil {
			t.Fatal(err)
		}
		if drop, err := f.drop(h, raw); err != nil || drop != step.drop {
			t.Errorf("step %d: drop %v, want %v; %v", i, drop, step.drop, err)
		}
	}
}

// TestAbortedFilterDamagedMarker: a flipped bit would turn an abort into a commit; nobody else looks at markers.
func TestAbortedFilterDamagedMarker(t *testing.T) {
	f := newAbortedFilter([]kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7, FirstOffset: 0}})
	h, raw, _, err := batch.Next(handMarker(1, 7, 1))
	if err != nil {
		t.Fatal(err)
	}
	raw[17] ^= 1
	if _, err := f.drop(h, raw); !errors.Is(err, batch.ErrCorrupt) {
		t.Fatalf("%v", err)
	}
}

// TestSourceGapAtEnd has a log whose last records are gone without a trace: the broker answers nothing although the end
// is not reached. Where they may be in tiered storage only, the position must stay.
func TestSourceGapAtEnd(t *testing.T) {
	for name, local := range map[string]int64{"local": 0, "tiered": 6} {
		t.Run(name, func(t *testing.T) {
			r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, ReadCommitted: true}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			log := handLog{batches: [][]byte{handBatch(0, 4, 0, -1, 0, 1)}, end: 9}
			fetches := make(chan int64, 1000)
			r.serve(func(offset int64, p *kmsg.FetchResponseTopicPartition) {
				select {
				case fetches <- offset:
				default:
				}
				log.fill(offset, p)
			})
			asked := make(chan struct{}, 100)
			r.cluster.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				r.cluster.KeepControl()
				req := kreq.(*kmsg.ListOffsetsRequest)
				if req.Topics[0].Partitions[0].Timestamp != listEarliestLocal {
					return nil, nil, false
				}
				asked <- struct{}{}
				resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
				rt := kmsg.NewListOffsetsResponseTopic()
				rt.Topic = "a"
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Offset = local
				rt.Partitions = append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
				return resp, nil, true
			})
			r.start(at("a", 0), 1)
			if local == 0 {
				r.caughtUp(1)
				return
			}
			r.eventually("it is looked at again and again", func() bool { return len(asked) >= 2 })
			if got := r.s.status().Partitions[0].Position; got != 5 {
				t.Fatalf("position %d, want 5: what follows may still come from tiered storage", got)
			}
		})
	}
}

// TestSourceEmptyAnswerOfFullPartition: an empty partition in an answer that others filled is no gap.
func TestSourceOtherPartitionFillsAnswers(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(2, "a"))
	n := int64(0)
	r.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.NewFetchResponseTopic()
		rt.TopicID = req.Topics[0].TopicID
		for _, p := range req.Topics[0].Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.HighWatermark, rp.LastStableOffset = p.Partition, 20, 20
			if p.Partition == 0 && p.FetchOffset < 20 {
				rp.RecordBatches = handBatch(p.FetchOffset, 0, 0, -1, 0)
			} else if p.Partition == 1 && n >= 20 && p.FetchOffset == 0 {
				rp.RecordBatches = handBatch(0, 19, 0, -1, 0, 19)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		n++
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	r.start(at("a", 0, 0), 1)
	r.caughtUp(2)
	r.eventually("all", func() bool { return len(r.values(topicPartition{"a", 1})) == 2 })
}

// TestSourceStarvation has a broker whose answers have room for the first partition only.
func TestSourceStarvation(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(3, "a"))
	first := false
	r.serve(func(offset int64, p *kmsg.FetchResponseTopicPartition) {
		p.HighWatermark, p.LastStableOffset = 1<<40, 1<<40
		if first {
			p.RecordBatches = handBatch(offset, 0, 0, -1, 0)
		}
		first = false
	}, func() { first = true })
	r.start(at("a", 0, 0, 0), 1)
	for p := range int32(3) {
		r.eventually("a record of each", func() bool { return len(r.values(topicPartition{"a", p})) > 1 })
	}
}

// gapCase runs to a gap under both policies.
func gapCase(t *testing.T, want Gap, resume int64, prepare func(r *sourceRig) semantics.Positions) {
	for _, policy := range []Policy{Fail, Skip} {
		t.Run(string(policy), func(t *testing.T) {
			r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, OnGap: policy, Discover: 20 * time.Millisecond}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			pos := prepare(r)
			if policy == Fail {
				wantRefused(t, r.failed(), "topic a partition 0", `on_gap = "skip"`)
				return
			}
			r.eventually("the gap", func() bool { return r.s.status().GapCount == 1 })
			if got := r.s.status().Gaps; !slices.Equal(got, []Gap{want}) {
				t.Fatalf("gaps %+v, want %+v", got, want)
			}
			r.eventually("going on", func() bool {
				pos, err := r.s.barrier(srcContext(t), semantics.Epoch(time.Now().UnixNano()))
				return err == nil && offsetOf(pos, "a", 0) >= resume
			})
			_ = pos
		})
	}
}

func wantRefused(t *testing.T, err error, texts ...string) {
	t.Helper()
	var e *semantics.Error
	if !asError(err, &e) || e.Class != semantics.Fatal || e.Exit != semantics.ExitRefused {
		t.Fatalf("want a refusal, got %v", err)
	}
	for _, text := range texts {
		if !contains(err.Error(), text) {
			t.Fatalf("%q is not in %v", text, err)
		}
	}
}

func TestSourceRetentionAtRunTime(t *testing.T) {
	gapCase(t, Gap{srcName, "a", 0, 2, 6, gapRetention}, 6, func(r *sourceRig) semantics.Positions {
		cl := r.client()
		for i := range 8 {
			r.produce(cl, "a", 0, fmt.Sprint(i))
		}
		if err := r.cluster.DeleteRecords("a", 0, 6); err != nil {
			r.tb.Fatal(err)
		}
		r.start(at("a", 2), 1) // not resolved: retention was faster
		return nil
	})
}

func TestSourceTruncationAtRunTime(t *testing.T) {
	gapCase(t, Gap{srcName, "a", 0, 3, 10, gapTruncated}, 3, func(r *sourceRig) semantics.Positions {
		r.produce(r.client(), "a", 0, "1", "2", "3")
		r.start(at("a", 10), 1)
		return nil
	})
}

func TestSourceDivergingEpoch(t *testing.T) {
	gapCase(t, Gap{srcName, "a", 0, 4, 10, gapTruncated}, 4, func(r *sourceRig) semantics.Positions {
		r.serve(func(offset int64, p *kmsg.FetchResponseTopicPartition) {
			p.HighWatermark, p.LastStableOffset = 20, 20
			if offset == 10 {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 1, 4
			}
		})
		pos := semantics.Positions{}
		pos.Set(semantics.SourceTopic{Source: srcName, Topic: "a"}, semantics.TopicID{}, 0, semantics.Position{Offset: 10, LeaderEpoch: 2})
		r.start(pos, 1)
		return nil
	})
}

// TestSourceSendsLastFetchedEpoch: without it no broker can notice that the logs diverge.
func TestSourceSendsLastFetchedEpoch(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	raw := handBatch(0, 0, 0, -1, 0)
	raw[15] = 3 // the partition leader epoch, which the CRC does not cover
	log := handLog{batches: [][]byte{raw}, end: 1}
	seen := make(chan int32, 1000)
	r.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p := kreq.(*kmsg.FetchRequest).Topics[0].Partitions[0]
		if p.CurrentLeaderEpoch != 0 {
			t.Errorf("leader epoch %d, want 0: without it a broker that was replaced as leader answers too", p.CurrentLeaderEpoch)
		}
		if p.FetchOffset == 1 {
			seen <- p.LastFetchedEpoch
		}
		return nil, nil, false
	})
	r.serve(log.fill)
	r.start(at("a", 0), 1)
	if got := <-seen; got != 3 {
		t.Fatalf("last fetched epoch %d, want 3", got)
	}
	r.caughtUp(1)
	pos, err := r.s.barrier(srcContext(t), 1)
	if p, _ := pos.Get(semantics.SourceTopic{Source: srcName, Topic: "a"}, 0); err != nil || p.LeaderEpoch != 3 {
		t.Fatalf("position %+v, want leader epoch 3; %v", p, err)
	}
}

func TestSourceRecreatedAtRunTime(t *testing.T) {
	for _, policy := range []Policy{Fail, Skip} {
		t.Run(string(policy), func(t *testing.T) {
			r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, OnGap: policy, Discover: 20 * time.Millisecond}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			cl := r.client()
			r.produce(cl, "a", 0, "old0", "old1")
			r.start(r.resolve(nil, true), 1)
			k := topicPartition{"a", 0}
			r.eventually("the old topic", func() bool { return len(r.values(k)) == 2 })
			old := r.ids["a"]
			if err := r.cluster.DeleteTopic("a"); err != nil {
				t.Fatal(err)
			}
			r.eventually("it is told", func() bool {
				st := r.s.status()
				return len(st.Waiting) > 0 && contains(st.Waiting[0], "the topic does not exist")
			})
			if err := r.cluster.CreateTopic("a", 2, nil); err != nil {
				t.Fatal(err)
			}
			if policy == Fail {
				wantRefused(t, r.failed(), "topic a partition 0", "made anew")
				return
			}
			fresh := r.client()
			r.produce(fresh, "a", 0, "new0")
			r.produce(fresh, "a", 1, "new1")
			r.eventually("the new topic", func() bool { return len(r.values(k)) == 3 && len(r.values(topicPartition{"a", 1})) == 1 })
			r.want(k, []string{"old0", "old1", "new0"})
			if got := r.s.status().Gaps; !slices.Equal(got, []Gap{{srcName, "a", 0, 2, -1, gapRecreated}}) {
				t.Fatalf("gaps %+v", got)
			}
			pos, err := r.s.barrier(srcContext(t), 1)
			if id := pos[semantics.SourceTopic{Source: srcName, Topic: "a"}].ID; err != nil || id == old || id == (semantics.TopicID{}) {
				t.Fatalf("topic id %s (was %s), %v", id, old, err)
			}
			if n := r.s.status().RecordsIn; n != 4 {
				t.Errorf("records in %d, want 4", n)
			}
		})
	}
}

// TestSourceUnreachableBroker: the reason is shown, and reading goes on by itself.
func TestSourceUnreachableBroker(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	r.produce(r.client(), "a", 0, "v")
	back := make(chan struct{})
	r.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case <-back:
			r.cluster.DropControl()
			return nil, nil, false
		default:
			r.cluster.KeepControl()
			return nil, kerr.BrokerNotAvailable, true // closes the connection
		}
	})
	r.start(r.resolve(nil, true), 1)
	r.eventually("it is told", func() bool {
		st := r.s.status()
		return len(st.Waiting) > 0 && contains(st.Waiting[0], "broker 0 unreachable since")
	})
	close(back)
	r.eventually("the record", func() bool { return len(r.values(topicPartition{"a", 0})) == 1 && len(r.s.status().Waiting) == 0 })
}
