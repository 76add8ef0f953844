package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/oracle"
)

// feeder is the sample producer of one topic: plain batches, transactions that commit, abort or stay open for a while. It speaks to the
// brokers without faults on the wire, so what it was acknowledged is known.
type feeder struct {
	w     *world
	name  string
	codec kgo.CompressionCodec
	pace  time.Duration
	rand  *rand.Rand
	plain *kgo.Client
	txn   *kgo.Client // nil: none

	mu         sync.Mutex
	partitions int32
	grown      bool
	committed  map[int32][]oracle.Record
	seq        int
	begun      map[int32]bool // only with twistCompaction
	wanted     int64          // the first offset of partition 0 that has to arrive
}

func (w *world) newFeeder(t topic, r *rand.Rand) *feeder {
	f := &feeder{w: w, name: t.name, partitions: t.partitions, rand: r, committed: map[int32][]oracle.Record{}, begun: map[int32]bool{}, pace: span(r, 50*time.Millisecond, time.Second)}
	f.codec = pick(r, kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(), kgo.SnappyCompression(), kgo.GzipCompression())
	if w.cfg.twist == twistCompaction {
		f.codec = pick(r, kgo.NoCompression(), kgo.Lz4Compression()) // kfake's cleaner leaves zstd decoders to finalizers, which run outside of the bubble
	}
	f.plain = f.client()
	if chance(r, 0.5) && w.cfg.twist != twistCompaction { // kfake's cleaner takes open and aborted transactions for committed ones
		f.txn = f.client(kgo.TransactionalID("up-"+t.name), kgo.TransactionTimeout(5*time.Minute))
	}
	return f
}

func (f *feeder) client(more ...kgo.Opt) *kgo.Client {
	return f.w.from.client(f.w.t, append(more, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(f.codec))...)
}

func (f *feeder) close() {
	f.plain.Close()
	if f.txn != nil {
		f.txn.Close()
	}
}

// first produces the batch in the middle of which the bridge may have to begin.
func (f *feeder) first(from int64) {
	var recs []*kgo.Record
	for range firstBatch {
		recs = append(recs, f.record(0, false))
	}
	if err := f.plain.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
		f.w.errorf("sample producer of %s: %v", f.name, err)
		return
	}
	f.wanted = from
	f.commit(recs)
}

// run produces until stop is closed.
func (f *feeder) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(f.rand.Int64N(int64(2 * f.pace)))):
		}
		if f.txn != nil && chance(f.rand, 0.3) {
			f.transaction()
		} else {
			f.commit(f.produce(f.plain, false))
		}
	}
}

// grow makes the next batches use more partitions; they exist already.
func (f *feeder) grow() int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.partitions++
	f.grown = true
	return f.partitions
}

// transaction is an upstream transaction.
func (f *feeder) transaction() {
	if err := f.txn.BeginTransaction(); err != nil {
		f.w.errorf("sample producer of %s: begin: %v", f.name, err)
		return
	}
	abort := chance(f.rand, 0.4)
	var all []*kgo.Record
	for range 1 + f.rand.IntN(3) {
		all = append(all, f.produce(f.txn, abort)...)
		if chance(f.rand, 0.2) {
			time.Sleep(span(f.rand, 0, 2*time.Second)) // the last stable offset hangs
			f.commit(f.produce(f.plain, false))
		}
	}
	if err := f.txn.EndTransaction(context.Background(), kgo.TransactionEndTry(!abort)); err != nil {
		f.w.errorf("sample producer of %s: end: %v", f.name, err)
		return
	}
	if !abort {
		f.commit(all)
	}
}

func (f *feeder) produce(cl *kgo.Client, aborted bool) []*kgo.Record {
	f.mu.Lock()
	parts, grown := f.partitions, f.grown
	f.grown = false
	f.mu.Unlock()
	if grown { // a client that knows the new partition
		f.plain.Close()
		f.plain = f.client()
		if cl != f.txn {
			cl = f.plain
		}
	}
	if cl == f.txn {
		parts = 1 // it may not know the others
	}
	var recs []*kgo.Record
	part := f.rand.Int32N(parts)
	for range pick(f.rand, 1, 1, 1, 2, 4, 8, 25) {
		recs = append(recs, f.record(part, aborted))
	}
	if err := cl.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
		f.w.errorf("sample producer of %s/%d: %v", f.name, part, err)
		return nil
	}
	return recs
}

func (f *feeder) record(part int32, aborted bool) *kgo.Record {
	f.seq++
	id := fmt.Sprintf("%s/%d/%d", f.name, part, f.seq)
	if aborted {
		id = "ABORTED " + id
	}
	r := &kgo.Record{Topic: f.name, Partition: part, Key: []byte("k" + id), Value: []byte(id), Timestamp: time.Now().Truncate(time.Millisecond)}
	if f.w.cfg.twist == twistCompaction {
		r.Key = fmt.Appendf(nil, "k%d", f.seq%9) // no null keys in compacted topics
		if !f.begun[part] {
			f.begun[part] = true
			r.Key = []byte("first") // it stays: kfake moves the log start over batches that the cleaner has taken
		} else if f.seq%7 == 0 {
			r.Value, r.Headers = nil, []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}
		}
		return r
	}
	switch f.seq % 7 {
	case 0:
		r.Value = nil // a tombstone
	case 1:
		r.Key = nil
	case 2:
		r.Key, r.Value = []byte{}, nil
		r.Headers = []kgo.RecordHeader{{Key: "id", Value: []byte(id)}, {Key: "n", Value: nil}, {Key: "id", Value: []byte{}}}
	case 3:
		r.Value = []byte(strings.Repeat(id+" ", 1+f.rand.IntN(100)))
	}
	return r
}

// commit notes what the sink has to show.
func (f *feeder) commit(recs []*kgo.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range recs {
		f.committed[r.Partition] = append(f.committed[r.Partition], observed(r))
	}
}

// logs are what was committed, in the order of each partition's log.
func (f *feeder) logs() map[int32][]oracle.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[int32][]oracle.Record{}
	for part, recs := range f.committed {
		out[part] = slices.Clone(recs)
		slices.SortFunc(out[part], func(a, b oracle.Record) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return out
}

func observed(k *kgo.Record) oracle.Record {
	r := oracle.Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp.UnixMilli(), Key: k.Key, Value: k.Value, KeyHash: -1}
	for _, h := range k.Headers {
		r.Headers = append(r.Headers, oracle.Header{Key: h.Key, Value: h.Value})
	}
	return r
}
