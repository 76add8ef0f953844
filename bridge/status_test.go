package bridge

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// refuseOffsetCommits makes the group coordinator unavailable for writes.
func refuseOffsetCommits(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.CoordinatorLoadInProgress.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

// TestNotReadyWhileRecovering names what is waited for, and is ready again when that is over.
func TestNotReadyWhileRecovering(t *testing.T) {
	for op, says := range map[string]string{"check": "checking the sink cluster", "load": "loading checkpoints", "look": "looking at the ledger",
		"fence": "fencing b-0", "read": "reading the ledger"} {
		inBubble(t, func(s *sim) {
			s.w.on(op, func(context.Context) error {
				return &semantics.Error{Class: semantics.Retry, Op: op, Err: errors.New("broker 1 does not answer")}
			})
			s.start()
			s.after(10 * time.Second)
			st := s.b.Status()
			if st.Ready || !contains(st.Reason, says) || !contains(st.Reason, "broker 1 does not answer") {
				t.Errorf("%s: ready %v, reason %q", op, st.Ready, st.Reason)
			}
			if n := s.w.count(op); n < 3 || n > 10 {
				t.Errorf("%s: %d attempts in 10 s", op, n)
			}
			s.w.on(op, nil)
			s.ready()
			if st := s.b.Status(); len(st.Waiting) != 0 {
				t.Errorf("%s: still waiting for %v", op, st.Waiting)
			}
			s.stop()
		})
	}
}

// TestNotReadyWhenNothingMoves: an epoch that cannot be decided is not ready after checkpoint.timeout, with the
// reason, also when the barrier itself was in time.
func TestNotReadyWhenNothingMoves(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		s.w.on("commit", hang)
		s.produce("in", 10)
		s.until("epoch 1 is being committed", func() bool { return s.w.count("commit") == 2 })
		s.after(time.Second)
		if st := s.b.Status(); !st.Ready {
			t.Errorf("after a second: %s", st.Reason)
		}
		s.after(4 * time.Second)
		if st := s.b.Status(); st.Ready || !contains(st.Reason, "checkpoint 1 has been under way for") {
			t.Errorf("after 5 s: ready %v, reason %q", st.Ready, st.Reason)
		}
		// What hangs is seen while it hangs: the phase, and the age of the transaction that waits for its commit.
		if st := s.b.Status(); len(st.RecentCheckpoints) != 1 || st.RecentCheckpoints[0].Result != "" || st.RecentCheckpoints[0].Commit < 4.9 || st.RecentCheckpoints[0].Flush > 0.1 {
			t.Errorf("checkpoints: %+v", st.RecentCheckpoints)
		}
		if x := s.b.Status().Transaction; !contains(x.Prepared, "b-1") || x.PreparedAge < 5 || x.OpenSecs != x.PreparedAge || !contains(x.Open, "b-0") || x.OpenAge != 0 {
			t.Errorf("nothing is written in the open one: %+v", x)
		}
		s.produce("in", 2)
		s.after(2 * time.Second)
		if x := s.b.Status().Transaction; x.OpenAge < 2 || x.OpenAge >= x.PreparedAge || x.OpenSecs != x.PreparedAge {
			t.Errorf("something is written in the open one: %+v", x)
		}
	})
}

// TestBlockedByAnotherUser: two bridges with one transactional id fence each other without a record in this bridge's ledger.
func TestBlockedByAnotherUser(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		s.w.on("flush", func(context.Context) error {
			return &semantics.Error{Class: semantics.Unknown, Fenced: true, Op: "produce", Err: errors.New("INVALID_PRODUCER_EPOCH")}
		})
		s.until("blocked", func() bool { return contains(s.b.Status().Reason, "b-0 is used by somebody else") })
		s.until("also while it runs", func() bool { st := s.b.Status(); return st.State == "running" && !st.Ready })
		s.w.on("flush", nil)
		s.produce("in", 4)
		s.until("ready when an epoch is decided", func() bool { return s.b.Status().Ready })
		s.stop()
	})
}

// TestRecoveryPublishesWhatItDecided: on an idle topic no epoch of the new run would, and lag tools would show a lag for ever.
func TestRecoveryPublishesWhatItDecided(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		s.w.on("commit", hang)
		s.produce("in", 10)
		s.until("epoch 1 is proposed", func() bool { return s.w.count("commit") == 2 })
		s.crash()
		s.w.on("commit", nil)
		s.start()
		s.ready()
		s.after(2 * time.Second)
		at, err := kadm.NewClient(s.cl).FetchOffsets(s.t.Context(), "b")
		if p, ok := at.Lookup("in", 1); err != nil || !ok || p.At != 5 {
			t.Errorf("partition 1 stands at %v in the group (%v), want 5", p.At, err)
		}
	})
}

// TestStatusCounts: what restarts, checkpoints and recoveries are counted as.
func TestStatusCounts(t *testing.T) {
	inBubble(t, func(s *sim) {
		s.start()
		s.ready()
		s.produce("in", 10)
		s.after(3 * time.Second)
		st := s.b.Status()
		if st.Checkpoints["decided"] != 1 || st.Recoveries["clean"] != 1 || st.Restarts != 0 || st.DecidedEpoch != 1 || st.Epoch != 2 {
			t.Errorf("%+v", st)
		}
		// The broker aborts what is prepared while EndTxn is on its way: the range is read again, and that is counted.
		s.w.on("commit", func(context.Context) error {
			s.w.on("commit", nil)
			s.w.bump("b-0")
			return nil
		})
		s.produce("in", 10)
		s.until("replayed", func() bool { return s.b.Status().Recoveries["replayed"] == 1 })
		s.after(3 * time.Second)
		st = s.b.Status()
		if st.Replayed != 10 || st.Restarts != 1 || !contains(st.LastFailure, "was not committed") || st.Checkpoints["failed"] != 1 || st.Checkpoints["decided"] != 2 {
			t.Errorf("replayed %d, %d restarts, last failure %q, checkpoints %v", st.Replayed, st.Restarts, st.LastFailure, st.Checkpoints)
		}
		if r := st.RecentRecoveries; len(r) != 2 || r[0].Outcome != "clean" || r[0].Replayed != 0 || r[1].Outcome != "replayed" || r[1].Replayed != 10 || *st.Recovery != r[1] {
			t.Errorf("recoveries: %+v, the last: %+v", r, st.Recovery)
		}
		if st.LastFailureMs < st.RecentRecoveries[0].AtMs || st.LastFailureMs > st.RecentRecoveries[1].AtMs {
			t.Errorf("failed at %d, recoveries at %d and %d", st.LastFailureMs, st.RecentRecoveries[0].AtMs, st.RecentRecoveries[1].AtMs)
		}
		b := s.b
		s.stop()
		if st := b.Status(); st.Ready || st.Reason != "stopped" {
			t.Errorf("after the end: ready %v, reason %q", st.Ready, st.Reason)
		}
		s.once(plainly, "in")
	})
}

// TestNotReadyWhenTheSourceIsSilent: a partition that nobody answers for is not ready with the reason; one that is not asked because the sink is
// slow is.
func TestNotReadyWhenTheSourceIsSilent(t *testing.T) {
	r := newSourceRun(newSource(SourceOptions{Name: "s"}, nil, hclog.NewNullLogger(), 0), nil, make([]chan<- delivery, 1))
	r.s.current.Store(r)
	k := topicPartition{"a", 0}
	r.add(k, semantics.TopicID{}, 1, semantics.Position{})
	h := &hub{b: &Bridge{o: Options{Checkpoint: CheckpointOptions{Timeout: time.Second}}}}
	h.now.State = semantics.StateRunning
	reason := func() string { return h.unready(Status{Sources: []SourceStatus{r.s.status()}}) }
	r.partitions[k].waiting = "the topic does not exist"
	if why := reason(); why != "" {
		t.Errorf("at once: %q", why)
	}
	r.partitions[k].answered = time.Now().Add(-2 * stuckAfter)
	if why := reason(); !contains(why, "the topic does not exist") || !contains(why, "a") {
		t.Errorf("after %s: %q", 2*stuckAfter, why)
	}
	r.partitions[k].waiting = ""
	if why := reason(); why != "" {
		t.Errorf("not asked: %q", why)
	}
}

// TestStatusIsBounded: however long a bridge runs and fails, what a status holds of the past does not grow.
func TestStatusIsBounded(t *testing.T) {
	h := &hub{}
	h.init(&Bridge{p: Parts{Observe: func(Observation) {}}})
	for n := range semantics.Epoch(100) {
		h.finish(n, "decided")
		h.recovered(semantics.Recovery{Outcome: semantics.RecoveryClean, Epoch: n})
	}
	s := h.status()
	if c := s.RecentCheckpoints; len(c) != recentCheckpoints || c[len(c)-1].Epoch != 99 {
		t.Errorf("%d checkpoints: %+v", len(c), c)
	}
	if r := s.RecentRecoveries; len(r) != recentRecoveries || r[len(r)-1].Epoch != 99 || s.Recovery.Epoch != 99 {
		t.Errorf("%d recoveries: %+v", len(r), r)
	}
}
