package txn

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

func TestEnsureTopics(t *testing.T) {
	f := start(t, "", testOptions())
	ctx := testContext(t)
	adm := kadm.NewClient(f.client)
	st, err := f.sink.Topics.Ensure(ctx, "fresh", 3)
	if err != nil || st.Partitions != 3 || st.Compression != "producer" || st.MaxMessageBytes != 1048588 || st.LogAppendTime {
		t.Fatalf("created: %+v, %v", st, err)
	}
	if st, err = f.sink.Topics.Ensure(ctx, "fresh", 5); err != nil || st.Partitions != 5 {
		t.Fatalf("extended: %+v, %v", st, err)
	}
	if st, err = f.sink.Topics.Ensure(ctx, "fresh", 2); err != nil || st.Partitions != 5 {
		t.Fatalf("fewer: %+v, %v", st, err)
	}
	settings := []kadm.AlterConfig{
		{Name: "compression.type", Value: kadm.StringPtr("lz4")}, {Name: "max.message.bytes", Value: kadm.StringPtr("5000")},
		{Name: "message.timestamp.type", Value: kadm.StringPtr("LogAppendTime")},
	}
	if _, err := adm.AlterTopicConfigs(ctx, settings, "fresh"); err != nil {
		t.Fatal(err)
	}
	if st, _ = f.sink.Topics.Ensure(ctx, "fresh", 5); st.Compression != "producer" {
		t.Errorf("the cache was not used: %+v", st)
	}
	f.sink.Topics.Refresh()
	if st, err = f.sink.Topics.Ensure(ctx, "fresh", 5); err != nil || st.Compression != "lz4" || st.MaxMessageBytes != 5000 || !st.LogAppendTime {
		t.Errorf("after Refresh: %+v, %v", st, err)
	}
}

func TestEnsureTopicsWithoutCreate(t *testing.T) {
	opts := testOptions()
	opts.CreateTopics = false
	f := start(t, "", opts)
	if st, err := f.sink.Topics.Ensure(testContext(t), testTopic, 4); err != nil || st.Partitions != 4 {
		t.Fatalf("there: %+v, %v", st, err)
	}
	for topic, want := range map[string]string{testTopic: "has 4 partitions, 6 are needed", "missing": "is not there"} {
		_, err := f.sink.Topics.Ensure(testContext(t), topic, 6)
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitUsage || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), topic) {
			t.Errorf("%s: %v", topic, err)
		}
	}
}

// Settings that may not be read have Kafka's defaults; settings that cannot be read now are asked for again.
func TestEnsureTopicsWithoutDescribeConfigs(t *testing.T) {
	f := start(t, "", testOptions())
	adm := kadm.NewClient(f.client)
	if _, err := adm.AlterTopicConfigs(testContext(t), []kadm.AlterConfig{{Name: "max.message.bytes", Value: kadm.StringPtr("5000")}}, testTopic); err != nil {
		t.Fatal(err)
	}
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: testTopic, Err: kerr.UnknownServerError, Count: 2})
	if st, err := f.sink.Topics.Ensure(testContext(t), testTopic, 4); err != nil || st.MaxMessageBytes != 5000 {
		t.Errorf("after a passing failure: %+v, %v", st, err)
	}
	f.sink.Topics.Refresh()
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: testTopic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if st, err := f.sink.Topics.Ensure(testContext(t), testTopic, 4); err != nil || st.MaxMessageBytes != 1048588 {
		t.Errorf("not authorized: %+v, %v", st, err)
	}
}

// TestEnsureTopicsWhileBrokersAreAway: a cluster whose brokers start or are fenced for a moment answers
// INVALID_REPLICATION_FACTOR to a topic with its own default replication. That passes; it must not end the process.
func TestEnsureTopicsWhileBrokersAreAway(t *testing.T) {
	f := start(t, "", testOptions())
	var refusals atomic.Int32 // the embedded broker has its own goroutine
	f.cluster.ControlKey(int16(kmsg.CreateTopics), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		if refusals.Add(1) > 2 {
			return nil, nil, false
		}
		resp := kreq.ResponseKind().(*kmsg.CreateTopicsResponse)
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.ErrorCode = "late", kerr.InvalidReplicationFactor.Code
		topic.ErrorMessage = kmsg.StringPtr("All brokers are currently fenced")
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	if st, err := f.sink.Topics.Ensure(testContext(t), "late", 2); err != nil || st.Partitions != 2 {
		t.Errorf("after %d refusals: %+v, %v", refusals.Load(), st, err)
	}
}
