package sim

import (
	"context"
	"encoding/binary"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const ledgerTopic = bridgeName + ".ledger"

// lag keeps the ledger's last stable offset back while the markers of a transaction are on their way.
type lag struct {
	until  time.Time
	stable int64
}

// ledgerStable is the last stable offset of the ledger now; -1 where there is none.
func (c *coordinator) ledgerStable() int64 {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	offsets, err := c.adm.ListCommittedOffsets(ctx, ledgerTopic)
	if err != nil {
		return -1
	}
	o, found := offsets.Lookup(ledgerTopic, 0)
	if !found || o.Err != nil {
		return -1
	}
	return o.Offset
}

// markers says when the markers of a transaction that ends now are written. stable is the ledger's last stable offset before.
func (c *coordinator) markers(stable int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	until := time.Now().Add(c.prepare(c.n))
	if stable >= 0 {
		c.lags = append(c.lags, lag{until, stable})
	}
	return until
}

// held is the offset that the ledger's last stable offset is kept at; -1 when it is not.
func (c *coordinator) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := int64(-1)
	kept := c.lags[:0]
	for _, l := range c.lags {
		if !time.Now().Before(l.until) {
			continue
		}
		kept = append(kept, l)
		if held < 0 || l.stable < held {
			held = l.stable
		}
	}
	c.lags = kept
	return held
}

// unmarked shows a fetch of the ledger what a reader sees while markers are on their way.
func (c *coordinator) unmarked(req *kmsg.FetchRequest, request, answer []byte) []byte {
	held := c.held()
	if held < 0 {
		return answer
	}
	resp, ok := decodeAnswer(request, req, answer).(*kmsg.FetchResponse)
	if !ok || len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || len(resp.Topics) != 1 || !c.isLedger(resp.Topics[0]) {
		return answer
	}
	for i := range resp.Topics[0].Partitions {
		p := &resp.Topics[0].Partitions[i]
		if p.LastStableOffset <= held {
			continue
		}
		p.LastStableOffset = held
		if req.IsolationLevel == 1 {
			p.RecordBatches = below(p.RecordBatches, held)
		}
	}
	c.tr.add("sim", "the ledger's last stable offset is kept at %d", held)
	return encodeAnswer(request, resp)
}

// isLedger: new versions name topics by id only, and nobody fetches the ledger together with another topic.
func (c *coordinator) isLedger(t kmsg.FetchResponseTopic) bool {
	if t.Topic != "" {
		return t.Topic == ledgerTopic
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	topics, err := c.adm.ListTopics(ctx, ledgerTopic)
	return err == nil && topics.Has(ledgerTopic) && [16]byte(topics[ledgerTopic].ID) == t.TopicID
}

// below are the whole batches that begin before an offset.
func below(batches []byte, offset int64) []byte {
	for at := 0; at+12 <= len(batches); {
		if int64(binary.BigEndian.Uint64(batches[at:])) >= offset {
			return batches[:at]
		}
		at += 12 + int(binary.BigEndian.Uint32(batches[at+8:]))
	}
	return batches
}

// produce refuses what a real leader refuses and kfake takes for the begin of a transaction: kfake adds the partition before it looks at the
// epoch, so a batch of a dead producer leaves an empty transaction open on the id. It also refuses a new transaction's first batches while the
// markers of the one before are written.
func (c *coordinator) produce(req *kmsg.ProduceRequest, frame []byte, server net.Conn, who string) ([]byte, error) {
	id := c.id(*req.TransactionID)
	id.turn <- struct{}{}
	defer func() { <-id.turn }()
	if !id.opened.IsZero() && time.Since(id.opened) >= c.timeout {
		if st, found := c.state(*req.TransactionID); found && st.ProducerEpoch > id.floor {
			id.floor, id.opened = st.ProducerEpoch, time.Time{}
			c.excused.Store(true)
		}
	}
	switch epoch := batchEpoch(req); {
	case epoch < id.floor:
		c.tr.add(who, "COORDINATOR Produce of epoch %d, current is %d", epoch, id.floor)
		return refuseProduce(req, frame, kerr.InvalidProducerEpoch), nil
	case id.opened.IsZero() && time.Now().Before(id.until):
		c.tr.add(who, "COORDINATOR Produce: markers are being written")
		return refuseProduce(req, frame, kerr.ConcurrentTransactions), nil
	}
	answer, err := forward(frame, server)
	if err != nil {
		return nil, err
	}
	if id.opened.IsZero() {
		id.opened = time.Now()
	}
	return answer, nil
}

// batchEpoch is the producer epoch of the first batch (record batch v2: byte 51).
func batchEpoch(req *kmsg.ProduceRequest) int16 {
	return int16(binary.BigEndian.Uint16(req.Topics[0].Partitions[0].Records[51:]))
}

func refuseProduce(req *kmsg.ProduceRequest, frame []byte, e *kerr.Error) []byte {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.BaseOffset = p.Partition, e.Code, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return encodeAnswer(frame, resp)
}
