package bridge

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// receive turns the answer into pieces, moves the fetch offsets on and turns the reservation into what did arrive.
func (f *fetcher) receive(resp *kmsg.FetchResponse, limit int64) *answer {
	a := &answer{hold: &answerHold{budget: f.r.budget}}
	a.release = a.hold.release
	a.hold.refs.Store(1) // the task's, until it has walked the answer
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			rp := &t.Partitions[j]
			key := fetchKey{topic: t.Topic, partition: rp.Partition}
			if resp.Version >= 13 {
				key = fetchKey{id: t.TopicID, partition: rp.Partition}
			}
			n, ok := f.index[key]
			if !ok {
				continue // nothing that was asked for
			}
			as := f.asked[n]
			pc := piece{p: as.p, generation: as.generation, from: as.offset, resp: rp, records: rp.RecordBatches, aborted: rp.AbortedTransactions}
			pc.scan = scanBatches(rp.RecordBatches, as.offset)
			a.hold.bytes += int64(len(rp.RecordBatches))
			a.pieces = append(a.pieces, pc)
		}
	}
	a.empty = a.hold.bytes == 0
	f.r.budget.arrived(limit, a.hold.bytes)
	f.moveOn(a)
	return a
}

// moveOn lets the next request begin behind this answer.
func (f *fetcher) moveOn(a *answer) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	for i := range a.pieces {
		pc := &a.pieces[i]
		p := pc.p
		if p.generation != pc.generation {
			continue
		}
		if pc.resp.ErrorCode != 0 || pc.resp.DivergingEpoch.EndOffset >= 0 || pc.scan.err != nil {
			p.trouble = troubleAnswered
			continue
		}
		if pc.scan.batches > 0 {
			p.fetchOffset, p.fetchEpoch = pc.scan.next, pc.scan.epoch
		}
		if pc.scan.partial {
			p.maxBytes = raised(p.maxBytes, f.r.s.cl)
		}
	}
}

// raised doubles a partition's limit up to what the client accepts from a broker.
func raised(n int32, cl *kgo.Client) int32 {
	most, ok := cl.OptValue(kgo.BrokerMaxReadBytes).(int32)
	if !ok {
		most = 100 << 20
	}
	return min(max(n, 1), most/2) * 2
}
