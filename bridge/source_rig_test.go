package bridge

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

const srcName = "src"

// sourceRig is a source task on a kfake cluster, with a collector in place of the map tasks.
type sourceRig struct {
	tb      testing.TB
	cluster *kfake.Cluster
	cl      *kgo.Client // the source's transport
	s       *source

	cancel context.CancelFunc
	result chan error
	ended  sync.WaitGroup

	mu       sync.Mutex
	got      map[topicPartition][]string // values as decoded, in order
	offsets  map[topicPartition][]int64
	barriers map[semantics.Epoch]map[topicPartition]int64 // offset behind the last record before the barrier
	seen     map[semantics.Epoch]int                      // channels that the barrier came down
	task     map[topicPartition]int
	bytes    int64
	hold     bool // do not release
	held     []func()
	counts   map[topicPartition]int32
	ids      map[string]semantics.TopicID
}

func newSourceRig(tb testing.TB, o SourceOptions, kopts ...kfake.Opt) *sourceRig {
	tb.Helper()
	cluster, err := kfake.NewCluster(kopts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cluster.Close)
	r := &sourceRig{
		tb: tb, cluster: cluster,
		got: map[topicPartition][]string{}, offsets: map[topicPartition][]int64{}, task: map[topicPartition]int{},
		barriers: map[semantics.Epoch]map[topicPartition]int64{}, seen: map[semantics.Epoch]int{},
		counts: map[topicPartition]int32{}, ids: map[string]semantics.TopicID{},
	}
	r.cl = r.client()
	o.Name = srcName
	r.s = newSource(o, r.cl, hclog.NewNullLogger(), 0)
	tb.Cleanup(func() { r.stop() })
	return r
}

func (r *sourceRig) client(opts ...kgo.Opt) *kgo.Client {
	r.tb.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(10 * time.Millisecond), kgo.ProducerLinger(0),
	}, opts...)...)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(cl.Close)
	return cl
}

func srcContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// resolve must succeed without gaps.
func (r *sourceRig) resolve(known semantics.Positions, atStart bool) semantics.Positions {
	r.tb.Helper()
	pos, gaps, err := r.s.resolve(srcContext(r.tb), known, atStart)
	if err != nil || len(gaps) != 0 {
		r.tb.Fatalf("resolve: gaps %v, error %v", gaps, err)
	}
	return pos
}

// start runs the source task with so many map tasks.
func (r *sourceRig) start(pos semantics.Positions, tasks int) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.result = make(chan error, 1)
	var out []chan<- delivery
	for i := range tasks {
		ch := make(chan delivery, 4)
		out = append(out, ch)
		r.ended.Add(1)
		go r.collect(ctx, i, ch)
	}
	go func() { r.result <- r.s.run(ctx, pos, out) }()
}

// stop ends the run and returns its error.
func (r *sourceRig) stop() error {
	if r.cancel == nil {
		return nil
	}
	r.cancel()
	r.cancel = nil
	err := <-r.result
	r.ended.Wait()
	return err
}

// failed waits until the run ends by itself.
func (r *sourceRig) failed() error {
	r.tb.Helper()
	select {
	case err := <-r.result:
		r.result <- err
		r.stop()
		return err
	case <-time.After(time.Minute):
		r.tb.Fatalf("the run goes on; status %+v", r.s.status())
		return nil
	}
}

func (r *sourceRig) collect(ctx context.Context, task int, ch <-chan delivery) {
	defer r.ended.Done()
	dec := batch.NewDecoder(batch.DefaultDecompressedLimit)
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-ch:
			r.deliver(dec, task, d)
		}
	}
}

func (r *sourceRig) deliver(dec *batch.Decoder, task int, d delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.barrier != 0 {
		if r.barriers[d.barrier] == nil {
			r.barriers[d.barrier] = map[topicPartition]int64{}
		}
		r.seen[d.barrier]++
		for k, t := range r.task {
			if t == task {
				r.barriers[d.barrier][k] = r.offsets[k][len(r.offsets[k])-1] + 1
			}
		}
		return
	}
	b := d.batch
	k := topicPartition{b.topic, b.partition}
	if t, ok := r.task[k]; ok && t != task {
		r.tb.Errorf("%s came to map tasks %d and %d", k, t, task)
	}
	if b.header.NumRecords == 0 || b.header.IsControl() || b.header.NextOffset() <= b.from {
		r.tb.Errorf("%s: batch at %d has nothing from %d on for a map task", k, b.header.FirstOffset, b.from)
	}
	r.task[k], r.counts[k], r.ids[b.topic] = task, b.partitions, b.topicID
	r.bytes += int64(len(b.raw))
	payload, err := dec.Payload(b.raw, b.header)
	if err != nil {
		r.tb.Errorf("%s: %v", k, err)
		return
	}
	var rd batch.Reader
	var rec batch.Record
	for rd.Reset(b.header, payload); rd.Next(&rec); {
		if rec.Offset >= b.from {
			r.got[k] = append(r.got[k], string(rec.Value))
			r.offsets[k] = append(r.offsets[k], rec.Offset)
		}
	}
	if rd.Err() != nil {
		r.tb.Errorf("%s: %v", k, rd.Err())
	}
	if r.hold {
		r.held = append(r.held, b.release)
		return
	}
	b.release()
}

// values is a copy of what came of one partition.
func (r *sourceRig) values(k topicPartition) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[k])
}

// count is the number of partitions that the topic's last batch came with.
func (r *sourceRig) count(k topicPartition) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[k]
}

// eventually polls until ok holds.
func (r *sourceRig) eventually(what string, ok func() bool) {
	r.tb.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if r.cancel != nil {
			select {
			case err := <-r.result:
				r.result <- err
				r.tb.Fatalf("%s: the run ended: %v", what, err)
			default:
			}
		}
		if time.Now().After(deadline) {
			r.tb.Fatalf("not within a minute: %s; status %+v", what, r.s.status())
		}
		time.Sleep(time.Millisecond) // a poll, no synchronisation
	}
}

// caughtUp waits until every one of n partitions has lag 0.
func (r *sourceRig) caughtUp(n int) {
	r.tb.Helper()
	r.eventually("lag 0", func() bool {
		st := r.s.status()
		for _, p := range st.Partitions {
			if p.Lag != 0 {
				return false
			}
		}
		return len(st.Partitions) == n
	})
}

// want compares one partition with what is expected.
func (r *sourceRig) want(k topicPartition, want []string) {
	r.tb.Helper()
	if got := r.values(k); !slices.Equal(got, want) {
		r.tb.Fatalf("%s: got %d records %v, want %d %v", k, len(got), short(got), len(want), short(want))
	}
}

func short(v []string) []string {
	if len(v) > 12 {
		return append(slices.Clone(v[:12]), "...")
	}
	return v
}

// produce writes values one batch each call, and returns when they are acknowledged.
func (r *sourceRig) produce(cl *kgo.Client, topic string, partition int32, values ...string) {
	r.tb.Helper()
	var recs []*kgo.Record
	for _, v := range values {
		recs = append(recs, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	if err := cl.ProduceSync(srcContext(r.tb), recs...).FirstErr(); err != nil {
		r.tb.Fatal(err)
	}
}

func numbered(prefix string, from, to int) (v []string) {
	for i := from; i < to; i++ {
		v = append(v, fmt.Sprintf("%s%d", prefix, i))
	}
	return v
}

func (r *sourceRig) admin() *kadm.Client { return kadm.NewClient(r.cl) }

// at makes positions of one topic; topic ids are left out.
func at(topic string, offsets ...int64) semantics.Positions {
	pos := semantics.Positions{}
	for p, o := range offsets {
		pos.Set(semantics.SourceTopic{Source: srcName, Topic: topic}, semantics.TopicID{}, int32(p), semantics.Position{Offset: o, LeaderEpoch: -1})
	}
	return pos
}

func offsetOf(pos semantics.Positions, topic string, partition int32) int64 {
	p, ok := pos.Get(semantics.SourceTopic{Source: srcName, Topic: topic}, partition)
	if !ok {
		return -1
	}
	return p.Offset
}

// handBatch encodes a batch with kmsg only, so that the bytes owe nothing to the package under test. deltas are the
// offset deltas of its records.
func handBatch(first int64, lastDelta int32, attributes int16, producer int64, deltas ...int32) []byte {
	var records []byte
	for _, d := range deltas {
		rec := kmsg.NewRecord()
		rec.OffsetDelta = d
		rec.Value = fmt.Appendf(nil, "o%d", first+int64(d))
		rec.Length = int32(len(rec.AppendTo(nil)) - 1)
		records = rec.AppendTo(records)
	}
	return sealHandBatch(first, lastDelta, attributes, producer, int32(len(deltas)), records)
}

// handMarker encodes a control batch: type 0 aborts, 1 commits.
func handMarker(offset, producer int64, kind byte) []byte {
	rec := kmsg.NewRecord()
	rec.Key = []byte{0, 0, 0, kind}
	rec.Value = []byte{0, 0, 0, 0, 0, 0}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	return sealHandBatch(offset, 0, 0x30, producer, 1, rec.AppendTo(nil))
}

func sealHandBatch(first int64, lastDelta int32, attributes int16, producer int64, n int32, records []byte) []byte {
	b := kmsg.NewRecordBatch()
	b.FirstOffset, b.LastOffsetDelta, b.Attributes, b.NumRecords = first, lastDelta, attributes, n
	b.Magic, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 2, producer, 0, 0
	if producer < 0 {
		b.ProducerEpoch, b.FirstSequence = -1, -1
	}
	b.PartitionLeaderEpoch = 0
	b.Records = records
	b.Length = int32(49 + len(records))
	raw := b.AppendTo(nil)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// serve answers every fetch by hand: fill fills each partition, before is called before the first of an answer.
func (r *sourceRig) serve(fill func(offset int64, p *kmsg.FetchResponseTopicPartition), before ...func()) {
	r.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, f := range before {
			f()
		}
		for _, t := range req.Topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition = p.Partition
				rp.LogStartOffset = 0
				fill(p.FetchOffset, &rp)
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

// handLog is a hand-made log.
type handLog struct {
	batches [][]byte
	end     int64
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
}

func (l handLog) fill(offset int64, p *kmsg.FetchResponseTopicPartition) {
	p.HighWatermark, p.LastStableOffset = l.end, l.end
	p.RecordBatches = []byte{}
	for _, raw := range l.batches {
		var b kmsg.RecordBatch
		if b.ReadFrom(raw) == nil && b.FirstOffset+int64(b.LastOffsetDelta) >= offset {
			p.RecordBatches = append(p.RecordBatches, raw...)
		}
	}
	if len(p.RecordBatches) > 0 {
		p.AbortedTransactions = l.aborted
	}
}
