package bridge

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// publish commits the source's part of pos to its consumer group, as an admin does for a group without members. Nobody
// reads it for recovery; an error (the group has members, no permission) is for the log and never ends the bridge. Topics
// that are gone are passed over.
func (s *source) publish(ctx context.Context, pos semantics.Positions) error {
	if s.o.Group == "" {
		return nil
	}
	offsets := kadm.Offsets{}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = s.o.Group
	withoutID := false
	for _, st := range pos.Topics() {
		if st.Source != s.o.Name || len(pos[st].Partitions) == 0 {
			continue
		}
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = st.Topic, pos[st].ID // the id from request version 10 on
		withoutID = withoutID || pos[st].ID == (semantics.TopicID{})
		for p, at := range pos[st].Partitions {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = p, at.Offset, at.LeaderEpoch
			rt.Partitions = append(rt.Partitions, rp)
			offsets.AddOffset(st.Topic, p, at.Offset, at.LeaderEpoch)
		}
		req.Topics = append(req.Topics, rt)
	}
	if len(req.Topics) == 0 {
		return nil
	}
	var err error
	if withoutID { // kadm asks for the ids first; with them at hand that request is saved for every epoch
		err = s.commitByName(ctx, offsets)
	} else {
		err = s.commit(ctx, req)
	}
	if err != nil {
		return s.classify("publish positions", fmt.Errorf("group %q: %w", s.o.Group, err))
	}
	return nil
}

func (s *source) commit(ctx context.Context, req *kmsg.OffsetCommitRequest) error {
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil && !topicGone(err) {
				return fmt.Errorf("topic %s%s partition %d: %w", t.Topic, semantics.TopicID(t.TopicID), p.Partition, err)
			}
		}
	}
	return nil
}

func (s *source) commitByName(ctx context.Context, offsets kadm.Offsets) error {
	resp, err := kadm.NewClient(s.cl).CommitOffsets(ctx, s.o.Group, offsets)
	if err != nil {
		return err
	}
	for t, ps := range resp {
		for p, o := range ps {
			if o.Err != nil && !topicGone(o.Err) {
				return fmt.Errorf("topic %s partition %d: %w", t, p, o.Err)
			}
		}
	}
	return nil
}

func topicGone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition)
}

// committed returns the group's offsets of the topics that the source matches now: without a checkpoint block they are
// the progress. Topic ids are not stored with them and stay zero.
func (s *source) committed(ctx context.Context) (semantics.Positions, error) {
	found, err := s.lookup(ctx)
	if err != nil {
		return nil, err
	}
	pos := semantics.Positions{}
	offsets, err := s.groupOffsets(ctx)
	for k, at := range offsets {
		if _, ok := found[k.topic]; ok {
			pos.Set(semantics.SourceTopic{Source: s.o.Name, Topic: k.topic}, semantics.TopicID{}, k.partition, at)
		}
	}
	return pos, err
}

// groupOffsets reads all committed offsets of the group. RequireStable waits for offsets that are being committed in a
// transaction.
func (s *source) groupOffsets(ctx context.Context) (map[topicPartition]semantics.Position, error) {
	out := map[topicPartition]semantics.Position{}
	if s.o.Group == "" {
		return out, nil
	}
	offsets, err := kadm.NewClient(s.cl).FetchOffsets(kadm.RequireStable(ctx), s.o.Group)
	var auth *kadm.AuthError
	switch {
	case errors.As(err, &auth):
		return nil, s.unauthorised("group", s.o.Group, "Describe")
	case errors.Is(err, kerr.GroupIDNotFound):
		return out, nil
	case err != nil:
		return nil, s.classify("read committed offsets", fmt.Errorf("group %q: %w", s.o.Group, err))
	}
	for t, ps := range offsets {
		for p, o := range ps {
			if o.Err != nil {
				return nil, s.classify("read committed offsets", fmt.Errorf("group %q: topic %s partition %d: %w", s.o.Group, t, p, o.Err))
			}
			if o.At >= 0 {
				out[topicPartition{t, p}] = semantics.Position{Offset: o.At, LeaderEpoch: o.LeaderEpoch}
			}
		}
	}
	return out, nil
}
