package txn

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// refuseFirst answers the first Produce as a broker does that refuses records.
func (f *fixture) refuseFirst(err *kerr.Error, records ...kmsg.ProduceResponseTopicPartitionErrorRecord) {
	f.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode, p.BaseOffset, p.ErrorRecords = rp.Partition, err.Code, -1, records
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
}

func errorRecord(index int32, message string) kmsg.ProduceResponseTopicPartitionErrorRecord {
	r := kmsg.NewProduceResponseTopicPartitionErrorRecord()
	r.RelativeOffset = index
	if message != "" {
		r.ErrorMessage = &message
	}
	return r
}

// TestRefusedNamesItsRecords: what a broker refuses for ever comes back with the batch's origins and the records that it named.
func TestRefusedNamesItsRecords(t *testing.T) {
	const timestamp = "Timestamp 5 of message with offset 2 is out of range. The timestamp should be within [100, 200]"
	for name, row := range map[string]struct {
		err     *kerr.Error
		records []kmsg.ProduceResponseTopicPartitionErrorRecord
		want    *batch.Refused
	}{
		"timestamps": {kerr.InvalidTimestamp, []kmsg.ProduceResponseTopicPartitionErrorRecord{errorRecord(2, timestamp), errorRecord(0, ""), errorRecord(2, "again"), errorRecord(3, "not in it"), errorRecord(-1, "")},
			&batch.Refused{Why: batch.RefusedRecords, Records: []batch.RefusedRecord{{Index: 2, Reason: timestamp}, {Index: 0, NullKey: true}}, HasRange: true, Earliest: 100, Latest: 200}},
		"keys":      {kerr.InvalidRecord, []kmsg.ProduceResponseTopicPartitionErrorRecord{errorRecord(0, "no key")}, &batch.Refused{Why: batch.RefusedRecords, Records: []batch.RefusedRecord{{Index: 0, Reason: "no key", NullKey: true}}}},
		"unnamed":   {kerr.InvalidRecord, nil, &batch.Refused{Why: batch.RefusedRecords}},
		"too large": {kerr.MessageTooLarge, nil, &batch.Refused{Why: batch.RefusedSize}},
		"segment":   {kerr.RecordListTooLarge, nil, &batch.Refused{Why: batch.RefusedSize}},
		"topic":     {kerr.TopicAuthorizationFailed, nil, &batch.Refused{Why: batch.RefusedTopic}},
		"no name":   {kerr.InvalidTopicException, nil, &batch.Refused{Why: batch.RefusedTopic}},
		"other":     {kerr.PolicyViolation, nil, nil},
		"unknown":   {kerr.UnknownServerError, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := begun(t, "", testOptions())
			f.refuseFirst(row.err, row.records...)
			out := outbound(t, 1, 0, 3, nil)
			var b batch.Builder
			for i := range 3 {
				r := batch.Record{Key: []byte("k"), Value: []byte{byte(i)}, Timestamp: 5}
				if i == 0 {
					r.Key = nil
				}
				if err := b.Append(&r); err != nil {
					t.Fatal(err)
				}
			}
			raw, err := b.Finish(nil, new(batch.Compressor), batch.Zstd)
			if err != nil {
				t.Fatal(err)
			}
			out.Raw, out.Origins = raw, "origins"
			if err := f.sink.Producer.Write(testContext(t), out); err != nil {
				t.Fatal(err)
			}
			_, err = f.sink.Producer.Flush(testContext(t))
			var got *batch.Refused
			if !errors.As(err, &got) {
				if row.want != nil || err == nil {
					t.Fatal(err)
				}
				return
			}
			w := row.want
			if w == nil || !errors.Is(err, row.err) || semantics.ClassOf(err) != semantics.Fatal {
				t.Fatal(err)
			}
			if got.Why != w.Why || got.Topic != testTopic || got.Partition != 1 || got.Count != 3 || got.Bytes != len(raw) || got.Origins != "origins" ||
				!slices.Equal(got.Records, w.Records) || got.HasRange != w.HasRange || got.Earliest != w.Earliest || got.Latest != w.Latest {
				t.Errorf("%+v\nwant %+v", got, w)
			}
			if !strings.Contains(err.Error(), "in/1 offsets 0 to 2") {
				t.Error(err)
			}
		})
	}
}

func TestTimestampRange(t *testing.T) {
	for message, want := range map[string][3]int64{
		"The timestamp should be within [1700000000000, 1700003600000]": {1700000000000, 1700003600000, 1},
		"within [-9223370336854775807, 1700003600000]":                  {-9223370336854775807, 1700003600000, 1},
		"within [1700000000000, -9223370336854775000]":                  {1700000000000, 1<<63 - 1, 1},
		"within [5, 4]": {},
		"Compacted topic cannot accept message without key in topic partition orders-0": {},
	} {
		lo, hi, ok := timestampRange(message)
		if ok != (want[2] == 1) || ok && (lo != want[0] || hi != want[1]) {
			t.Errorf("%s: %d %d %v", message, lo, hi, ok)
		}
	}
}

// TestDeadLetterTopicTakesEverything: made with settings under which no dead letter is refused or deleted, unlike other topics.
func TestDeadLetterTopicTakesEverything(t *testing.T) {
	opts := testOptions()
	opts.DeadLetterTopic = "dead"
	f := start(t, "", opts)
	for topic, want := range map[string]map[string]string{
		"dead":  {"cleanup.policy": "delete", "retention.ms": "-1", "max.message.bytes": "104857600"},
		"other": {"max.message.bytes": "1048588"},
	} {
		st, err := f.sink.Topics.Ensure(testContext(t), topic, -5)
		if err != nil || st.Partitions != 5 {
			t.Fatalf("%s: %+v, %v", topic, st, err)
		}
		rcs, err := kadm.NewClient(f.client).DescribeTopicConfigs(testContext(t), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rcs[0].Configs {
			if w, ok := want[c.Key]; ok && c.MaybeValue() != w {
				t.Errorf("%s: %s = %s, want %s", topic, c.Key, c.MaybeValue(), w)
			}
			delete(want, c.Key)
		}
		if len(want) > 0 {
			t.Errorf("%s: not set: %v", topic, want)
		}
	}
}

// TestTopicSettings: what the map tasks need to know of a sink topic beforehand.
func TestTopicSettings(t *testing.T) {
	f := start(t, "", testOptions())
	for topic, policy := range map[string]string{"keyed": "compact", "both": "compact,delete", "plain": "delete"} {
		if err := f.cluster.CreateTopic(topic, 1, map[string]string{"cleanup.policy": policy}); err != nil {
			t.Fatal(err)
		}
		if st, err := f.sink.Topics.Ensure(testContext(t), topic, 1); err != nil || st.Compacted != (topic != "plain") {
			t.Errorf("%s: %+v, %v", topic, st, err)
		}
	}
	for value, want := range map[string]int64{"9223372036854775807": 0, "3600000": 3600000, "0": 1, "": 0, "x": 0, "-1": 0} {
		if got := timestampLimit(value); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}
