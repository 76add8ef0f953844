package bridge

import (
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

func found(id byte, leader, epoch int32) map[string]topicInfo {
	return map[string]topicInfo{"a": {id: semantics.TopicID{id}, partitions: map[int32]leaderInfo{0: {leader, epoch}}}}
}

func (o *orderRig) reconcile(f map[string]topicInfo) *findings {
	o.t.Helper()
	out, err := o.r.reconcile(f)
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

// TestSourceConfirmsRecreation: one broker that lags behind tells another topic id; only two looks in a row that tell
// the same count.
func TestSourceConfirmsRecreation(t *testing.T) {
	o := newOrderRig(t)
	o.r.s.o.OnGap = Skip
	o.reconcile(found(1, 1, 0)) // takes the id
	for _, id := range []byte{2, 1, 2, 3, 1} {
		o.reconcile(found(id, 1, 0))
		if o.r.partitions[o.p.key] != o.p || o.r.s.gapCount != 0 {
			t.Fatalf("id %d seen once counts as recreated", id)
		}
	}
	if f := o.reconcile(found(2, 1, 0)); !f.again {
		t.Fatal("no second look is asked for")
	}
	late := o.answer(0, handBatch(0, 0, 0, -1, 0))
	f := o.reconcile(found(2, 1, 0))
	if o.r.partitions[o.p.key] != nil || len(f.fresh) != 1 || o.r.s.gapCount != 1 {
		t.Fatalf("%+v, %d gaps", f, o.r.s.gapCount)
	}
	o.want(o.take(late)) // of the old topic
}

// TestSourceConfirmsRecreationAtStart: the same before the claim. It is no refusal, and the next attempt succeeds.
func TestSourceConfirmsRecreationAtStart(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	pos := r.resolve(nil, true)
	r.cluster.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		resp := kreq.ResponseKind().(*kmsg.MetadataResponse)
		host, port, err := net.SplitHostPort(r.cluster.ListenAddrs()[0])
		if err != nil {
			return nil, err, true
		}
		n, err := strconv.Atoi(port)
		b := kmsg.NewMetadataResponseBroker()
		b.Host, b.Port = host, int32(n)
		mt := kmsg.NewMetadataResponseTopic()
		mt.Topic, mt.TopicID = kmsg.StringPtr("a"), [16]byte{1, 2, 3}
		mt.Partitions = append(mt.Partitions, kmsg.NewMetadataResponseTopicPartition())
		resp.Brokers, resp.Topics = append(resp.Brokers, b), append(resp.Topics, mt)
		return resp, err, true
	})
	if _, _, err := r.s.resolve(srcContext(t), pos, true); semantics.ClassOf(err) != semantics.Retry || !contains(err.Error(), "different topic ids") {
		t.Fatalf("%v", err)
	}
	r.resolve(pos, true)
}

func TestSourceLeaders(t *testing.T) {
	o := newOrderRig(t)
	o.reconcile(found(1, 1, 5))
	generation := o.p.generation
	if f := o.reconcile(found(1, 2, 4)); o.p.leader != 1 || !f.again {
		t.Fatal("a broker that lags behind names an earlier leader, and it is believed")
	}
	for range missingLooks { // but not for ever
		o.reconcile(found(1, 3, 4))
	}
	if o.p.leader != 3 || o.p.waiting == "" {
		t.Fatalf("%+v: leader 3 is what all brokers tell", o.p)
	}
	o.reconcile(found(1, 2, 6))
	if o.p.leader != 2 || o.p.leaderEpoch != 6 || o.p.generation == generation {
		t.Fatalf("%+v: fetching must begin anew at another leader", o.p)
	}
	if f := o.reconcile(found(1, -1, 6)); !f.again || o.p.leader != -1 || o.p.waiting == "" {
		t.Fatalf("%+v: without a leader it waits visibly", o.p)
	}
	o.reconcile(found(1, 2, 7))
	if o.p.leader != 2 || o.p.trouble != healthy {
		t.Fatalf("%+v", o.p)
	}
}

// TestSourceAnswerOfTroubleIsThrownAway: the answer that would have told the task of the trouble is of an earlier
// generation, so nobody would ever see to it.
func TestSourceAnswerOfTroubleIsThrownAway(t *testing.T) {
	o := newOrderRig(t)
	o.reconcile(found(1, 1, 5))
	a := o.answer(0)
	a.pieces[0].resp.ErrorCode = kerr.NotLeaderForPartition.Code
	f := &fetcher{r: o.r, broker: 1}
	f.moveOn(a)
	if o.p.trouble == healthy {
		t.Fatal("it is asked again before the task has seen the error")
	}
	o.reconcile(found(1, 2, 6))
	o.want(o.take(a))
	if o.p.trouble != healthy {
		t.Fatalf("trouble %d stays for ever", o.p.trouble)
	}
}

func TestSourceUnlistedPartition(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}, Start: Start{At: StartLatest}}, kfake.NumBrokers(1), kfake.SeedTopics(2, "a"))
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "a", Partitions: []int32{1}, Err: kerr.UnknownServerError, Count: -1})
	if _, _, err := r.s.resolve(srcContext(t), nil, true); semantics.ClassOf(err) != semantics.Retry || !contains(err.Error(), "topic a partition 1") {
		t.Fatalf("%v", err)
	}
	pos := r.resolve(nil, false)
	if offsetOf(pos, "a", 0) != 0 || offsetOf(pos, "a", 1) != -1 {
		t.Fatalf("%v", pos)
	}
	if pos = r.resolve(at("a", 0, 0), true); offsetOf(pos, "a", 1) != 0 { // cannot be checked, but is known
		t.Fatalf("%v", pos)
	}
}

// TestSourceForgottenEpoch has a broker that no longer knows the leader epoch of what was read: it answers
// OFFSET_OUT_OF_RANGE although the offset is in range (Kafka's Partition.fetchRecords).
func TestSourceForgottenEpoch(t *testing.T) {
	r := newSourceRig(t, SourceOptions{Topics: []string{"a"}}, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	r.produce(r.client(), "a", 0, "1", "2", "3")
	if err := r.cluster.MoveTopicPartition("a", 0, 0); err != nil { // to where it is: the next leader epoch
		t.Fatal(err)
	}
	found, err := r.s.lookup(srcContext(t))
	if err != nil {
		t.Fatal(err)
	}
	epoch := found["a"].partitions[0].epoch - 1
	r.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if req.Topics[0].Partitions[0].LastFetchedEpoch != epoch {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.NewFetchResponseTopic()
		rt.TopicID = req.Topics[0].TopicID
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.ErrorCode = kerr.OffsetOutOfRange.Code
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	pos := semantics.Positions{}
	pos.Set(semantics.SourceTopic{Source: srcName, Topic: "a"}, found["a"].id, 0, semantics.Position{Offset: 1, LeaderEpoch: epoch})
	r.start(pos, 1)
	r.eventually("the records", func() bool { return len(r.values(topicPartition{"a", 0})) == 2 })
}
