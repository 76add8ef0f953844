package bridge

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// foreign opens a transaction of another producer on partition 1 of topic "in" and leaves it open.
func (s *sim) foreign(id string) (*kgo.Client, func()) {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), kgo.Dialer(s.net.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute), kgo.ProducerLinger(0))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
	if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "in", Partition: 1, Value: []byte("held")}).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	return cl, func() {
		if err := cl.EndTransaction(context.Background(), kgo.TryAbort); err != nil {
			s.t.Errorf("end the foreign transaction: %v", err)
		}
	}
}

// held is partition 1 of the source.
func (s *sim) held() PartitionStatus { return s.b.Status().Sources[0].Partitions[1] }

// TestHolderIsNamed: a transaction of somebody else holds a partition back; status and sentence name it until it ends.
func TestHolderIsNamed(t *testing.T) {
	inBubble(t, func(s *sim) {
		var asked atomic.Int64
		s.cluster.ControlKey(int16(kmsg.DescribeProducers), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.cluster.KeepControl()
			asked.Add(1)
			return nil, nil, false
		})
		s.o.Checkpoint.Interval = time.Hour // the world counts offsets for records, and a foreign transaction has a marker
		s.start()
		s.ready()
		s.after(time.Minute)
		if n := asked.Load(); n != 0 {
			t.Errorf("%d rounds although nothing is held", n)
		}
		cl, end := s.foreign("somebody-7")
		defer cl.Close()
		began := time.Now()
		s.after(3 * time.Second)
		if p := s.held(); p.HeldSecs != 0 || p.HeldBy != nil {
			t.Errorf("after 3 s: %+v", p)
		}
		s.until("the holder is named", func() bool { return s.held().HeldBy != nil })
		p := s.held()
		if h := *p.HeldBy; h.TransactionalID != "somebody-7" || h.Own || h.ProducerID < 0 || h.SinceMs < began.Add(-time.Second).UnixMilli() || h.SinceMs > began.UnixMilli()+1000 {
			t.Errorf("%+v, began %d", h, began.UnixMilli())
		}
		if p.HeldSecs < 5 || p.HeldSecs > 25 || p.HighWatermark-p.LastStable != 1 {
			t.Errorf("%+v", p)
		}
		if w := s.b.Status().WaitsFor; !contains(w, `the open transaction of transactional id "somebody-7", which has held back topic in partition 1 for`) {
			t.Errorf("waits for %q", w)
		}
		s.after(2 * time.Minute)
		if n := asked.Load(); n < 5 || n > 11 {
			t.Errorf("%d rounds in 2 minutes, at most one in 15 s", n)
		}
		end()
		s.until("nothing is held", func() bool { p := s.held(); return p.HeldSecs == 0 && p.HeldBy == nil })
		s.until("it waits for records", func() bool { return s.b.Status().WaitsFor == "new records in the sources" })
		s.crash()
	})
}

// TestOwnHolder: a transactional id of this bridge, on the cluster it writes to.
func TestOwnHolder(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Sources[0].OnSinkCluster, s.o.Checkpoint.Interval = true, time.Hour
		s.start()
		s.ready()
		cl, end := s.foreign("b-1")
		defer cl.Close()
		s.until("the holder is named", func() bool { return s.held().HeldBy != nil })
		if h := s.held().HeldBy; h.TransactionalID != "b-1" || !h.Own {
			t.Errorf("%+v", h)
		}
		end()
		s.crash()
	})
}

// TestHolderUnknown: what the brokers do not tell is no failure, and is said.
func TestHolderUnknown(t *testing.T) {
	for name, refuse := range map[string]func(kmsg.Request) kmsg.Response{
		"no transactional id": func(kreq kmsg.Request) kmsg.Response {
			if req, ok := kreq.(*kmsg.ListTransactionsRequest); ok {
				resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
				resp.ErrorCode = kerr.UnsupportedVersion.Code
				return resp
			}
			return nil
		},
		"nothing": func(kreq kmsg.Request) kmsg.Response {
			if req, ok := kreq.(*kmsg.DescribeProducersRequest); ok {
				resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
				for _, t := range req.Topics {
					rt := kmsg.NewDescribeProducersResponseTopic()
					rt.Topic = t.Topic
					for _, p := range t.Partitions {
						rp := kmsg.NewDescribeProducersResponseTopicPartition()
						rp.Partition, rp.ErrorCode = p, kerr.TopicAuthorizationFailed.Code
						rt.Partitions = append(rt.Partitions, rp)
					}
					resp.Topics = append(resp.Topics, rt)
				}
				return resp
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *sim) {
				s.cluster.Control(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					s.cluster.KeepControl()
					resp := refuse(kreq)
					return resp, nil, resp != nil
				})
				s.o.Checkpoint.Interval = time.Hour
				s.start()
				s.ready()
				cl, end := s.foreign("somebody-7")
				defer cl.Close()
				s.until("it is said", func() bool { return s.b.Status().Sources[0].HoldersUnknown != "" })
				s.after(time.Minute)
				p := s.held()
				if name == "nothing" && p.HeldBy != nil || name != "nothing" && (p.HeldBy == nil || p.HeldBy.TransactionalID != "" || p.HeldBy.ProducerID < 0) {
					t.Errorf("%+v", p.HeldBy)
				}
				if st := s.b.Status(); !st.Ready || st.Restarts != 0 || p.HeldSecs < 60 {
					t.Errorf("ready %v, %d restarts, held %f s", st.Ready, st.Restarts, p.HeldSecs)
				}
				end()
				s.crash()
			})
		})
	}
}

// TestGoneTopic: what a topic that is gone leaves in the status is marked, so that its series go.
func TestGoneTopic(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.o.Sources[0].Topics, s.o.Sources[0].TopicsRegex, s.o.Sources[0].Discover = nil, "in.*", time.Second
		s.start()
		s.ready()
		s.produce("in2", 3)
		s.after(2 * time.Second)
		req := kmsg.NewPtrDeleteTopicsRequest()
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = kmsg.StringPtr("in2")
		req.TopicNames, req.Topics = []string{"in2"}, append(req.Topics, rt)
		if _, err := req.RequestWith(context.Background(), s.cl); err != nil {
			t.Fatal(err)
		}
		s.until("gone", func() bool {
			n := 0
			for _, p := range s.b.Status().Sources[0].Partitions {
				if p.Gone != (p.Topic == "in2") {
					n++
				}
				if p.Gone && (p.Lag != -1 || p.HeldSecs != 0) {
					t.Errorf("a topic that is gone lags by %d and is held back for %v s: nobody could ever read that", p.Lag, p.HeldSecs)
				}
			}
			return n == 0
		})
		s.stop()
	}, "in2")
}
