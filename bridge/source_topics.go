package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// topicInfo is what metadata tells about a topic.
type topicInfo struct {
	id         semantics.TopicID
	partitions map[int32]leaderInfo
}

// leaderInfo names the leader of a partition; leader is -1 when there is none.
type leaderInfo struct {
	leader int32
	epoch  int32
}

// lookup asks for the topics that the source matches now. A listed topic that does not exist is not in the result. It
// never creates a topic, whatever auto.create.topics.enable says.
func (s *source) lookup(ctx context.Context) (map[string]topicInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	topics := s.o.Topics
	if s.match != nil {
		topics = nil // all
	}
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	if s.match == nil && len(s.o.Topics) == 0 {
		return nil, nil // Kafka takes an empty list for all topics
	}
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		if err = saslMisconfigured(err); s.o.Explain != nil {
			err = s.o.Explain(err)
		}
		return nil, s.classify("metadata", err)
	}
	found := map[string]topicInfo{}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil || s.match != nil && !s.matches(*t.Topic, t.IsInternal) {
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case err == nil:
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			continue
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			return nil, s.unauthorised("topic", *t.Topic, "Describe")
		case errors.Is(err, kerr.InvalidTopicException):
			return nil, semantics.Misconfigured("metadata", "source %q: %q is no valid topic name", s.o.Name, *t.Topic)
		default:
			return nil, s.classify("metadata", fmt.Errorf("topic %s: %w", *t.Topic, err))
		}
		found[*t.Topic] = newTopicInfo(t)
	}
	return found, nil
}

func newTopicInfo(t *kmsg.MetadataResponseTopic) topicInfo {
	info := topicInfo{id: t.TopicID, partitions: make(map[int32]leaderInfo, len(t.Partitions))}
	for _, p := range t.Partitions {
		l := leaderInfo{leader: p.Leader, epoch: p.LeaderEpoch}
		if p.ErrorCode != 0 && !errors.Is(kerr.ErrorForCode(p.ErrorCode), kerr.ReplicaNotAvailable) {
			l.leader = -1 // REPLICA_NOT_AVAILABLE only tells that a follower is down
		}
		info.partitions[p.Partition] = l
	}
	return info
}

// matches says whether topics_regex takes the topic in. Internal topics are never taken in, nor are the bridge's own
// ledger and sink topics: reading what it writes would go round for ever.
func (s *source) matches(topic string, internal bool) bool {
	if internal || strings.HasPrefix(topic, "__") || slices.Contains(s.o.NeverMatch, topic) || !s.match.MatchString(topic) {
		return false
	}
	for _, e := range s.exclude {
		if e.MatchString(topic) {
			return false
		}
	}
	return true
}

// reads says whether the source takes a topic in.
func (s *source) reads(topic string) bool {
	if s.match != nil {
		return s.matches(topic, false)
	}
	return slices.Contains(s.o.Topics, topic)
}

// unauthorised is a Fatal error with exit code 2: permissions are configuration.
func (s *source) unauthorised(resource, name, operation string) error {
	return semantics.Misconfigured("read source", "source %q: not authorised: %s %q needs the operation %s", s.o.Name, resource, name, operation)
}

// saslMisconfigured makes wrong credentials Fatal: no repetition mends them, and some brokers lock accounts.
func saslMisconfigured(err error) error {
	if errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) {
		return semantics.Misconfigured("connect", "%w", err)
	}
	return err
}
