package txn

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// begun is a fixture with an open transaction.
func begun(t *testing.T, version string, opts Options, more ...kfake.Opt) (*fixture, semantics.Transaction) {
	t.Helper()
	f := start(t, version, opts, more...)
	return f, f.begin(t)
}

func (f *fixture) begin(t *testing.T) semantics.Transaction {
	t.Helper()
	ctx := testContext(t)
	var tx semantics.Transaction
	if f.sink.opts.Semantic == semantics.ExactlyOnce {
		var err error
		if tx, err = f.sink.Coordinator.Fence(ctx, f.sink.opts.TransactionalIDs[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.sink.Producer.Begin(ctx, tx); err != nil {
		t.Fatal(err)
	}
	return tx
}

// write writes n batches of 3 records to each partition.
func (f *fixture) write(t *testing.T, n int, released *atomic.Int64) error {
	t.Helper()
	for i := range n {
		for p := range int32(4) {
			if err := f.sink.Producer.Write(testContext(t), outbound(t, p, i*3, 3, released)); err != nil {
				return err
			}
		}
	}
	return nil
}

// expect checks that every partition holds 0..n-1 in order, once.
func (f *fixture) expect(t *testing.T, n int) {
	t.Helper()
	for p := range int32(4) {
		got := f.committed(t, testTopic, p, n)
		for i := range max(n, len(got)) {
			if i >= n || i >= len(got) || got[i] != fmt.Sprint(i) {
				t.Fatalf("partition %d holds %v, want 0 to %d in order", p, got, n-1)
			}
		}
		if hw := f.cluster.PartitionInfo(testTopic, p).HighWatermark; hw > int64(n)+1 {
			t.Errorf("partition %d: high watermark %d for %d records and a marker", p, hw, n)
		}
	}
}

func (f *fixture) commit(t *testing.T, tx semantics.Transaction) {
	t.Helper()
	if o, _, err := f.sink.Coordinator.End(testContext(t), tx, true); err != nil || o != semantics.OutcomeCommitted {
		t.Fatalf("commit: %s, %v", o, err)
	}
}

// Every answer after which the same bytes may be sent again, and those that are given although the batch was
// appended: the topic ends up with each record once and in order.
func TestResendsAfterPassingErrors(t *testing.T) {
	for _, err := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.ReplicaNotAvailable, kerr.UnknownTopicOrPartition, kerr.RequestTimedOut,
		kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError, kerr.NetworkException, kerr.FencedLeaderEpoch,
		kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.ThrottlingQuotaExceeded,
	} {
		t.Run(err.Message, func(t *testing.T) {
			f, tx := begun(t, "", testOptions())
			h := f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: testTopic, Err: err, Count: 6})
			var released atomic.Int64
			if err := f.write(t, 10, &released); err != nil {
				t.Fatal(err)
			}
			if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if h.Hits() < 6 || released.Load() != 40 {
				t.Errorf("%d faults, %d releases", h.Hits(), released.Load())
			}
			f.commit(t, tx)
			f.expect(t, 30)
		})
	}
}

// Answers that are lost after the append, or with the request.
func TestResendsAfterLostConnections(t *testing.T) {
	for name, semantic := range map[string]semantics.Semantic{"exactly once": semantics.ExactlyOnce, "at least once": semantics.AtLeastOnce} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions()
			opts.Semantic = semantic
			f, tx := begun(t, "", opts)
			var mu sync.Mutex
			seen := map[string]string{} // producer id, epoch, partition, sequence → the bytes
			dropped := 0
			f.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				f.cluster.KeepControl()
				mu.Lock()
				defer mu.Unlock()
				sameBytes(t, seen, kreq.(*kmsg.ProduceRequest))
				if dropped++; dropped%3 == 0 && dropped < 20 {
					return nil, errors.New("cut"), true
				}
				return nil, nil, false
			})
			if err := f.write(t, 10, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if semantic == semantics.ExactlyOnce {
				f.commit(t, tx)
			}
			f.expect(t, 30)
		})
	}
}

// sameBytes fails the test when a batch with a known sequence has other bytes than before.
func sameBytes(t *testing.T, seen map[string]string, req *kmsg.ProduceRequest) {
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			h, err := batch.ParseHeader(rp.Records)
			if err != nil || batch.CheckCRC(rp.Records) != nil {
				t.Errorf("partition %d: broken batch on the wire: %v", rp.Partition, err)
				continue
			}
			if req.Acks != -1 || h.ProducerID < 0 {
				t.Errorf("acks %d, producer id %d", req.Acks, h.ProducerID)
			}
			key := fmt.Sprint(h.ProducerID, h.ProducerEpoch, rp.Partition, h.FirstSequence)
			if old, ok := seen[key]; ok && old != string(rp.Records) {
				t.Errorf("partition %d, sequence %d was sent with other bytes", rp.Partition, h.FirstSequence)
			}
			seen[key] = string(rp.Records)
		}
	}
}

// Leaders move all the time while batches flow; a lost answer now and then on top.
func TestOrderUnderLeaderMoves(t *testing.T) {
	for _, version := range []string{"", "v3.9"} {
		t.Run("kafka"+version, func(t *testing.T) {
			f, tx := begun(t, version, testOptions())
			stop := make(chan struct{})
			var moves sync.WaitGroup
			moves.Go(func() {
				for i := range 60 { // not for ever: with a new leader at each attempt nobody would get through
					select {
					case <-stop:
						return
					case <-time.After(8 * time.Millisecond):
						f.cluster.ShufflePartitionLeaders()
						if i%5 == 0 {
							f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: testTopic, Err: kerr.RequestTimedOut})
						}
					}
				}
			})
			err := f.write(t, 400, nil)
			if err == nil {
				_, err = f.sink.Producer.Flush(testContext(t))
			}
			close(stop)
			moves.Wait()
			if err != nil {
				t.Fatal(err)
			}
			f.commit(t, tx)
			f.expect(t, 1200)
		})
	}
}

// Answers that fail the epoch: class, exit code and text, every batch released exactly once, and nobody who waits
// waits on.
func TestAnswersThatFailTheEpoch(t *testing.T) {
	for _, c := range []struct {
		err    *kerr.Error
		class  semantics.Class
		exit   semantics.ExitCode
		fenced bool
		text   string
	}{
		{kerr.MessageTooLarge, semantics.Fatal, semantics.ExitRefused, false, "max.message.bytes"},
		{kerr.RecordListTooLarge, semantics.Fatal, semantics.ExitRefused, false, "max.message.bytes"},
		{kerr.InvalidTimestamp, semantics.Fatal, semantics.ExitRefused, false, "message.timestamp.type"},
		{kerr.InvalidRecord, semantics.Fatal, semantics.ExitRefused, false, "refuses the records"},
		{kerr.TopicAuthorizationFailed, semantics.Fatal, semantics.ExitUsage, false, `WRITE on topic "out"`},
		{kerr.ProducerFenced, semantics.Unknown, 0, true, "initialised by somebody"},
		{kerr.InvalidProducerEpoch, semantics.Unknown, 0, true, ""},
		{kerr.InvalidTxnState, semantics.Unknown, 0, true, ""},
		{kerr.InvalidProducerIDMapping, semantics.Unknown, 0, true, ""},
		{kerr.OutOfOrderSequenceNumber, semantics.Unknown, 0, false, ""},
		{kerr.DuplicateSequenceNumber, semantics.Unknown, 0, false, ""},
		{kerr.UnknownProducerID, semantics.Unknown, 0, false, ""},
		{kerr.TransactionAbortable, semantics.Unknown, 0, false, ""},
		{kerr.UnknownServerError, semantics.Unknown, 0, false, ""},
		{kerr.CorruptMessage, semantics.Unknown, 0, false, ""},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			f, _ := begun(t, "", testOptions())
			f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: testTopic, Partitions: []int32{2}, Err: c.err, Count: -1})
			var released atomic.Int64
			for i := range 5 {
				_ = f.sink.Producer.Write(testContext(t), outbound(t, 2, i*3, 3, &released))
			}
			select {
			case <-f.sink.Producer.Failed():
			case <-time.After(10 * time.Second):
				t.Fatal("Failed is not closed")
			}
			sent, err := f.sink.Producer.Flush(testContext(t))
			var e *semantics.Error
			if !sent || !errors.As(err, &e) || e.Class != c.class || e.Exit != c.exit || e.Fenced != c.fenced || !errors.Is(err, c.err) {
				t.Fatalf("flush: %v, %#v", sent, err)
			}
			for _, want := range []string{c.text, "source in/2 offsets 0 to 2", "sink out/2", "3 records"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
			if err := f.sink.Producer.Write(testContext(t), outbound(t, 1, 0, 1, &released)); !errors.Is(err, c.err) {
				t.Errorf("a write after the failure: %v", err)
			}
			f.begin(t)
			if got := released.Load(); got != 6 {
				t.Errorf("%d of 6 batches are released after the next Begin", got)
			}
		})
	}
}

// altered lets change edit the answer of the nth Produce request, after the broker did its work.
func altered(t *testing.T, f *fixture, nth int, change func(*kmsg.ProduceResponse)) {
	t.Helper()
	count := 0
	f.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		if count++; count != nth {
			return nil, nil, false
		}
		req := kreq.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition = rp.Partition
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		change(resp)
		return resp, nil, true
	})
}

// An acknowledgement that proves nothing must not count: each of these lost records in some client.
func TestFalseAcknowledgements(t *testing.T) {
	each := func(set func(*kmsg.ProduceResponseTopicPartition)) func(*kmsg.ProduceResponse) {
		return func(resp *kmsg.ProduceResponse) {
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					set(&resp.Topics[i].Partitions[j])
				}
			}
		}
	}
	t.Run("no offset", func(t *testing.T) {
		f, _ := begun(t, "", testOptions())
		altered(t, f, 2, each(func(p *kmsg.ProduceResponseTopicPartition) { p.BaseOffset = -1 }))
		failsWith(t, f, "without an offset")
	})
	t.Run("an offset that was given out before", func(t *testing.T) {
		f, _ := begun(t, "", testOptions())
		altered(t, f, 3, each(func(p *kmsg.ProduceResponseTopicPartition) { p.BaseOffset = 1 }))
		failsWith(t, f, "lost acknowledged records")
	})
	t.Run("a partition that the answer does not mention", func(t *testing.T) {
		f, tx := begun(t, "", testOptions())
		altered(t, f, 2, func(resp *kmsg.ProduceResponse) { resp.Topics = nil })
		if err := f.write(t, 5, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := f.sink.Producer.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
		f.commit(t, tx)
		f.expect(t, 15)
	})
}

func failsWith(t *testing.T, f *fixture, text string) {
	t.Helper()
	for i := range 5 {
		_ = f.sink.Producer.Write(testContext(t), outbound(t, 0, i*3, 3, nil))
	}
	_, err := f.sink.Producer.Flush(testContext(t))
	if err == nil || !strings.Contains(err.Error(), text) || semantics.ClassOf(err) != semantics.Unknown {
		t.Fatalf("flush: %v, want %q", err, text)
	}
}
