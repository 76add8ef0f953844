package txn

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// refusalOf says what a produce answer refuses for ever, 0 when it is not that kind of answer. All of these come before the
// append: nothing of the batch was written, and its sequence was not used.
func refusalOf(code int16) batch.Refusal {
	switch err := kerr.ErrorForCode(code); {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return batch.RefusedSize
	case errors.Is(err, kerr.InvalidTimestamp), errors.Is(err, kerr.InvalidRecord):
		return batch.RefusedRecords
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.InvalidTopicException):
		return batch.RefusedTopic
	default:
		return 0
	}
}

// withRefusal puts a [batch.Refused] around the cause of err where the answer is about the batch, so that whoever made it can
// find the source records that are to blame.
func withRefusal(err *semantics.Error, out batch.Outbound, a *kmsg.ProduceResponseTopicPartition) *semantics.Error {
	why := refusalOf(a.ErrorCode)
	if why == 0 {
		return err
	}
	f := &batch.Refused{Topic: out.Topic, Partition: out.Partition, Why: why, Bytes: len(out.Raw), Count: out.Records, Origins: out.Origins, Err: err.Err}
	if why == batch.RefusedRecords {
		named(f, out.Raw, a.ErrorRecords)
	}
	err.Err = f
	return err
}

// named fills in the records that the answer names (Produce from version 8 on).
func named(f *batch.Refused, raw []byte, records []kmsg.ProduceResponseTopicPartitionErrorRecord) {
	at := map[int32]int{}
	for _, e := range records {
		if _, twice := at[e.RelativeOffset]; twice || e.RelativeOffset < 0 || e.RelativeOffset >= f.Count {
			continue
		}
		at[e.RelativeOffset] = len(f.Records)
		r := batch.RefusedRecord{Index: e.RelativeOffset}
		if e.ErrorMessage != nil {
			r.Reason = *e.ErrorMessage
		}
		f.Records = append(f.Records, r)
		if !f.HasRange {
			f.Earliest, f.Latest, f.HasRange = timestampRange(r.Reason)
		}
	}
	nullKeys(f, raw, at)
}

// nullKeys notes which of the named records have no key: a topic that refuses one refuses all of them.
func nullKeys(f *batch.Refused, raw []byte, at map[int32]int) {
	h, err := batch.ParseHeader(raw)
	if err != nil || len(at) == 0 {
		return
	}
	payload, err := batch.NewDecoder(batch.DefaultDecompressedLimit).Payload(raw, h)
	if err != nil {
		return // only a help: without it each such record is found out by itself
	}
	var reader batch.Reader
	var record batch.Record
	reader.Reset(h, payload)
	for i := int32(0); reader.Next(&record); i++ {
		if n, ok := at[i]; ok {
			f.Records[n].NullKey = record.Key == nil
		}
	}
}

// rangeText is in the broker's message about a timestamp (org.apache.kafka.storage.internals.log.LogValidator, since 3.6): the
// only way to learn of its clock. Where it is worded otherwise, only what was refused is known.
var rangeText = regexp.MustCompile(`within \[(-?\d+), (-?\d+)\]`)

func timestampRange(message string) (earliest, latest int64, ok bool) {
	m := rangeText.FindStringSubmatch(message)
	if m == nil {
		return 0, 0, false
	}
	earliest, err1 := strconv.ParseInt(m[1], 10, 64)
	latest, err2 := strconv.ParseInt(m[2], 10, 64)
	// Without a limit the broker's sum overflows.
	if latest < 0 {
		latest = 1<<63 - 1
	}
	return earliest, latest, err1 == nil && err2 == nil && earliest <= latest
}
