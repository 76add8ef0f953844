package sim

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// summary says of a request what matters to transactions.
func summary(frame []byte) string {
	switch r := decodeRequest(frame).(type) {
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
	}
	return ""
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

func answerSummary(request, answer []byte) string {
	switch r := decodeAnswer(request, answer).(type) {
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
