package txn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// leader is where a partition is led, as metadata said.
type leader struct {
	node  int32
	epoch int32
}

// topicMeta is what metadata said about one topic.
type topicMeta struct {
	id         semantics.TopicID
	partitions map[int32]leader // those with a leader
	count      int
	replicas   int // of partition 0
}

// leaders caches which broker leads which partition. kgo's own cache cannot be used: it is refreshed on kgo's
// terms, and a partition that answered NOT_LEADER needs an answer that is younger than that.
type leaders struct {
	cl   *kgo.Client
	log  hclog.Logger
	turn chan struct{} // holds one token: one refresh at a time, the others share its result

	mu     sync.RWMutex
	topics map[string]topicMeta
	at     map[string]time.Time // when the request for that was sent
}

func newLeaders(cl *kgo.Client, log hclog.Logger) *leaders {
	return &leaders{cl: cl, log: log, turn: make(chan struct{}, 1), topics: map[string]topicMeta{}, at: map[string]time.Time{}}
}

// get is the cached leader.
func (l *leaders) get(topic string, partition int32) (leader, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	led, ok := l.topics[topic].partitions[partition]
	return led, ok
}

// refresh makes sure that what is cached about topics was asked for after the moment since. An error leaves the cache.
func (l *leaders) refresh(ctx context.Context, since time.Time, topics ...string) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("refresh leaders: %w", context.Cause(ctx))
	}
	defer func() { <-l.turn }()
	var stale []string
	l.mu.RLock()
	for _, t := range topics {
		if at, ok := l.at[t]; !ok || !at.After(since) {
			stale = append(stale, t)
		}
	}
	l.mu.RUnlock()
	if len(stale) == 0 {
		return nil
	}
	at := time.Now()
	found, err := fetchTopicMeta(ctx, l.cl, stale...)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range stale {
		l.at[t] = at
		if meta, ok := found[t]; ok {
			l.topics[t] = meta
		} else {
			delete(l.topics, t)
		}
	}
	return nil
}

// fetchTopicMeta asks any broker about topics. Topics that it does not know (yet) are missing in the answer; other
// refusals are errors.
func fetchTopicMeta(ctx context.Context, cl *kgo.Client, topics ...string) (map[string]topicMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	req.AllowAutoTopicCreation = false // the cluster's auto creation would choose partitions and settings by itself
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("metadata of %v: %w", topics, err)
	}
	found := make(map[string]topicMeta, len(resp.Topics))
	for _, rt := range resp.Topics {
		if rt.Topic == nil {
			continue
		}
		switch err := kerr.ErrorForCode(rt.ErrorCode); err {
		case nil:
		case kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicID:
			continue
		default:
			return nil, codeError("metadata", rt.ErrorCode, resource{kind: "topic", name: *rt.Topic, operation: "DESCRIBE"}, "")
		}
		found[*rt.Topic] = parseTopicMeta(rt)
	}
	return found, nil
}

func parseTopicMeta(rt kmsg.MetadataResponseTopic) topicMeta {
	meta := topicMeta{id: rt.TopicID, partitions: map[int32]leader{}, count: len(rt.Partitions)}
	for _, p := range rt.Partitions {
		if p.Partition == 0 {
			meta.replicas = len(p.Replicas)
		}
		if p.Leader >= 0 { // a partition with an error code may still name its leader
			meta.partitions[p.Partition] = leader{node: p.Leader, epoch: p.LeaderEpoch}
		}
	}
	return meta
}
