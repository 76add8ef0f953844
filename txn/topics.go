package txn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// What Kafka's topics have when nobody says otherwise; used where their settings may not be read.
const (
	defaultMaxMessageBytes int32 = 1048588
	defaultCompression           = "producer"
)

// errMissing is wrapped by the error that names a missing topic or partitions.
var errMissing = errors.New("the sink is not complete")

// Topics looks at and creates the sink's topics (bridge.SinkTopics). Safe for concurrent use.
type Topics struct {
	cl     *kgo.Client
	adm    *kadm.Client
	create bool
	dead   string // the dead letter topic; "": there is none
	log    hclog.Logger

	mu    sync.RWMutex
	known map[string]batch.SinkTopic
	turn  chan struct{} // one token: one look at the cluster at a time
}

func newTopics(cl *kgo.Client, adm *kadm.Client, opts Options, log hclog.Logger) *Topics {
	return &Topics{cl: cl, adm: adm, create: opts.CreateTopics, dead: opts.DeadLetterTopic, log: log.Named("topics"),
		known: map[string]batch.SinkTopic{}, turn: make(chan struct{}, 1)}
}

// Refresh forgets what was learned, so that the next Ensure asks the cluster again.
func (t *Topics) Refresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.known)
}

// Ensure returns the topic with at least partitions partitions. It creates what is missing where create_topics
// allows that, with the cluster's default replication; otherwise it fails naming what is missing (Fatal, exit 2). A
// negative count takes an existing topic as it is, and creates a missing one with -partitions.
func (t *Topics) Ensure(ctx context.Context, topic string, partitions int32) (batch.SinkTopic, error) {
	if st, ok := t.get(topic); ok && st.Partitions >= partitions {
		return st, nil
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return batch.SinkTopic{}, &semantics.Error{Class: semantics.Retry, Op: "look at sink topics", Err: context.Cause(ctx)}
	}
	defer func() { <-t.turn }()
	if st, ok := t.get(topic); ok && st.Partitions >= partitions {
		return st, nil
	}
	op := fmt.Sprintf("ensure sink topic %q", topic)
	var st batch.SinkTopic
	misses := 0
	err := repeat(ctx, t.log, op, func(ctx context.Context) error {
		var err error
		st, err = t.look(ctx, op, topic, partitions)
		// A broker that lags behind does not know a new topic yet: that must not end the process.
		if errors.Is(err, errMissing) && misses < 5 {
			misses++
			return again(err)
		}
		return err
	})
	if err != nil {
		return batch.SinkTopic{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[topic] = st
	return st, nil
}

func (t *Topics) get(topic string) (batch.SinkTopic, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	st, ok := t.known[topic]
	return st, ok
}

// maxMessageBytes is for messages: what is cached, without asking.
func (t *Topics) maxMessageBytes(topic string) (int32, bool) {
	st, ok := t.get(topic)
	return st.MaxMessageBytes, ok
}

// look asks the cluster once, and asks to be called again while something that was created is not visible yet.
func (t *Topics) look(ctx context.Context, op, topic string, partitions int32) (batch.SinkTopic, error) {
	// Not kadm's ListTopics: it answers from kgo's cache for up to MetadataMinAge (5 s).
	metas, err := fetchTopicMeta(ctx, t.cl, topic)
	switch {
	case err != nil && semantics.ClassOf(err) == semantics.Fatal:
		return batch.SinkTopic{}, err
	case err != nil:
		return batch.SinkTopic{}, again(err)
	}
	meta, ok := metas[topic]
	have := int32(meta.count)
	switch {
	case !ok:
		return batch.SinkTopic{}, t.createTopic(ctx, op, topic, partitions)
	case have >= max(partitions, 1):
		return t.settings(ctx, topic, have)
	default:
		return batch.SinkTopic{}, t.addPartitions(ctx, op, topic, have, partitions)
	}
}

// createTopic creates the topic and asks to look again. A topic that somebody else creates in the same moment is fine.
func (t *Topics) createTopic(ctx context.Context, op, topic string, partitions int32) error {
	if partitions < 0 {
		partitions = -partitions
	}
	if !t.create {
		return semantics.Misconfigured(op, "%w: topic %q is not there and create_topics is false: create it with %d partitions", errMissing, topic, max(partitions, 1))
	}
	var settings map[string]*string
	if topic == t.dead {
		settings = deadLetterSettings()
	}
	resp, err := t.adm.CreateTopic(ctx, max(partitions, 1), -1, settings, topic)
	if errors.Is(err, kerr.InvalidConfig) && settings != nil { // before 3.6; their default takes any timestamp
		delete(settings, "message.timestamp.before.max.ms")
		delete(settings, "message.timestamp.after.max.ms")
		resp, err = t.adm.CreateTopic(ctx, max(partitions, 1), -1, settings, topic)
	}
	switch {
	case err == nil:
		t.log.Info("created sink topic", "topic", topic, "partitions", max(partitions, 1))
		return again(fmt.Errorf("topic %q was created and is not visible yet", topic))
	case errors.Is(err, kerr.TopicAlreadyExists):
		return again(err)
	}
	return t.adminError(op, err, resp.ErrMessage, resource{"topic", topic, "CREATE"})
}

// deadLetterSettings make a topic that takes whatever a source holds and keeps it: a record that is refused for its size, its
// timestamp or its missing key must not be refused again, nor be deleted at once because its timestamp is old.
func deadLetterSettings() map[string]*string {
	return map[string]*string{
		"cleanup.policy":                  kadm.StringPtr("delete"),
		"retention.ms":                    kadm.StringPtr("-1"),
		"retention.bytes":                 kadm.StringPtr("-1"),
		"max.message.bytes":               kadm.StringPtr("104857600"), // what a broker takes as one request by default
		"message.timestamp.type":          kadm.StringPtr("CreateTime"),
		"message.timestamp.before.max.ms": kadm.StringPtr("9223372036854775807"),
		"message.timestamp.after.max.ms":  kadm.StringPtr("9223372036854775807"),
	}
}

func (t *Topics) addPartitions(ctx context.Context, op, topic string, have, want int32) error {
	if !t.create {
		return semantics.Misconfigured(op, "%w: topic %q has %d partitions, %d are needed, and create_topics is false: add them", errMissing, topic, have, want)
	}
	resps, err := t.adm.UpdatePartitions(ctx, int(want), topic)
	if err != nil {
		return again(err)
	}
	resp := resps[topic]
	if resp.Err == nil {
		t.log.Info("added partitions to sink topic", "topic", topic, "before", have, "now", want)
		return again(fmt.Errorf("partitions of topic %q were added and are not visible yet", topic))
	}
	if errors.Is(resp.Err, kerr.InvalidPartitions) {
		return again(resp.Err) // somebody else added them first
	}
	return t.adminError(op, resp.Err, resp.ErrMessage, resource{"topic", topic, "ALTER"})
}

// adminError classifies the refusal of an admin request, which nothing depends on: all but Fatal is tried again.
func (t *Topics) adminError(op string, err error, message string, r resource) error {
	classified := codeOf(op, err, r)
	if message != "" {
		classified = fmt.Errorf("%w: broker says %s", classified, message)
	}
	if semantics.ClassOf(classified) == semantics.Fatal {
		return classified
	}
	return again(classified)
}

// settings reads what encoding depends on; what may not be read has Kafka's defaults. An answer that is only missing
// now is asked for again: a default in its place would be cached.
func (t *Topics) settings(ctx context.Context, topic string, partitions int32) (batch.SinkTopic, error) {
	st := batch.SinkTopic{Partitions: partitions, MaxMessageBytes: defaultMaxMessageBytes, Compression: defaultCompression}
	values, err := topicConfigs(ctx, t.adm, topic)
	switch {
	case notAuthorized(err):
		t.log.Debug("topic settings may not be read, defaults are assumed", "topic", topic, "error", err)
		return st, nil
	case err != nil:
		return batch.SinkTopic{}, again(err)
	}
	if n, err := strconv.ParseInt(values["max.message.bytes"], 10, 32); err == nil && n > 0 {
		st.MaxMessageBytes = int32(n)
	}
	if c := values["compression.type"]; c != "" {
		st.Compression = c
	}
	st.LogAppendTime = values["message.timestamp.type"] == "LogAppendTime"
	st.Compacted = strings.Contains(values["cleanup.policy"], "compact")
	st.MaxAge = timestampLimit(values["message.timestamp.before.max.ms"])
	st.MaxAhead = timestampLimit(values["message.timestamp.after.max.ms"])
	return st, nil
}

// timestampLimit is 0 where there is none; a limit of 0 is 1.
func timestampLimit(value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > 1<<62 {
		return 0
	}
	return max(n, 1)
}

// notAuthorized says whether err is a refusal of DescribeConfigs.
func notAuthorized(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed)
}

// topicConfigs reads a topic's effective settings.
func topicConfigs(ctx context.Context, adm *kadm.Client, topic string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit*time.Duration(2)/3) // within an attempt of repeat
	defer cancel()
	rcs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("describe topic %q: %w", topic, err)
	}
	rc, err := rcs.On(topic, nil)
	if err != nil {
		return nil, fmt.Errorf("describe topic %q: %w", topic, err)
	}
	if rc.Err != nil {
		return nil, fmt.Errorf("describe topic %q: %w", topic, rc.Err)
	}
	values := make(map[string]string, len(rc.Configs))
	for _, c := range rc.Configs {
		if c.Value != nil {
			values[c.Key] = *c.Value
		}
	}
	return values, nil
}

// codeOf is codeError for an error that kadm made of a code.
func codeOf(op string, err error, r resource) error {
	var typed *kerr.Error
	if errors.As(err, &typed) {
		return codeError(op, typed.Code, r, "")
	}
	return lostAnswer(op, err)
}
