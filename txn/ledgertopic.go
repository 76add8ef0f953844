package txn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"kafkabridge/semantics"
)

// ensure creates the ledger topic when it is missing and checks its settings once.
func (l *Ledger) ensure(ctx context.Context) error {
	op := fmt.Sprintf("ensure ledger topic %q", l.topic)
	return repeat(ctx, l.log, op, func(ctx context.Context) error {
		metas, err := fetchTopicMeta(ctx, l.cl, l.topic)
		if err != nil {
			if semantics.ClassOf(err) == semantics.Fatal {
				return err
			}
			return again(err)
		}
		meta, ok := metas[l.topic]
		if !ok {
			// One broker's word that the topic is not there proves nothing; the controller's TOPIC_ALREADY_EXISTS does.
			return l.create(ctx, op)
		}
		if meta.id == l.checked && meta.id != (semantics.TopicID{}) {
			return nil
		}
		return l.check(ctx, op, meta)
	})
}

// create makes the topic and asks to be called again, because it must be seen before it is used.
func (l *Ledger) create(ctx context.Context, op string) error {
	configs := map[string]*string{
		"cleanup.policy":         kadm.StringPtr("compact"), // keeps the last record of each bridge for ever
		"message.timestamp.type": kadm.StringPtr("LogAppendTime"),
	}
	resp, err := l.adm.CreateTopic(ctx, 1, -1, configs, l.topic)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return again(err)
	case err != nil:
		classified := codeOf(op, err, resource{"topic", l.topic, "CREATE"})
		if resp.ErrMessage != "" {
			classified = fmt.Errorf("%w: broker says %s", classified, resp.ErrMessage)
		}
		if semantics.ClassOf(classified) == semantics.Fatal {
			return classified
		}
		return again(classified)
	}
	l.log.Info("created the ledger topic")
	if err := l.raiseMinISR(ctx, resp.ReplicationFactor); err != nil {
		return err
	}
	return again(fmt.Errorf("ledger topic %q was created and is not visible yet", l.topic))
}

// raiseMinISR sets min.insync.replicas to 2 on a topic that was just created with three replicas or more. It is not
// part of the creation because only the answer tells the cluster's default replication.
func (l *Ledger) raiseMinISR(ctx context.Context, replicas int16) error {
	if replicas < 0 { // not told (no DESCRIBE_CONFIGS): metadata knows
		metas, err := fetchTopicMeta(ctx, l.cl, l.topic)
		if err != nil {
			return again(err)
		}
		replicas = int16(metas[l.topic].replicas)
	}
	if replicas < 3 {
		return nil
	}
	resps, err := l.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.insync.replicas", Value: kadm.StringPtr("2")}}, l.topic)
	if err == nil && len(resps) == 1 {
		err = resps[0].Err
	}
	if err != nil {
		l.log.Warn("min.insync.replicas of the ledger topic could not be set to 2: set it, or one broken disk may lose decided epochs", "replicas", replicas, "error", err)
	}
	return nil
}

// check refuses a topic that would lose records or their order, and warns of what may stop the bridge later.
func (l *Ledger) check(ctx context.Context, op string, meta topicMeta) error {
	if meta.count != 1 {
		return semantics.Refuse(op, "it has %d partitions and must have one: the order of its records decides; name another ledger_topic", meta.count)
	}
	values, err := topicConfigs(ctx, l.adm, l.topic)
	switch {
	case notAuthorized(err):
		l.log.Warn("the settings of the ledger topic may not be read (DESCRIBE_CONFIGS): it must be compacted, without delete", "error", err)
		l.checked = meta.id
		return nil
	case err != nil:
		return again(err)
	}
	if policy := values["cleanup.policy"]; strings.Contains(policy, "delete") {
		return semantics.Refuse(op, "its cleanup.policy is %q: retention would take the ledger's records, and with them the proof of what was delivered; set cleanup.policy=compact", policy)
	}
	if t := values["message.timestamp.type"]; t == "CreateTime" {
		l.log.Warn("message.timestamp.type of the ledger topic is CreateTime: a wrong clock here can stop the bridge; set it to LogAppendTime")
	}
	if n, err := strconv.Atoi(values["min.insync.replicas"]); err == nil && n < 2 && meta.replicas >= 3 {
		l.log.Warn("min.insync.replicas of the ledger topic is below 2: one broken disk may lose decided epochs", "replicas", meta.replicas)
	}
	if n, err := strconv.Atoi(values["max.message.bytes"]); err == nil {
		l.maxBytes = n
	}
	l.checked = meta.id
	return nil
}
