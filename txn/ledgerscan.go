package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

const (
	fetchWait     = 500 * time.Millisecond
	fetchBytesMin = 1 << 20
	fetchBytesMax = 128 << 20 // no broker takes a batch that large
	ledgerLimit   = 64 << 20  // decompressed bytes of one batch in the ledger topic
)

// scan reads the ledger's partition from next to target and keeps the bridge's last committed record.
type scan struct {
	l           *Ledger
	topicID     semantics.TopicID
	led         leader
	settled     bool // wait for the last stable offset to pass target; otherwise stop at it
	uncommitted bool // see everything

	next   int64 // the next offset to look at
	epoch  int32 // leader epoch of the batch before it; -1 unknown
	target int64 // the high watermark that was asked for
	bytes  int32

	found  bool
	offset int64
	value  []byte
}

// begin resolves topic, leader and high watermark. nil without an error: there is no topic.
func (l *Ledger) begin(ctx context.Context, settled bool) (*scan, error) {
	const op = "read the ledger"
	metas, err := fetchTopicMeta(ctx, l.cl, l.topic)
	if err != nil {
		if semantics.ClassOf(err) == semantics.Fatal {
			return nil, err
		}
		return nil, again(err)
	}
	meta, ok := metas[l.topic]
	switch {
	case !ok && settled:
		return nil, again(fmt.Errorf("ledger topic %q is not visible yet", l.topic)) // ensure has seen it
	case !ok:
		return nil, nil
	case meta.count != 1:
		return nil, semantics.Refuse(op, "ledger topic %q has %d partitions, it must have one: the order of its records decides", l.topic, meta.count)
	}
	led, ok := meta.partitions[0]
	if !ok {
		return nil, again(fmt.Errorf("ledger %s/0 has no leader", l.topic))
	}
	s := &scan{l: l, topicID: meta.id, led: led, settled: settled, epoch: -1, bytes: fetchBytesMin, offset: -1}
	// The high watermark is asked for with ListOffsets, not taken from a fetch: a new leader's fetch answers may show an
	// old one, ListOffsets answers OFFSET_NOT_AVAILABLE until it has caught up (KIP-207).
	if s.target, err = s.listOffset(ctx, -1); err != nil {
		return nil, err
	}
	start, err := s.listOffset(ctx, -2)
	if err != nil {
		return nil, err
	}
	if p := l.peeked; !settled && p != nil && p.topicID == s.topicID && p.next <= s.target && p.next >= start {
		s.next, s.epoch, s.found, s.offset, s.value = p.next, p.epoch, p.found, p.offset, p.value
		return s, nil
	}
	s.next = start
	return s, nil
}

// listOffset asks the leader for the high watermark (-1) or the log start (-2).
func (s *scan) listOffset(ctx context.Context, which int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = s.l.topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.CurrentLeaderEpoch = s.led.epoch // a deposed leader with an older epoch says so
	rp.Timestamp = which
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := s.l.cl.Broker(int(s.led.node)).Request(ctx, req)
	if err != nil {
		return 0, again(fmt.Errorf("list offsets of ledger %s/0: %w", s.l.topic, err))
	}
	resp, ok := kresp.(*kmsg.ListOffsetsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, again(fmt.Errorf("list offsets of ledger %s/0: the answer is not about it", s.l.topic))
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, s.refused("list offsets of the ledger", p.ErrorCode)
	}
	if p.Offset < 0 {
		return 0, again(fmt.Errorf("list offsets of ledger %s/0: offset %d", s.l.topic, p.Offset))
	}
	return p.Offset, nil
}

// refused is the error of an answer's code: reads may always be repeated.
func (s *scan) refused(op string, code int16) error {
	err := codeError(op, code, resource{"topic", s.l.topic, "READ"}, "")
	if err.Class == semantics.Fatal {
		return err
	}
	return again(err)
}

// run reads until target, or, unless settled, until what is stable.
func (s *scan) run(ctx context.Context, w *waitNotice) error {
	for s.next < s.target {
		p, err := s.fetch(ctx)
		if err != nil {
			return err
		}
		before := s.next
		if err := s.consume(p.RecordBatches, p.AbortedTransactions); err != nil {
			return err
		}
		if s.next > before || s.next >= s.target {
			continue
		}
		stable := p.LastStableOffset
		if s.uncommitted {
			stable = p.HighWatermark
		}
		switch {
		case stable > s.next && len(p.RecordBatches) > 0:
			// A batch larger than what was asked for, cut. Brokers before 2.0 did that.
			if s.bytes >= fetchBytesMax {
				return again(fmt.Errorf("ledger %s/0: no whole batch at offset %d", s.l.topic, s.next))
			}
			s.bytes *= 2
		case stable <= s.next && !s.settled:
			s.target = min(s.target, s.next)
		default:
			w.note(ctx, s)
			if !sleep(ctx, backoffMin) {
				return again(context.Cause(ctx))
			}
		}
	}
	return nil
}

// fetch asks the leader for what follows next.
func (s *scan) fetch(ctx context.Context) (*kmsg.FetchResponseTopicPartition, error) {
	const op = "fetch the ledger"
	ctx, cancel := context.WithTimeout(ctx, fetchWait+requestLimit)
	defer cancel()
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis = int32(fetchWait.Milliseconds())
	req.MinBytes = 1
	req.MaxBytes = s.bytes
	req.IsolationLevel = 1
	if s.uncommitted {
		req.IsolationLevel = 0
	}
	req.SessionEpoch = -1 // no fetch session
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = s.l.topic
	rt.TopicID = s.topicID // from version 13 on: a topic made anew answers UNKNOWN_TOPIC_ID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.CurrentLeaderEpoch = s.led.epoch
	rp.LastFetchedEpoch = s.epoch // after an unclean election the answer says where the log diverged (KIP-595)
	rp.FetchOffset = s.next
	rp.PartitionMaxBytes = s.bytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := s.l.cl.Broker(int(s.led.node)).Request(ctx, req)
	if err != nil {
		return nil, again(fmt.Errorf("%s %s/0 at offset %d: %w", op, s.l.topic, s.next, err))
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	switch {
	case !ok:
		return nil, again(fmt.Errorf("%s: answered with %T", op, kresp))
	case resp.ErrorCode != 0:
		return nil, s.refused(op, resp.ErrorCode)
	case len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1:
		return nil, again(fmt.Errorf("%s %s/0: the answer is not about it", op, s.l.topic))
	}
	p := &resp.Topics[0].Partitions[0]
	switch {
	case errors.Is(kerr.ErrorForCode(p.ErrorCode), kerr.OffsetOutOfRange) || p.DivergingEpoch.EndOffset >= 0:
		s.l.peeked = nil // truncated, or its start moved: read it anew
		return nil, again(fmt.Errorf("%s %s/0: offset %d is not in the log", op, s.l.topic, s.next))
	case p.ErrorCode != 0:
		return nil, s.refused(op, p.ErrorCode)
	}
	return p, nil
}

// consume takes the batches of an answer: those of aborted transactions and control batches are stepped over.
func (s *scan) consume(raw []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction) error {
	slices.SortFunc(aborted, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	inAborted := map[int64]bool{} // producer ids whose transaction at this offset was aborted
	dec := batch.NewDecoder(ledgerLimit)
	for len(raw) > 0 {
		h, whole, rest, err := batch.Next(raw)
		if errors.Is(err, batch.ErrTruncated) {
			return nil
		}
		if err != nil {
			return semantics.Refuse("read the ledger", "ledger %s/0 from offset %d: %w", s.l.topic, s.next, err)
		}
		raw = rest
		for len(aborted) > 0 && aborted[0].FirstOffset <= h.LastOffset() {
			inAborted[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		switch {
		case h.IsControl():
			delete(inAborted, h.ProducerID) // its marker: what comes of this producer later is another transaction
		case h.IsTransactional() && inAborted[h.ProducerID] && !s.uncommitted:
		case h.NextOffset() > s.next:
			if err := s.records(dec, h, whole); err != nil {
				return err
			}
		}
		if h.NextOffset() > s.next {
			s.next, s.epoch = h.NextOffset(), h.PartitionLeaderEpoch
		}
		if s.next >= s.target {
			return nil
		}
	}
	return nil
}

// records looks for the bridge's records in one batch.
func (s *scan) records(dec *batch.Decoder, h batch.Header, raw []byte) error {
	refuse := func(err error) error {
		return semantics.Refuse("read the ledger", "ledger %s/0, batch at offset %d: %w", s.l.topic, h.FirstOffset, err)
	}
	if err := batch.CheckCRC(raw); err != nil {
		return again(refuse(err)) // the way may have broken it; the log is checked by the broker
	}
	payload, err := dec.Payload(raw, h)
	if err != nil {
		return refuse(err)
	}
	var r batch.Reader
	var rec batch.Record
	for r.Reset(h, payload); r.Next(&rec); {
		if rec.Offset < s.next || rec.Offset >= s.target || string(rec.Key) != s.l.opts.Bridge {
			continue
		}
		s.found, s.offset, s.value = true, rec.Offset, slices.Clone(rec.Value)
	}
	if err := r.Err(); err != nil {
		return refuse(err)
	}
	return nil
}

// ledgerEnd decodes the last record.
func (s *scan) ledgerEnd() (semantics.LedgerEnd, error) {
	end := semantics.LedgerEnd{TopicID: s.topicID, Offset: -1}
	if !s.found {
		return end, nil
	}
	rec, err := decodeLedger(s.l.opts.Bridge, s.value)
	if err != nil {
		return end, semantics.Refuse("read the ledger", "ledger %s/0, record of %q at offset %d: %w", s.l.topic, s.l.opts.Bridge, s.offset, err)
	}
	end.Found, end.Record, end.Offset = true, rec, s.offset
	return end, nil
}
