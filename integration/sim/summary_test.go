package sim

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// summary says of a request what matters.
func summary(req kmsg.Request) string {
	switch r := req.(type) {
	case *kmsg.InitProducerIDRequest:
		if r.TransactionalID == nil {
			return "idempotent"
		}
		return fmt.Sprintf("v%d %s pid=%d epoch=%d", r.Version, *r.TransactionalID, r.ProducerID, r.ProducerEpoch)
	case *kmsg.EndTxnRequest:
		return fmt.Sprintf("v%d %s pid=%d epoch=%d commit=%t", r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit)
	case *kmsg.AddPartitionsToTxnRequest:
		return fmt.Sprintf("v%d %s pid=%d epoch=%d", r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch)
	case *kmsg.ProduceRequest:
		return produceSummary(r)
	case *kmsg.FetchRequest:
		return fetchSummary(r)
	case *kmsg.ListOffsetsRequest:
		var s strings.Builder
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&s, " %s/%d@%d", t.Topic, p.Partition, p.Timestamp)
			}
		}
		return s.String()
	}
	return ""
}

func fetchSummary(r *kmsg.FetchRequest) string {
	var s strings.Builder
	fmt.Fprintf(&s, "v%d session=%d/%d", r.Version, r.SessionID, r.SessionEpoch)
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&s, " %s/%d@%d", topicName(t.Topic, t.TopicID), p.Partition, p.FetchOffset)
		}
	}
	return s.String()
}

func topicName(name string, id [16]byte) string {
	if name != "" {
		return name
	}
	return fmt.Sprintf("%x", id[:4])
}

func produceSummary(r *kmsg.ProduceRequest) string {
	var s strings.Builder
	fmt.Fprintf(&s, "v%d", r.Version)
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			var b kmsg.RecordBatch
			if b.ReadFrom(p.Records) != nil {
				fmt.Fprintf(&s, " %s/%d:?", t.Topic, p.Partition)
				continue
			}
			fmt.Fprintf(&s, " %s/%d:pid=%d epoch=%d seq=%d n=%d", t.Topic, p.Partition, b.ProducerID, b.ProducerEpoch, b.FirstSequence, b.NumRecords)
		}
	}
	return s.String()
}

func answerSummary(resp kmsg.Response) string {
	switch r := resp.(type) {
	case *kmsg.FetchResponse:
		var s strings.Builder
		s.WriteString(code(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&s, " %s/%d:%s hw=%d lso=%d %dB", topicName(t.Topic, t.TopicID), p.Partition, code(p.ErrorCode), p.HighWatermark, p.LastStableOffset, len(p.RecordBatches))
			}
		}
		return s.String()
	case *kmsg.ListOffsetsResponse:
		var s strings.Builder
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&s, " %s/%d:%s@%d", t.Topic, p.Partition, code(p.ErrorCode), p.Offset)
			}
		}
		return s.String()
	case *kmsg.InitProducerIDResponse:
		return fmt.Sprintf("%s pid=%d epoch=%d", code(r.ErrorCode), r.ProducerID, r.ProducerEpoch)
	case *kmsg.EndTxnResponse:
		return fmt.Sprintf("%s pid=%d epoch=%d", code(r.ErrorCode), r.ProducerID, r.ProducerEpoch)
	case *kmsg.ProduceResponse:
		var s strings.Builder
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&s, " %s/%d:%s@%d", t.Topic, p.Partition, code(p.ErrorCode), p.BaseOffset)
			}
		}
		return s.String()
	}
	return ""
}

func code(c int16) string {
	if err := kerr.TypedErrorForCode(c); err != nil {
		return err.Message
	}
	return "ok"
}
