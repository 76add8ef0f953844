package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
)

// topicFacts are what is known of a topic besides its name.
type topicFacts struct {
	partitions int
	replicas   int               // the fewest that a partition has
	insync     int               // the fewest of them that are in sync now
	leaderless int               // partitions without a leader now
	values     map[string]string // effective settings; nil: not visible to us
}

func factsOf(t kmsg.MetadataResponseTopic) topicFacts {
	f := topicFacts{partitions: len(t.Partitions)}
	for i, p := range t.Partitions {
		if i == 0 || len(p.Replicas) < f.replicas {
			f.replicas = len(p.Replicas)
		}
		if i == 0 || len(p.ISR) < f.insync {
			f.insync = len(p.ISR)
		}
		if p.Leader < 0 {
			f.leaderless++
		}
	}
	return f
}

// number is a setting; false where it is not there or none.
func (f topicFacts) number(key string) (int64, bool) {
	n, err := strconv.ParseInt(f.values[key], 10, 64)
	return n, err == nil
}

// describe asks for the settings of topics that are there. What may not be seen is a note: nothing depends on it, only less can
// be said.
func (v *validation) describe(ctx context.Context, c *cluster, names []string) map[string]map[string]string {
	out := map[string]map[string]string{}
	if len(names) == 0 {
		return out
	}
	// Not kadm's DescribeTopicConfigs, for which one topic that is not visible hides all.
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		v.note("the settings of topics cannot be read and were not checked: %v", connect.Explain(err, c.o))
		return out
	}
	var hidden []string
	for _, a := range resp.Resources {
		if a.ErrorCode != 0 {
			hidden = append(hidden, a.ResourceName)
			continue
		}
		values := map[string]string{}
		for _, kv := range a.Configs {
			if kv.Value != nil {
				values[kv.Name] = *kv.Value
			}
		}
		out[a.ResourceName] = values
	}
	slices.Sort(hidden)
	for i, name := range hidden {
		const most = 3 // of lines that all say the same
		if i == most {
			v.note("the settings of %d more topics are not visible to us and were not checked", len(hidden)-most)
			break
		}
		v.note("topic %s: its settings are not visible to us and were not checked; to have them checked grant DescribeConfigs on Topic %s: %s", name, name, c.grant(right{"topic", name, "DescribeConfigs"}))
	}
	return out
}

// written checks a topic that the bridge writes to, whatever for.
func (v *validation) written(kind, name string, f topicFacts) {
	what := fmt.Sprintf("%s %q", kind, name)
	if f.leaderless > 0 {
		v.problem("%s: %d of %d partitions have no leader now: bring the brokers that hold them back", what, f.leaderless, f.partitions)
	}
	if isr, ok := f.number("min.insync.replicas"); ok && f.replicas > 0 {
		switch {
		case isr > int64(f.replicas):
			v.problem("%s: min.insync.replicas is %d with %d replicas: nothing can be written; set min.insync.replicas=%d or add replicas", what, isr, f.replicas, max(1, f.replicas-1))
		case isr > int64(f.insync) && f.leaderless == 0:
			v.problem("%s: %d of %d replicas are in sync and min.insync.replicas is %d: nothing can be written now; bring the missing brokers back", what, f.insync, f.replicas, isr)
		case isr < 2 && f.replicas >= 3:
			v.warn("%s: min.insync.replicas is %d with %d replicas: one broken disk, or an unclean election, may lose acknowledged records; set min.insync.replicas=2", what, isr, f.replicas)
		}
	}
	if f.values["unclean.leader.election.enable"] == "true" && f.replicas > 1 {
		v.warn("%s: unclean.leader.election.enable is true: a replica that missed acknowledged records may become the leader, and they are gone; set it to false", what)
	}
}

// century is how many milliseconds are no limit for a timestamp any more.
const century = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// logOverhead is by how much Kafka's default limit is above 1 MiB, for the batch's own head: no difference that matters.
const logOverhead = 12

// output checks a topic that records are moved to. largest is what the sources' topics take, 0 when that is not known.
func (v *validation) output(name string, f topicFacts, b configs.Bridge, largest int64) {
	what := fmt.Sprintf("topic %q", name)
	refused := "stops the bridge (exit code 3)"
	if b.Options.Sink.OnReject == bridge.DeadLetter {
		refused = "becomes a dead letter"
	}
	if most, ok := f.number("max.message.bytes"); ok && largest > most+logOverhead {
		v.warn("%s: max.message.bytes is %d and the source takes records of up to %d bytes: one in between %s; set max.message.bytes=%d", what, most, largest, refused, largest)
	}
	if most, ok := f.number("max.message.bytes"); ok && int64(b.Options.Sink.MaxMessageBytes) > most+logOverhead {
		v.warn("%s: max.message.bytes is %d and max_message_bytes of the sink block %d: the topic's wins; raise the one or lower the other", what, most, b.Options.Sink.MaxMessageBytes)
	}
	codec, ours := f.values["compression.type"], b.Options.Sink.Compression
	if codec != "" && codec != "producer" && codec != ours {
		// The bridge follows the topic, or the broker would compress every batch a second time.
		v.warn("%s: compression.type is %s and compression of the sink block %q: the topic's wins, and every batch in another codec is compressed again; set compression.type=producer, or compression = %q",
			what, codec, ours, strings.Replace(codec, "uncompressed", "none", 1))
	}
	if strings.Contains(f.values["cleanup.policy"], "compact") {
		v.warn("%s: it is compacted: a record without a key %s; set cleanup.policy=delete if the source has such", what, refused)
	}
	if f.values["message.timestamp.type"] == "LogAppendTime" {
		v.note("%s: message.timestamp.type is LogAppendTime: records get the broker's time; the source's timestamps are not kept", what)
	} else if age, ok := f.number("message.timestamp.before.max.ms"); ok && age < century {
		v.warn("%s: message.timestamp.before.max.ms is %v: an older record %s; set it to 9223372036854775807 if the source may hold such", what, time.Duration(age)*time.Millisecond, refused)
	}
}

// deadLetters checks the topic after which there is nowhere left to go.
func (v *validation) deadLetters(name string, f topicFacts, largest int64) {
	what := fmt.Sprintf("dead letter topic %q", name)
	if most, ok := f.number("max.message.bytes"); ok && largest > 0 && most <= largest+logOverhead {
		v.warn("%s: max.message.bytes is %d and the source takes records of up to %d bytes, to which headers are added: what it refuses stops the bridge (exit code 3); set max.message.bytes=104857600", what, most, largest)
	}
	if strings.Contains(f.values["cleanup.policy"], "compact") {
		v.warn("%s: it is compacted: a dead letter without a key stops the bridge (exit code 3), and of equal keys one stays; set cleanup.policy=delete", what)
	}
	if f.values["message.timestamp.type"] == "LogAppendTime" {
		return
	}
	if age, ok := f.number("message.timestamp.before.max.ms"); ok && age < century {
		v.warn("%s: message.timestamp.before.max.ms is %v: an older dead letter stops the bridge (exit code 3); set it to 9223372036854775807", what, time.Duration(age)*time.Millisecond)
	}
	if keep, ok := f.number("retention.ms"); ok && keep >= 0 && keep < century && strings.Contains(f.values["cleanup.policy"], "delete") {
		v.note("%s: retention.ms is %v and timestamps are the sources': dead letters of old records are deleted at once; set retention.ms=-1 or message.timestamp.type=LogAppendTime", what, time.Duration(keep)*time.Millisecond)
	}
}

// ledgerSettings checks what would lose or stop the ledger. positions is how many partitions its records have to name.
func (v *validation) ledgerSettings(name string, f topicFacts, positions int) {
	what := fmt.Sprintf("ledger topic %q", name)
	switch policy := f.values["cleanup.policy"]; {
	case f.values == nil:
	case strings.Contains(policy, "delete"):
		v.problem("%s: cleanup.policy is %s, which deletes the ledger in time (retention.ms is %s): set cleanup.policy=compact", what, policy, f.values["retention.ms"])
	case policy != "compact":
		v.problem("%s: cleanup.policy is %q: set cleanup.policy=compact", what, policy)
	}
	const positionBytes = 40 // txn/LEDGER.md; the record's head is far below what this is rough by
	if most, ok := f.number("max.message.bytes"); ok && int64(positions)*positionBytes > most {
		v.problem("%s: max.message.bytes is %d and the positions of %d partitions need about %d: set max.message.bytes=%d", what, most, positions, positions*positionBytes, 2*positions*positionBytes)
	}
	if f.values["message.timestamp.type"] == "CreateTime" {
		v.warn("%s: message.timestamp.type is CreateTime: a wrong clock here can stop the bridge; set message.timestamp.type=LogAppendTime", what)
	}
}

// brokerSettings looks at what the sink's brokers do with transactions.
func (v *validation) brokerSettings(ctx context.Context, c *cluster, b configs.Bridge) {
	if b.Options.Semantic != semantics.ExactlyOnce {
		return
	}
	adm := kadm.NewClient(c.cl)
	brokers, err := adm.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		return // said already, if it is so
	}
	answers, err := adm.DescribeBrokerConfigs(ctx, brokers[0].NodeID)
	if err == nil && len(answers) == 1 {
		err = answers[0].Err
	}
	if err != nil || len(answers) != 1 {
		v.note("the brokers' settings are not visible to us: transaction.max.timeout.ms and transactional.id.expiration.ms were not checked; to have them checked grant DescribeConfigs on Cluster: %s",
			c.grant(right{"cluster", "kafka-cluster", "DescribeConfigs"}))
		return
	}
	f := topicFacts{values: map[string]string{}}
	for _, kv := range answers[0].Configs {
		f.values[kv.Key] = kv.MaybeValue()
	}
	v.transactionSettings(f, len(brokers), b)
}

// plausibleDowntime is for how long a bridge may be down with nobody being surprised: a long weekend.
const plausibleDowntime = 4 * 24 * time.Hour

func (v *validation) transactionSettings(f topicFacts, brokers int, b configs.Bridge) {
	if ms, ok := f.number("transactional.id.expiration.ms"); ok {
		switch life := time.Duration(ms) * time.Millisecond; {
		case life <= b.Sink.TransactionTimeout:
			v.problem("the brokers' transactional.id.expiration.ms is %v, not above transaction_timeout (%v): what was prepared could be forgotten before it is committed; raise it (Kafka's default is 7 days)", life, b.Sink.TransactionTimeout)
		case life < plausibleDowntime && !b.Sink.Ledger:
			v.warn("the brokers' transactional.id.expiration.ms is %v and ledger = false: a bridge that is down for longer cannot go on by itself; raise it (Kafka's default is 7 days)", life)
		}
	}
	if replicas, ok := f.number("transaction.state.log.replication.factor"); ok && replicas < 3 && brokers >= 3 {
		v.warn("the brokers' transaction.state.log.replication.factor is %d with %d brokers: one broken disk may lose what was prepared; give __transaction_state 3 replicas", replicas, brokers)
	}
}

// timing checks the configuration against itself.
func (v *validation) timing(b configs.Bridge) {
	if b.Options.Semantic != semantics.ExactlyOnce || b.Store == nil {
		return
	}
	c := b.Options.Checkpoint
	const restart = 30 * time.Second // of a process that is started again at once, with its look at the clusters
	need := max(c.Interval, c.MinPause) + c.Timeout + b.Options.Restart.BackoffMax + restart
	if have := b.Sink.TransactionTimeout; have < need {
		v.warn("transaction_timeout is %v and an interval (%v), a slow checkpoint (%v), restart.backoff_max (%v) and a restart take up to %v: what was prepared would often be read again, not committed; set transaction_timeout to %v or more",
			have, max(c.Interval, c.MinPause), c.Timeout, b.Options.Restart.BackoffMax, need, need)
	}
}

// sortedNames are the names of topics that are there.
func sortedNames(topics map[string]topicFacts) []string { return slices.Sorted(maps.Keys(topics)) }
