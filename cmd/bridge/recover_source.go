package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
	"kafkabridge/connect"
	"kafkabridge/semantics"
)

// sourceView is what a source holds now.
type sourceView struct {
	o      bridge.SourceOptions
	conn   connect.Options
	adm    *kadm.Client
	topics map[string]topicView
}

type topicView struct {
	id         semantics.TopicID
	partitions map[int32]logView
}

// logView is one partition: the log start, the high watermark, and what latest means: the last stable offset with
// read_committed, else the high watermark.
type logView struct{ start, high, latest int64 }

// viewSource asks for the topics that the source matches now, with their offsets.
func viewSource(ctx context.Context, o bridge.SourceOptions, conn connect.Options, cl *kgo.Client) (*sourceView, error) {
	v := &sourceView{o: o, conn: conn, adm: kadm.NewClient(cl), topics: map[string]topicView{}}
	if err := v.look(ctx); err != nil {
		return nil, fmt.Errorf("source %q: %w", o.Name, err)
	}
	return v, nil
}

func (v *sourceView) look(ctx context.Context) error {
	names := v.o.Topics
	if v.o.TopicsRegex != "" {
		names = nil // all
	}
	found, err := v.adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return connect.Explain(err, v.conn)
	}
	for _, t := range found {
		if names == nil && !matches(v.o.TopicsRegex, v.o.TopicsExclude, v.o.NeverMatch, t.Topic, t.IsInternal) {
			continue
		}
		switch {
		case errors.Is(t.Err, kerr.TopicAuthorizationFailed):
			return semantics.Misconfigured("look at topics", "topic %s: not allowed to see it: grant Describe and Read on Topic %s", t.Topic, t.Topic)
		case t.Err != nil:
			return fmt.Errorf("topic %s: %w", t.Topic, t.Err)
		}
		v.topics[t.Topic] = topicView{id: semantics.TopicID(t.ID), partitions: map[int32]logView{}}
	}
	return v.offsets(ctx)
}

func (v *sourceView) offsets(ctx context.Context) error {
	topics := v.names()
	if len(topics) == 0 {
		return nil
	}
	starts, err := listed(v.adm.ListStartOffsets(ctx, topics...))
	if err != nil {
		return connect.Explain(err, v.conn)
	}
	highs, err := listed(v.adm.ListEndOffsets(ctx, topics...))
	if err != nil {
		return connect.Explain(err, v.conn)
	}
	latest := highs
	if v.o.ReadCommitted {
		if latest, err = listed(v.adm.ListCommittedOffsets(ctx, topics...)); err != nil {
			return connect.Explain(err, v.conn)
		}
	}
	starts.Each(func(o kadm.ListedOffset) {
		high, _ := highs.Lookup(o.Topic, o.Partition)
		stable, _ := latest.Lookup(o.Topic, o.Partition)
		v.topics[o.Topic].partitions[o.Partition] = logView{start: o.Offset, high: high.Offset, latest: stable.Offset}
	})
	return nil
}

// listed joins the failures of single partitions to the answer's: half an answer decides nothing.
func listed(l kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if err == nil {
		err = l.Error()
	}
	return l, err
}

func (v *sourceView) names() []string { return slices.Sorted(maps.Keys(v.topics)) }

func (t topicView) numbers() []int32 { return slices.Sorted(maps.Keys(t.partitions)) }

// known is the position of a partition in p, if it is one of this topic and not of an earlier one of its name.
func (v *sourceView) known(p semantics.Positions, topic string, partition int32) (semantics.Position, bool) {
	st := semantics.SourceTopic{Source: v.o.Name, Topic: topic}
	if recreated(p[st].ID, v.topics[topic].id) {
		return semantics.Position{}, false
	}
	return p.Get(st, partition)
}

// recreated says whether two ids are of different topics; a broker before Kafka 2.8 has none.
func recreated(known, now semantics.TopicID) bool {
	return known != now && known != (semantics.TopicID{}) && now != (semantics.TopicID{})
}

// gaps are the positions of p that the source does not have, one sentence each.
func (v *sourceView) gaps(p semantics.Positions) (out []string) {
	for _, st := range p.Topics() {
		t, ok := v.topics[st.Topic]
		if st.Source != v.o.Name || !ok || len(p[st].Partitions) == 0 {
			continue
		}
		if recreated(p[st].ID, t.id) {
			out = append(out, fmt.Sprintf("topic %s was deleted and made anew", st.Topic))
			continue
		}
		for _, n := range p[st].Numbers() {
			at, l := p[st].Partitions[n].Offset, t.partitions[n]
			switch {
			case at < l.start:
				out = append(out, fmt.Sprintf("%s/%d: offsets %d to %d are gone, the log starts at %d", st.Topic, n, at, l.start-1, l.start))
			case at > l.high:
				out = append(out, fmt.Sprintf("%s/%d: the log ends at %d, before the position %d", st.Topic, n, l.high, at))
			}
		}
	}
	return out
}
