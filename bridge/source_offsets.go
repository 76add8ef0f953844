package bridge

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// Special timestamps of ListOffsets (Kafka's ListOffsetsRequest).
const (
	listLatest        = -1
	listEarliest      = -2
	listEarliestLocal = -4 // KIP-405, request version 8: the first offset that is not only in tiered storage
)

// listed is the answer of ListOffsets for one partition.
type listed struct {
	offset int64 // -1: no record has that timestamp or a later one
	err    error // of this partition; may pass
}

// listOffsets asks the leaders of keys. Every key is in the result, unless the error says that all of it failed.
// committed makes listLatest the last stable offset and hides open transactions from timestamps.
func (s *source) listOffsets(ctx context.Context, keys []topicPartition, timestamp int64, committed bool) (map[topicPartition]listed, error) {
	return s.listOffsetsSince(ctx, keys, nil, timestamp, committed)
}

// listOffsetsSince is listOffsets where epochs names a leader epoch that the partition's leader must have. A broker that was deposed
// while it was frozen takes itself for the leader for a moment after it wakes, and its log may end before a position that was read
// from its successor: without the epoch that looks like a truncation. With it the broker answers UNKNOWN_LEADER_EPOCH.
func (s *source) listOffsetsSince(ctx context.Context, keys []topicPartition, epochs map[topicPartition]int32, timestamp int64, committed bool) (map[topicPartition]listed, error) {
	out := make(map[topicPartition]listed, len(keys))
	if len(keys) == 0 {
		return out, nil
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if committed {
		req.IsolationLevel = 1
	}
	topics := map[string]int{}
	for _, k := range keys {
		i, ok := topics[k.topic]
		if !ok {
			i = len(req.Topics)
			topics[k.topic] = i
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = k.topic
			req.Topics = append(req.Topics, rt)
		}
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition = k.partition
		rp.Timestamp = timestamp
		rp.CurrentLeaderEpoch = -1
		if epoch, ok := epochs[k]; ok {
			rp.CurrentLeaderEpoch = epoch
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
		out[k] = listed{offset: -1, err: errNotAnswered}
	}
	for _, shard := range s.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			failShard(out, shard.Req, shard.Err)
			continue
		}
		if err := s.readListed(out, shard.Resp.(*kmsg.ListOffsetsResponse)); err != nil {
			return nil, err
		}
	}
	return out, context.Cause(ctx)
}

// leaderSince is the leader epoch that whoever answers for a position must have: metadata's, or that of the last batch before the position
// if metadata is behind it. -1 without topic ids (before Kafka 2.8): a topic that was made anew looks like that there.
func leaderSince(info topicInfo, partition int32, at semantics.Position) int32 {
	if info.id == (semantics.TopicID{}) || at.LeaderEpoch < 0 {
		return -1
	}
	return max(info.partitions[partition].epoch, at.LeaderEpoch)
}

var errNotAnswered = errors.New("no broker answered for it")

// failShard notes why a broker did not answer. One broker that is gone must not hide the partitions of the others.
func failShard(out map[topicPartition]listed, req kmsg.Request, err error) {
	r, ok := req.(*kmsg.ListOffsetsRequest)
	if !ok {
		return
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			out[topicPartition{t.Topic, p.Partition}] = listed{offset: -1, err: err}
		}
	}
}

func (s *source) readListed(out map[topicPartition]listed, resp *kmsg.ListOffsetsResponse) error {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			if errors.Is(err, kerr.TopicAuthorizationFailed) {
				return s.unauthorised("topic", t.Topic, "Describe")
			}
			out[topicPartition{t.Topic, p.Partition}] = listed{offset: p.Offset, err: err}
		}
	}
	return nil
}

// ends asks for the end of everything that the source matches now: the last stable offsets with read_committed,
// otherwise the high watermarks.
func (s *source) ends(ctx context.Context) (map[semantics.SourceTopic]map[int32]int64, error) {
	found, err := s.lookup(ctx)
	if err != nil {
		return nil, err
	}
	var keys []topicPartition
	for t, info := range found {
		for p := range info.partitions {
			keys = append(keys, topicPartition{t, p})
		}
	}
	offsets, err := s.listOffsets(ctx, keys, listLatest, s.o.ReadCommitted)
	if err != nil {
		return nil, s.classify("list end offsets", err)
	}
	out := map[semantics.SourceTopic]map[int32]int64{}
	for k, l := range offsets {
		if l.err != nil {
			return nil, s.classify("list end offsets", fmt.Errorf("%s: %w", k, l.err))
		}
		st := semantics.SourceTopic{Source: s.o.Name, Topic: k.topic}
		if out[st] == nil {
			out[st] = map[int32]int64{}
		}
		out[st][k.partition] = l.offset
	}
	if s.o.ReadCommitted {
		s.tellHeld(ctx, keys, offsets)
	}
	return out, nil
}
