package bridge

import (
	"context"
	"fmt"
	"slices"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// sinkTopic is a sink topic as one map task sees it. Several source topics may share one.
type sinkTopic struct {
	name      string
	limit     int    // bytes that a batch may have
	most      int    // bytes that a batch of one record may have: it cannot be split, so only the topic's own limit counts
	limitedBy string // the setting that says so
	preferred int    // uncompressed bytes at which a batch is closed, where limit is not lower
	// codec is what batches must be in, when fixed; otherwise each keeps its source batch's.
	fixed bool
	codec batch.Codec
	// ensured is how many partitions the topic was asked to have at least.
	ensured  int32
	encoders []*encoder // by sink partition
}

// wanted is the codec that the records of a source batch in codec c go on in.
func (s *sinkTopic) wanted(c batch.Codec) batch.Codec {
	if s.fixed {
		return s.codec
	}
	return c
}

// router finds the sink topic of a source topic and the sink partition of a record. One map task owns it.
type router struct {
	options SinkOptions
	topics  SinkTopics
	names   map[string]string // source topic → sink topic
	sinks   map[string]*sinkTopic
}

func newRouter(options SinkOptions, topics SinkTopics) *router {
	return &router{options: options, topics: topics, names: map[string]string{}, sinks: map[string]*sinkTopic{}}
}

// sinkOf returns the sink topic of a source topic, with as many partitions as the route needs: by number, one for each
// of the source topic's; by key, those that it has.
func (r *router) sinkOf(ctx context.Context, sourceTopic string, partitions int32) (*sinkTopic, error) {
	name, ok := r.names[sourceTopic]
	if !ok {
		var err error
		if name, err = r.options.Topic(sourceTopic); err != nil {
			return nil, semantics.Misconfigured("route", "sink %q: topic for source topic %q: %w", r.options.Name, sourceTopic, err)
		}
		if name == "" {
			return nil, semantics.Misconfigured("route", "sink %q: topic for source topic %q is empty", r.options.Name, sourceTopic)
		}
		r.names[sourceTopic] = name
	}
	s := r.sinks[name]
	if s != nil && (r.options.PartitionByKey || partitions <= s.ensured) {
		return s, nil
	}
	found, err := r.topics.Ensure(ctx, name, r.needed(partitions))
	if err != nil {
		return nil, fmt.Errorf("route source topic %q to sink topic %q: %w", sourceTopic, name, err)
	}
	if found.Partitions < 1 || found.Partitions < partitions && !r.options.PartitionByKey {
		return nil, fmt.Errorf("route source topic %q with %d partitions to sink topic %q: it has %d",
			sourceTopic, partitions, name, found.Partitions)
	}
	if s == nil {
		if s, err = r.newSink(name, found); err != nil {
			return nil, err
		}
		r.sinks[name] = s
	}
	s.ensured = max(s.ensured, partitions)
	s.grow(found.Partitions)
	return s, nil
}

// needed is how many partitions the sink topic is asked for. By key it is negative: as many as the topic has, and that
// number when it has to be created. Asking for more would add partitions to a topic that has fewer than the source, and
// keys would move to other partitions than their earlier records.
func (r *router) needed(partitions int32) int32 {
	if r.options.PartitionByKey {
		return -partitions
	}
	return partitions
}

// newSink decides what batches for a sink topic must be like.
func (r *router) newSink(name string, found batch.SinkTopic) (*sinkTopic, error) {
	s := &sinkTopic{name: name, limit: int(r.options.MaxMessageBytes), limitedBy: "max_message_bytes of the sink block", preferred: targetBytes}
	s.most = s.limit
	if of := int(found.MaxMessageBytes); of > 0 {
		s.most, s.limitedBy = of, "the sink topic's max.message.bytes"
		if s.limit <= 0 || of < s.limit {
			s.limit = of
		}
	}
	codec := found.Compression
	if codec == "" || codec == "producer" {
		codec = r.options.Compression
	}
	// Where the topic names a codec the broker would recompress anything else, and then refuse a batch that has become
	// larger than its limit, again after each restart. So the topic's codec wins over the sink block's.
	if codec == "" || codec == "source" {
		return s, nil
	}
	var err error
	if s.codec, err = batch.ParseCodec(codec); err != nil {
		return nil, semantics.Misconfigured("route", "compression of sink topic %q: %w", name, err)
	}
	s.fixed = true
	return s, nil
}

// grow gives every partition below n its encoder.
func (s *sinkTopic) grow(n int32) {
	s.encoders = slices.Grow(s.encoders, max(0, int(n)-len(s.encoders)))
	for p := int32(len(s.encoders)); p < n; p++ {
		s.encoders = append(s.encoders, &encoder{sink: s, partition: p})
	}
}

// encoderOf picks the sink partition of a record with this key from the given source partition.
func (r *router) encoderOf(s *sinkTopic, key []byte, sourcePartition int32) *encoder {
	if !r.options.PartitionByKey {
		return s.encoders[sourcePartition]
	}
	n := int32(len(s.encoders))
	if key == nil {
		return s.encoders[sourcePartition%n]
	}
	return s.encoders[batch.PartitionForKey(key, n)]
}
