package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
)

// TestSettingsOfTopics has what an embedded broker cannot show: replicas, elections, limits for timestamps. The keys and
// defaults are Kafka's.
func TestSettingsOfTopics(t *testing.T) {
	b := configs.Bridge{}
	b.Options.Semantic = semantics.ExactlyOnce
	b.Options.Sink.Compression, b.Options.Sink.MaxMessageBytes = "source", 1<<20
	b.Sink.TransactionTimeout = 15 * time.Minute
	facts := func(replicas, insync int, settings ...string) topicFacts {
		f := topicFacts{partitions: 4, replicas: replicas, insync: insync, values: map[string]string{}}
		for _, s := range settings {
			key, value, _ := strings.Cut(s, "=")
			f.values[key] = value
		}
		return f
	}
	kafka := []string{"max.message.bytes=1048588", "compression.type=producer", "cleanup.policy=delete", "message.timestamp.type=CreateTime", "message.timestamp.before.max.ms=9223372036854775807",
		"message.timestamp.after.max.ms=3600000", "unclean.leader.election.enable=false", "min.insync.replicas=2", "retention.ms=604800000"}
	for name, c := range map[string]struct {
		look func(*validation)
		want []string // beginnings of lines, all of them
	}{
		"Kafka's defaults": {func(v *validation) {
			v.written("topic", "x", facts(3, 3, kafka...))
			v.output("x", facts(3, 3, kafka...), b, 1048588)
		}, nil},
		"nothing visible": {func(v *validation) {
			v.written("topic", "x", topicFacts{partitions: 1, replicas: 3, insync: 3})
			v.output("x", topicFacts{}, b, 1048588)
			v.ledgerSettings("x", topicFacts{}, 10)
			v.deadLetters("x", topicFacts{}, 10)
		}, nil},
		"one replica in sync is enough": {func(v *validation) { v.written("topic", "NAME", facts(3, 3, "min.insync.replicas=1")) },
			[]string{`warning: w: topic "NAME": min.insync.replicas is 1 with 3 replicas: one broken disk, or an unclean election, may lose acknowledged records; set min.insync.replicas=2`}},
		"one replica": {func(v *validation) {
			v.written("topic", "x", facts(1, 1, "min.insync.replicas=1", "unclean.leader.election.enable=true"))
		}, nil},
		"more than there": {func(v *validation) { v.written("topic", "x", facts(2, 2, "min.insync.replicas=3")) }, []string{`w: topic "x": min.insync.replicas is 3 with 2 replicas: nothing can be written; set min.insync.replicas=1`}},
		"not in sync":     {func(v *validation) { v.written("ledger topic", "x", facts(3, 1, "min.insync.replicas=2")) }, []string{`w: ledger topic "x": 1 of 3 replicas are in sync and min.insync.replicas is 2`}},
		"unclean":         {func(v *validation) { v.written("topic", "x", facts(3, 3, "unclean.leader.election.enable=true")) }, []string{`warning: w: topic "x": unclean.leader.election.enable is true`}},
		"no leader":       {func(v *validation) { v.written("topic", "x", topicFacts{partitions: 4, replicas: 1, leaderless: 2}) }, []string{`w: topic "x": 2 of 4 partitions have no leader now`}},
		"old records":     {func(v *validation) { v.output("x", facts(1, 1, "message.timestamp.before.max.ms=86400000"), b, 0) }, []string{`warning: w: topic "x": message.timestamp.before.max.ms is 24h0m0s: an older record stops the bridge`}},
		"broker's time":   {func(v *validation) { v.output("x", facts(1, 1, "message.timestamp.type=LogAppendTime"), b, 0) }, []string{`note: w: topic "x": message.timestamp.type is LogAppendTime`}},
		"smaller topic":   {func(v *validation) { v.output("x", facts(1, 1, "max.message.bytes=1000"), b, 0) }, []string{`warning: w: topic "x": max.message.bytes is 1000 and max_message_bytes of the sink block 1048576`}},
		"ledger deletes": {func(v *validation) {
			v.ledgerSettings("x", facts(1, 1, "cleanup.policy=compact,delete", "retention.ms=5"), 1)
		},
			[]string{`w: ledger topic "x": cleanup.policy is compact,delete, which deletes the ledger in time (retention.ms is 5): set cleanup.policy=compact`}},
		"ledger's clock": {func(v *validation) {
			v.ledgerSettings("x", facts(1, 1, "cleanup.policy=compact", "message.timestamp.type=CreateTime"), 1)
		}, []string{`warning: w: ledger topic "x": message.timestamp.type is CreateTime`}},
		"dead and deleted": {func(v *validation) { v.deadLetters("x", facts(1, 1, kafka...), 100) }, []string{`note: w: dead letter topic "x": retention.ms is 168h0m0s`}},
		"forgotten ids":    {func(v *validation) { v.transactionSettings(facts(0, 0, "transactional.id.expiration.ms=600000"), 3, b) }, []string{`w: the brokers' transactional.id.expiration.ms is 10m0s, not above transaction_timeout (15m0s)`}},
		"no ledger": {func(v *validation) {
			v.transactionSettings(facts(0, 0, "transactional.id.expiration.ms=86400000"), 3, b)
		}, []string{`warning: w: the brokers' transactional.id.expiration.ms is 24h0m0s and ledger = false`}},
		"one log replica": {func(v *validation) {
			v.transactionSettings(facts(0, 0, "transaction.state.log.replication.factor=1"), 3, b)
		}, []string{`warning: w: the brokers' transaction.state.log.replication.factor is 1 with 3 brokers`}},
		"one broker": {func(v *validation) {
			v.transactionSettings(facts(0, 0, "transaction.state.log.replication.factor=1", "transactional.id.expiration.ms=604800000"), 1, b)
		}, nil},
	} {
		v := &validation{where: "w"}
		c.look(v)
		got := slices.Concat(v.problems, v.warnings, v.notes)
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: got %q, want %q", name, got[i], want)
			}
		}
	}
}

func TestGrant(t *testing.T) {
	o := connect.Options{Brokers: []string{"east:9092", "other:9092"}, SASL: &connect.SASL{Mechanism: connect.Plain, Username: "o'neil x"}}
	c := &cluster{o: o}
	if got, want := c.grant(right{"transactional-id", "a b", "Describe"}, right{"transactional-id", "a b", "Write"}),
		`kafka-acls --bootstrap-server east:9092 --add --allow-principal 'User:o'\''neil x' --operation Describe --operation Write --transactional-id 'a b'`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// The claims {"sub":"system:serviceaccount:prod:bridge"}, encoded by base64(1).
	c.o.SASL = &connect.SASL{Mechanism: connect.OAuthBearer, TokenFile: connect.NewSecretFile("t", "e30.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6cHJvZDpicmlkZ2UifQ.c2ln")}
	if got := c.user(); got != "system:serviceaccount:prod:bridge" {
		t.Errorf("user %q", got)
	}
	c.o.SASL = &connect.SASL{Mechanism: connect.AWSMSKIAM, AWS: connect.NewAWS("")}
	if got, want := c.grant(right{"topic", "x", "Write"}), "allow kafka-cluster:WriteData on topic x in the IAM policy"; got != want {
		t.Errorf("got %s", got)
	}
	c.o.SASL = nil
	if got := c.user(); got != "ANONYMOUS" {
		t.Errorf("user %q", got)
	}
}
