package main

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
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

func (v *validation) source(ctx context.Context, c *cluster, b configs.Bridge, i int, found map[string]int32) {
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
	matched := 0
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		t := topics[name]
		if names == nil && !matches(s.TopicsRegex, s.TopicsExclude, s.NeverMatch, name, t.IsInternal) {
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			v.problem("topic %s: not allowed to see it: grant Describe and Read on Topic %s", name, name)
			continue
		case err != nil:
			v.problem("topic %s: %v: create it", name, err)
			continue
		}
		if !allowed(t.AuthorizedOperations, operationRead) {
			v.problem("topic %s: not allowed to read it: grant Read on Topic %s", name, name)
		}
		matched++
		found[name] = max(found[name], int32(len(t.Partitions)))
	}
	if names == nil && matched == 0 {
		v.problem("topics_regex %q matches no topic that this user may see: correct it, create a topic, or grant Describe on Topic", s.TopicsRegex)
	}
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

func (v *validation) sink(ctx context.Context, c *cluster, b configs.Bridge, sources map[string]int32) {
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
	wanted := map[string]int32{}
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		t, err := b.Options.Sink.Topic(source)
		if err != nil {
			v.check(err)
			continue
		}
		wanted[t] = max(wanted[t], sources[source])
	}
	if dead := b.Options.Sink.DeadLetterTopic; dead != "" {
		wanted[dead] = max(wanted[dead], 1) // any number of partitions will do
	}
	if b.Options.Semantic == semantics.ExactlyOnce && o.Ledger {
		v.ledger(ctx, c, o)
	}
	if len(wanted) > 0 {
		v.sinkTopics(ctx, c, b, wanted)
	}
}

func (v *validation) sinkTopics(ctx context.Context, c *cluster, b configs.Bridge, wanted map[string]int32) {
	names := slices.Sorted(maps.Keys(wanted))
	topics, ok := v.topics(ctx, c, names)
	if !ok {
		return
	}
	for _, name := range names {
		t := topics[name]
		err := kerr.ErrorForCode(t.ErrorCode)
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition) && b.Options.Sink.CreateTopics:
			v.creatable(ctx, c, "topic", name, wanted[name])
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			v.problem("topic %s: not allowed to see it: grant Describe and Write on Topic %s", name, name)
		case err != nil:
			v.problem("topic %s: %v: create it with %d partitions, or set create_topics = true", name, err, wanted[name])
		case !allowed(t.AuthorizedOperations, operationWrite):
			v.problem("topic %s: not allowed to write it: grant Write on Topic %s", name, name)
		case !b.Options.Sink.PartitionByKey && !b.Options.Sink.CreateTopics && int32(len(t.Partitions)) < wanted[name]:
			v.problem("topic %s has %d partitions and the source %d: add partitions, set create_topics = true, or partition = \"key\"", name, len(t.Partitions), wanted[name])
		}
	}
}

// ledger checks what the bridge would refuse at its start.
func (v *validation) ledger(ctx context.Context, c *cluster, o txn.Options) {
	topics, ok := v.topics(ctx, c, []string{o.LedgerTopic})
	if !ok {
		return
	}
	t := topics[o.LedgerTopic]
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		v.creatable(ctx, c, "ledger topic", o.LedgerTopic, 1) // at the first start
		return
	case err != nil:
		v.problem("ledger topic %s: %v: grant Describe, Read and Write on Topic %s", o.LedgerTopic, err, o.LedgerTopic)
		return
	}
	if !allowed(t.AuthorizedOperations, operationRead) {
		v.problem("ledger topic %s: not allowed to read it: grant Read on Topic %s", o.LedgerTopic, o.LedgerTopic)
	}
	if !allowed(t.AuthorizedOperations, operationWrite) {
		v.problem("ledger topic %s: not allowed to write it: grant Write on Topic %s", o.LedgerTopic, o.LedgerTopic)
	}
	if len(t.Partitions) != 1 {
		v.problem("ledger topic %s has %d partitions and must have one: name another with ledger_topic", o.LedgerTopic, len(t.Partitions))
	}
	configs, err := kadm.NewClient(c.cl).DescribeTopicConfigs(ctx, o.LedgerTopic)
	if err != nil {
		return // not allowed to look; the start says what is wrong, if anything is
	}
	for _, topic := range configs {
		for _, kv := range topic.Configs {
			if kv.Key == "cleanup.policy" && strings.Contains(kv.MaybeValue(), "delete") {
				v.problem("ledger topic %s has cleanup.policy %s, which deletes the ledger in time: set it to compact", o.LedgerTopic, kv.MaybeValue())
			}
		}
	}
}
