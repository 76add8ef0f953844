package bridge

import (
	"context"
	"fmt"
	"slices"
	"time"

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
	own       bool   // the sink block names it: that it cannot be written is a mistake of the configuration, not of a record
	dead      bool   // the dead letter topic
	takes     intake
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
	learned map[string]lesson      // read only
	refuses map[string]refusedName // topics that maps named in vain
	barred  func(topic string) error
}

// refusedName is why records cannot go to a topic.
type refusedName struct {
	why   error
	until time.Time // then the cluster is asked again
}

const (
	refusedNamesLimit = 1000             // what records name may be anything: it must not fill the memory
	refusedNameFor    = 30 * time.Second // a topic may be made, or a right be granted, meanwhile
)

func newRouter(options SinkOptions, topics SinkTopics) *router {
	return &router{options: options, topics: topics, names: map[string]string{}, sinks: map[string]*sinkTopic{},
		refuses: map[string]refusedName{}, barred: func(string) error { return nil }}
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
	s, err := r.find(ctx, name, r.needed(partitions))
	if err != nil {
		return nil, fmt.Errorf("route source topic %q to sink topic %q: %w", sourceTopic, name, err)
	}
	s.own = true
	return s, nil
}

// routed returns the sink topic that a map names for records of a source topic with so many partitions. why says that
// records cannot go there, which follows on_reject; err is everything that says nothing about the records.
func (r *router) routed(ctx context.Context, name string, partitions int32) (s *sinkTopic, why, err error) {
	if s := r.sinks[name]; s != nil && s.has(r.needed(partitions)) {
		return s, s.takes.nothing, nil
	}
	if refused, ok := r.refuses[name]; ok && time.Now().Before(refused.until) {
		return nil, refused.why, nil
	}
	if why = CheckTopic(name); why == nil {
		why = r.barred(name)
	}
	if why == nil {
		if s, err = r.find(ctx, name, r.needed(partitions)); err == nil {
			return s, s.takes.nothing, nil
		}
		if semantics.ClassOf(err) != semantics.Fatal {
			return nil, nil, fmt.Errorf("route to sink topic %q: %w", name, err)
		}
		why = err
	}
	if len(r.refuses) >= refusedNamesLimit {
		clear(r.refuses)
	}
	why = fmt.Errorf("sink topic %q: %w", bounded(name, maxTopicName), why)
	r.refuses[name] = refusedName{why: why, until: time.Now().Add(refusedNameFor)}
	return nil, why, nil
}

// deadLetters returns the dead letter topic. It has no number of partitions that it needs: a source partition's number is
// taken modulo what is there.
func (r *router) deadLetters(ctx context.Context, partitions int32) (*sinkTopic, error) {
	s, err := r.find(ctx, r.options.DeadLetterTopic, -max(partitions, 1))
	if err != nil {
		return nil, fmt.Errorf("dead letter topic %q: %w", r.options.DeadLetterTopic, err)
	}
	s.dead = true
	return s, nil
}

// has says whether the topic is known to satisfy needed.
func (s *sinkTopic) has(needed int32) bool { return needed <= s.ensured }

// find returns a sink topic as [SinkTopics.Ensure] gives it.
func (r *router) find(ctx context.Context, name string, needed int32) (*sinkTopic, error) {
	s := r.sinks[name]
	if s != nil && s.has(needed) {
		return s, nil
	}
	found, err := r.topics.Ensure(ctx, name, needed)
	if err != nil {
		return nil, err
	}
	if found.Partitions < max(needed, 1) {
		return nil, fmt.Errorf("it has %d partitions, %d are needed", found.Partitions, needed)
	}
	if s == nil {
		if s, err = r.newSink(name, found); err != nil {
			return nil, err
		}
		r.sinks[name] = s
	}
	s.ensured = max(s.ensured, needed, 0)
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
	s.takes = intake{compacted: found.Compacted, appendTime: found.LogAppendTime, maxAge: found.MaxAge, maxAhead: found.MaxAhead}
	s.learn(r.learned[name])
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
