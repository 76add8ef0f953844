package bridge

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

const (
	fetchMaxWait      = 500 * time.Millisecond
	partitionMaxBytes = 1 << 20 // of one partition in an answer; raised for a partition whose first batch is larger
	fetchMinLimit     = 64 << 10
	retryMin          = 100 * time.Millisecond
	retryMax          = 2 * time.Second
	// emptyPause keeps a broker from being asked without end when it answers nothing at once.
	emptyPause = 100 * time.Millisecond
)

// fetcher is the fetch loop of one broker: one request at a time, the next one while the task walks the answer.
type fetcher struct {
	r      *sourceRun
	broker int32
	wake   chan struct{} // there may be something to fetch

	mu          sync.Mutex
	unreachable string // since when and why; "" when the last request was answered

	asked  []asked // of the request under way; reused
	index  map[fetchKey]int
	rotate int // which partition is first: a full answer must not starve the last ones
}

// asked is one partition of the request under way.
type asked struct {
	p          *partition
	generation int
	offset     int64
	epoch      int32
	leader     int32 // leader epoch
	maxBytes   int32
}

// fetchKey finds the partition of an answer: by topic id from request version 13 on, by name before.
type fetchKey struct {
	id        semantics.TopicID
	topic     string
	partition int32
}

// answer is one fetch answer on its way to the task.
type answer struct {
	hold    *answerHold
	release func() // hold.release, made once
	pieces  []piece
	empty   bool // no partition had records
}

// piece is one partition of an answer.
type piece struct {
	p          *partition
	generation int
	from       int64 // offset that was fetched from
	scan       scan
	records    []byte
	aborted    []kmsg.FetchResponseTopicPartitionAbortedTransaction
	resp       *kmsg.FetchResponseTopicPartition

	wanted int64 // first offset to hand over; set by accept
	count  int32 // partitions of the topic; set by accept
}

// loop fetches until ctx ends.
func (f *fetcher) loop(ctx context.Context) {
	defer f.r.wg.Done()
	delay := retryMin
	for ctx.Err() == nil {
		if !f.hasWork() {
			f.setUnreachable("") // nobody needs this broker now
			select {
			case <-f.wake:
			case <-ctx.Done():
			}
			continue
		}
		limit := f.limit()
		if f.r.budget.reserve(ctx, limit) != nil {
			return
		}
		began := time.Now()
		a, err := f.fetch(ctx, limit)
		if err != nil {
			f.r.budget.arrived(limit, 0)
			if ctx.Err() != nil {
				return
			}
			f.failed(err)
			f.r.wakeKeeper() // the leaders may have moved to another broker
			pause(ctx, delay)
			delay = min(2*delay, retryMax)
			continue
		}
		f.setUnreachable("")
		delay = retryMin
		if a == nil {
			f.r.budget.arrived(limit, 0)
			continue
		}
		quickly := a.empty && time.Since(began) < fetchMaxWait/2
		select {
		case f.r.answers <- a:
		case <-ctx.Done():
			a.hold.release()
			return
		}
		if quickly {
			pause(ctx, emptyPause)
		}
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// limit is what one answer may hold. Each loop can have one answer arriving and one being walked within half of the
// budget; the other half is for what the sink has not acknowledged.
func (f *fetcher) limit() int64 {
	f.r.mu.Lock()
	loops := int64(len(f.r.fetchers))
	f.r.mu.Unlock()
	return min(int64(f.r.s.o.FetchMaxBytes), max(f.r.budget.limit()/(4*loops), fetchMinLimit))
}

func (f *fetcher) hasWork() bool {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	for _, p := range f.r.partitions {
		if p.leader == f.broker && p.trouble == healthy {
			return true
		}
	}
	return false
}

// fetch sends one request. The answer is nil when there was nothing to ask for.
func (f *fetcher) fetch(ctx context.Context, limit int64) (*answer, error) {
	req := f.build(limit)
	if len(f.asked) == 0 {
		return nil, nil
	}
	// Request, not RetriableRequest: that one would repeat silently for a long time while leaders move away.
	kresp, err := f.r.s.cl.Broker(int(f.broker)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	if !ok {
		return nil, fmt.Errorf("unexpected answer %T", kresp)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	return f.receive(resp, limit), nil
}

// build makes a full fetch request (no session): what is asked for is then never a matter of what the broker remembers.
func (f *fetcher) build(limit int64) *kmsg.FetchRequest {
	f.collect()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(fetchMaxWait / time.Millisecond)
	req.MinBytes = 1
	req.MaxBytes = int32(limit)
	if f.r.s.o.ReadCommitted {
		req.IsolationLevel = 1
	}
	topics := map[string]int{}
	for i := range f.asked {
		a := &f.asked[i]
		t, ok := topics[a.p.key.topic]
		if !ok {
			t = len(req.Topics)
			topics[a.p.key.topic] = t
			rt := kmsg.NewFetchRequestTopic()
			rt.Topic, rt.TopicID = a.p.key.topic, a.p.id
			req.Topics = append(req.Topics, rt)
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition = a.p.key.partition
		rp.CurrentLeaderEpoch = a.leader
		rp.FetchOffset = a.offset
		rp.LastFetchedEpoch = a.epoch
		rp.LogStartOffset = -1
		rp.PartitionMaxBytes = a.maxBytes
		req.Topics[t].Partitions = append(req.Topics[t].Partitions, rp)
	}
	return req
}

// collect fills asked with the partitions that this broker leads, in a fixed order that begins one further each time.
func (f *fetcher) collect() {
	f.asked = f.asked[:0]
	f.r.mu.Lock()
	for _, p := range f.r.partitions {
		if p.leader == f.broker && p.trouble == healthy {
			f.asked = append(f.asked, asked{p, p.generation, p.fetchOffset, p.fetchEpoch, p.leaderEpoch, p.maxBytes})
		}
	}
	f.r.mu.Unlock()
	if len(f.asked) == 0 {
		return
	}
	slices.SortFunc(f.asked, func(a, b asked) int { return compareTopicPartitions(a.p.key, b.p.key) })
	f.rotate = (f.rotate + 1) % len(f.asked)
	f.asked = append(f.asked[f.rotate:len(f.asked):len(f.asked)], f.asked[:f.rotate]...)
	clear(f.index)
	for i := range f.asked {
		a := &f.asked[i]
		f.index[fetchKey{id: a.p.id, partition: a.p.key.partition}] = i
		f.index[fetchKey{topic: a.p.key.topic, partition: a.p.key.partition}] = i
	}
}

func (f *fetcher) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unreachable == "" {
		f.unreachable = fmt.Sprintf("broker %d unreachable since %s: %v", f.broker, time.Now().UTC().Format(time.RFC3339), err)
		f.r.s.log.Warn("cannot fetch from a broker, trying again", "broker", f.broker, "error", err)
	}
}

func (f *fetcher) setUnreachable(why string) {
	f.mu.Lock()
	f.unreachable = why
	f.mu.Unlock()
}

func (f *fetcher) waiting() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unreachable
}
