package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
	"kafkabridge/txn"
)

// The ids of ACL operations in Kafka's authorized-operations bit fields.
const (
	operationRead  = 3
	operationWrite = 4
	operationAlter = 7
)

func allowed(bits int32, operation int) bool {
	const unknown = -2147483648 // the broker did not say
	return bits == unknown || bits&(1<<operation) != 0
}

// topics asks for topics with what this user may do to them; nil asks for all.
func (v *validation) topics(ctx context.Context, c *cluster, names []string) (map[string]kmsg.MetadataResponseTopic, bool) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.IncludeTopicAuthorizedOperations = true
	if names != nil {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		v.problem("topics cannot be listed: %v", connect.Explain(err, c.o))
		return nil, false
	}
	all := map[string]kmsg.MetadataResponseTopic{}
	for _, t := range resp.Topics {
		if t.Topic != nil {
			all[*t.Topic] = t
		}
	}
	return all, true
}

func (v *validation) source(ctx context.Context, c *cluster, b configs.Bridge, i int, found *sourceTopics) {
	s := b.Options.Sources[i]
	v.group(ctx, c, b, s)
	var names []string
	if s.TopicsRegex == "" {
		names = s.Topics
	}
	topics, ok := v.topics(ctx, c, names)
	if !ok {
		return
	}
	var matched []string
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		t := topics[name]
		if names == nil && !matches(s.TopicsRegex, s.TopicsExclude, s.NeverMatch, name, t.IsInternal) {
			continue
		}
		found.partitions[name] = max(found.partitions[name], int32(len(t.Partitions))) // one that is not seen counts: what is wrong with the sink's topic is told at once, too
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			v.problem("topic %s: not allowed to see it: grant Describe and Read on Topic %s: %s", name, name, c.grant(right{"topic", name, "Read"}))
			continue
		case err != nil:
			v.problem("topic %s: %v: create it", name, err)
			continue
		}
		if !allowed(t.AuthorizedOperations, operationRead) {
			v.problem("topic %s: not allowed to read it: grant Read on Topic %s: %s", name, name, c.grant(right{"topic", name, "Read"}))
		}
		if f := factsOf(t); f.leaderless > 0 {
			v.problem("topic %s: %d of %d partitions have no leader now: bring the brokers that hold them back", name, f.leaderless, f.partitions)
		}
		matched = append(matched, name)
		found.positions += len(t.Partitions)
	}
	for _, values := range v.describe(ctx, c, matched) {
		most, _ := topicFacts{values: values}.number("max.message.bytes")
		found.largest = max(found.largest, most)
	}
	if names == nil && len(matched) == 0 {
		v.problem("topics_regex %q matches no topic that this user may see: correct it, create a topic, or grant Describe on Topic", s.TopicsRegex)
	}
}

// count says how many partitions a sink topic needs; 0: its source topic cannot be seen.
func count(partitions int32) string {
	switch partitions {
	case 0:
		return "as many partitions as its source topic has"
	case 1:
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", partitions)
}

// sourceTopics are what the sources of a bridge hold.
type sourceTopics struct {
	partitions map[string]int32 // by topic; of several sources the most; 0: it cannot be seen
	positions  int              // partitions of all sources
	largest    int64            // bytes of the largest record that one of them takes; 0: not known
}

func matches(expression string, exclude, never []string, name string, internal bool) bool {
	if internal || strings.HasPrefix(name, "__") || slices.Contains(never, name) {
		return false
	}
	whole := func(e string) bool {
		ok, err := regexp.MatchString("^(?:"+e+")$", name)
		return err == nil && ok
	}
	return whole(expression) && !slices.ContainsFunc(exclude, whole)
}

func (v *validation) sink(ctx context.Context, c *cluster, b configs.Bridge, sources *sourceTopics) {
	o := b.Sink
	o.Incarnation = "validate"
	sink, err := txn.New(o, c.cl, v.log)
	if err != nil {
		v.check(err)
		return
	}
	defer func() { v.check(sink.Close()) }()
	v.check(kafkabridge.Explain(sink.Check(ctx), c.o))
	v.transactionalIDs(ctx, c, o)
	v.brokerSettings(ctx, c, b)
	wanted := map[string]int32{}
	for _, source := range slices.Sorted(maps.Keys(sources.partitions)) {
		t, err := b.Options.Sink.Topic(source)
		if err != nil {
			v.check(err)
			continue
		}
		wanted[t] = max(wanted[t], sources.partitions[source])
	}
	if dead := b.Options.Sink.DeadLetterTopic; dead != "" {
		wanted[dead] = max(wanted[dead], 1) // any number of partitions will do
	}
	if b.Options.Semantic == semantics.ExactlyOnce && o.Ledger {
		v.ledger(ctx, c, o, sources.positions)
	}
	if len(wanted) > 0 {
		v.sinkTopics(ctx, c, b, wanted, sources.largest)
	}
}

func (v *validation) sinkTopics(ctx context.Context, c *cluster, b configs.Bridge, wanted map[string]int32, largest int64) {
	names := slices.Sorted(maps.Keys(wanted))
	topics, ok := v.topics(ctx, c, names)
	if !ok {
		return
	}
	there := map[string]topicFacts{}
	for _, name := range names {
		t := topics[name]
		err := kerr.ErrorForCode(t.ErrorCode)
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition) && b.Options.Sink.CreateTopics:
			v.creatable(ctx, c, "topic", name, wanted[name])
			if !allowed(t.AuthorizedOperations, operationWrite) {
				v.problem("topic %s: not allowed to write it: grant Write on Topic %s: %s", name, name, c.grant(right{"topic", name, "Write"}))
			}
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			v.problem("topic %s: not allowed to see it: grant Describe and Write on Topic %s: %s", name, name, c.grant(right{"topic", name, "Write"}))
		case err != nil:
			v.problem("topic %s: %v: create it with %s, or set create_topics = true", name, err, count(wanted[name]))
		case !allowed(t.AuthorizedOperations, operationWrite):
			v.problem("topic %s: not allowed to write it: grant Write on Topic %s: %s", name, name, c.grant(right{"topic", name, "Write"}))
		case !b.Options.Sink.PartitionByKey && !b.Options.Sink.CreateTopics && int32(len(t.Partitions)) < wanted[name]:
			v.problem("topic %s has %d partitions and the source %d: add partitions, set create_topics = true, or partition = \"key\"", name, len(t.Partitions), wanted[name])
		case !b.Options.Sink.PartitionByKey && int32(len(t.Partitions)) < wanted[name] && name != b.Options.Sink.DeadLetterTopic && !allowed(t.AuthorizedOperations, operationAlter):
			v.problem("topic %s has %d partitions and the source %d, and we may not add any: add them, or grant Alter on Topic %s: %s", name, len(t.Partitions), wanted[name], name, c.grant(right{"topic", name, "Alter"}))
		}
		if err == nil {
			there[name] = factsOf(t)
		}
	}
	settings := v.describe(ctx, c, sortedNames(there))
	for _, name := range sortedNames(there) {
		f := there[name]
		f.values = settings[name]
		if name == b.Options.Sink.DeadLetterTopic {
			v.written("dead letter topic", name, f)
			v.deadLetters(name, f, largest)
			continue
		}
		v.written("topic", name, f)
		v.output(name, f, b, largest)
	}
}

// ledger checks what the bridge would refuse at its start.
func (v *validation) ledger(ctx context.Context, c *cluster, o txn.Options, positions int) {
	topics, ok := v.topics(ctx, c, []string{o.LedgerTopic})
	if !ok {
		return
	}
	name, t := o.LedgerTopic, topics[o.LedgerTopic]
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		v.creatable(ctx, c, "ledger topic", name, 1) // at the first start
		v.ledgerRights(c, name, t.AuthorizedOperations)
		return
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		v.problem("ledger topic %s: not allowed to see it: grant Describe, Read and Write on Topic %s: %s", name, name, c.grant(right{"topic", name, "Read"}, right{"topic", name, "Write"}))
		return
	case err != nil:
		v.problem("ledger topic %s: %v: see the state of the topic on the brokers", name, err)
		return
	}
	v.ledgerRights(c, name, t.AuthorizedOperations)
	if len(t.Partitions) != 1 {
		v.problem("ledger topic %s has %d partitions and must have one: name another with ledger_topic", name, len(t.Partitions))
	}
	f := factsOf(t)
	f.values = v.describe(ctx, c, []string{name})[name]
	v.written("ledger topic", name, f)
	v.ledgerSettings(name, f, positions)
}

// ledgerRights looks at what the brokers say of the topic, which they also do when it is not there yet.
func (v *validation) ledgerRights(c *cluster, name string, bits int32) {
	if !allowed(bits, operationRead) {
		v.problem("ledger topic %s: not allowed to read it: grant Read on Topic %s: %s", name, name, c.grant(right{"topic", name, "Read"}))
	}
	if !allowed(bits, operationWrite) {
		v.problem("ledger topic %s: not allowed to write it: grant Write on Topic %s: %s", name, name, c.grant(right{"topic", name, "Write"}))
	}
}
