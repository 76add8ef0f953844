package bridge

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
)

// abortedFilter finds the batches of aborted transactions in one answer of one partition. The broker lists the
// transactions that were aborted within the answer's range (producer id and first offset); a producer's batches from there
// on are aborted until its abort marker (Kafka's CompletedFetch does the same).
type abortedFilter struct {
	pending []kmsg.FetchResponseTopicPartitionAbortedTransaction // by first offset
	active  map[int64]struct{}                                   // producer ids
}

func newAbortedFilter(aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction) abortedFilter {
	if len(aborted) == 0 {
		return abortedFilter{}
	}
	slices.SortFunc(aborted, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	return abortedFilter{pending: aborted, active: map[int64]struct{}{}}
}

// drop says whether the batch belongs to an aborted transaction. It must see every batch of the answer in order, also
// those that nobody wants: their markers end transactions.
func (f *abortedFilter) drop(h batch.Header, raw []byte) (bool, error) {
	for len(f.pending) > 0 && f.pending[0].FirstOffset <= h.LastOffset() {
		f.active[f.pending[0].ProducerID] = struct{}{}
		f.pending = f.pending[1:]
	}
	if len(f.active) == 0 {
		return false, nil
	}
	if h.IsControl() {
		abort, err := isAbortMarker(h, raw)
		if abort {
			delete(f.active, h.ProducerID)
		}
		return true, err
	}
	_, aborted := f.active[h.ProducerID]
	return aborted && h.IsTransactional(), nil
}

// The types of control records (Kafka's ControlRecordType); the key of a control record is version int16, type int16.
const controlAbort = 0

// isAbortMarker reads the first record of a control batch. One whose record the cleaner has removed marks nothing.
func isAbortMarker(h batch.Header, raw []byte) (bool, error) {
	if h.NumRecords == 0 {
		return false, nil
	}
	if h.Codec() != batch.None {
		return false, fmt.Errorf("%w: control batch at offset %d is compressed", batch.ErrCorrupt, h.FirstOffset)
	}
	if err := batch.CheckCRC(raw); err != nil {
		return false, err // map tasks check what they get, but never see this one
	}
	var r batch.Reader
	var rec batch.Record
	r.Reset(h, raw[batch.HeaderSize:])
	if !r.Next(&rec) {
		return false, r.Err()
	}
	if len(rec.Key) < 4 {
		return false, fmt.Errorf("%w: control record at offset %d has a key of %d bytes", batch.ErrCorrupt, h.FirstOffset, len(rec.Key))
	}
	return binary.BigEndian.Uint16(rec.Key[2:]) == controlAbort, nil
}

// scan looks at the headers of an answer's batches only, to know from where to fetch next before they are walked.
type scan struct {
	next    int64 // offset behind the last whole batch; the offset fetched from when there is none
	epoch   int32 // leader epoch of that batch; -1 when there is none
	batches int
	partial bool  // the first batch is not whole: the limit is too small for it
	err     error // what stopped the scan, other than the end; the batches before it are good
}

func scanBatches(records []byte, from int64) scan {
	s := scan{next: from, epoch: -1}
	for rest := records; ; {
		h, _, tail, err := batch.Next(rest)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return s
		case errors.Is(err, batch.ErrTruncated):
			s.partial = s.batches == 0
			return s
		default:
			s.err = err
			return s
		}
		s.batches++
		if h.NextOffset() > s.next {
			s.next, s.epoch = h.NextOffset(), h.PartitionLeaderEpoch
		}
		rest = tail
	}
}
