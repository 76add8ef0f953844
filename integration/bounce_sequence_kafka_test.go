//go:build kafka

package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	wire "kafkabridge/batch"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
)

// TestReusedSequenceIsDropped: what a broker does with a batch that has the producer, the epoch and the sequences of an
// older one, but other records: it acknowledges it with the old one's offset and drops it. So a producer that gives up a
// batch that may have been appended (the leader that had it answered NOT_LEADER_OR_FOLLOWER) must never use its
// sequences again under the same epoch: the next batch of that size would be lost, acknowledged.
func TestReusedSequenceIsDropped(t *testing.T) {
	t.Parallel()
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			t.Parallel()
			p := newRawProducer(t, sharedCluster(t, o))
			if at := p.produce("given up", 10); at != 0 {
				t.Fatalf("the first batch is at %d", at)
			}
			if at := p.produce("dropped", 10); at != 0 {
				t.Errorf("with a used sequence: acknowledged at %d, want the first batch's offset", at)
			}
			p.init(p.id, p.epoch) // a fresh epoch: what the bridge does after every failure
			if at := p.produce("kept", 10); at != 10 {
				t.Errorf("with a fresh epoch: acknowledged at %d, want 10", at)
			}
			p.holds(slices.Concat(valuesOf("given up", 10), valuesOf("kept", 10)))
		})
	}
}

// rawProducer sends batches that all begin with sequence 0, to partition 0 of a topic of its own.
type rawProducer struct {
	t     *testing.T
	c     *kafka.Cluster
	cl    *kgo.Client
	topic string
	tid   [16]byte
	id    int64
	epoch int16
}

func newRawProducer(t *testing.T, c *kafka.Cluster) *rawProducer {
	t.Helper()
	p := &rawProducer{t: t, c: c, topic: unique(t)}
	createTopic(t, c, p.topic, 1, nil)
	listed, err := c.Admin().ListTopics(t.Context(), p.topic)
	if err != nil {
		t.Fatal(err)
	}
	p.tid = listed[p.topic].ID
	if p.cl, err = kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.cl.Close)
	p.init(-1, -1)
	return p
}

// init asks for a producer id, or for the next epoch of one.
func (p *rawProducer) init(id int64, epoch int16) {
	p.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = id, epoch
	resp, err := req.RequestWith(p.t.Context(), p.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.id, p.epoch = resp.ProducerID, resp.ProducerEpoch
}

// produce returns the offset at which the batch was acknowledged.
func (p *rawProducer) produce(name string, records int) int64 {
	p.t.Helper()
	var b wire.Builder
	for _, v := range valuesOf(name, records) {
		if err := b.Append(&wire.Record{Value: []byte(v), Timestamp: 1}); err != nil {
			p.t.Fatal(err)
		}
	}
	raw, err := b.Finish(nil, new(wire.Compressor), wire.None)
	if err != nil {
		p.t.Fatal(err)
	}
	wire.Stamp(raw, p.id, p.epoch, 0, false)
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = raw
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = p.topic, p.tid // by name or by id: it depends on the version
	topic.Partitions = append(topic.Partitions, partition)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	req.Topics = append(req.Topics, topic)
	resp, err := p.cl.Broker(int(p.c.Node(1).ID)).Request(p.t.Context(), req)
	if err != nil {
		p.t.Fatal(err)
	}
	answer := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		p.t.Fatal(err)
	}
	return answer.BaseOffset
}

// holds compares the topic's values with want.
func (p *rawProducer) holds(want []string) {
	p.t.Helper()
	records, err := oracle.ReadAll(p.t.Context(), p.c.Bootstrap(), oracle.Committed, p.topic)
	if err != nil {
		p.t.Fatal(err)
	}
	var got []string
	for _, r := range records {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("the topic holds %q, want %q", got, want)
	}
}

func valuesOf(name string, records int) []string {
	all := make([]string, records)
	for i := range all {
		all[i] = fmt.Sprintf("%s %d", name, i)
	}
	return all
}
