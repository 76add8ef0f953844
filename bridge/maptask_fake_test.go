package bridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// The bytes of source batches are made, and those of sink batches read, with kmsg and kgo's codecs: a second
// implementation of the format.

// plain is a record as a test writes it down.
type plain struct {
	Key, Value []byte
	Headers    []kmsg.Header
	Timestamp  int64
	Delta      int32 // offset delta in the source batch; set by consecutive
}

// text is a record with a key, a value and no headers.
func text(key, value string) plain {
	return plain{Key: []byte(key), Value: []byte(value), Timestamp: 1_700_000_000_000}
}

// consecutive numbers records from 0.
func consecutive(records ...plain) []plain {
	for i := range records {
		records[i].Delta = int32(i)
	}
	return records
}

var compressions = map[batch.Codec]kgo.CompressionCodec{batch.Gzip: kgo.GzipCompression(), batch.Snappy: kgo.SnappyCompression(),
	batch.Lz4: kgo.Lz4Compression(), batch.Zstd: kgo.ZstdCompression()}

// encodeSource is a batch as a broker stores it. edit may change the header before the CRC is made.
func encodeSource(tb testing.TB, first int64, codec batch.Codec, records []plain, edit func(*kmsg.RecordBatch)) []byte {
	tb.Helper()
	var payload []byte
	b := kmsg.RecordBatch{FirstOffset: first, PartitionLeaderEpoch: 3, Magic: 2, Attributes: int16(codec), ProducerID: 7, ProducerEpoch: 1,
		FirstSequence: 11, NumRecords: int32(len(records)), FirstTimestamp: records[0].Timestamp}
	for _, r := range records {
		k := kmsg.Record{TimestampDelta64: r.Timestamp - records[0].Timestamp, OffsetDelta: r.Delta, Key: r.Key, Value: r.Value, Headers: r.Headers}
		k.Length = int32(len(k.AppendTo(nil)) - 1) // the length 0 takes one byte
		payload = k.AppendTo(payload)
		b.MaxTimestamp = max(b.MaxTimestamp, r.Timestamp)
		b.LastOffsetDelta = r.Delta
	}
	if codec != batch.None {
		c, err := kgo.DefaultCompressor(compressions[codec])
		if err != nil {
			tb.Fatal(err)
		}
		var used kgo.CompressionCodecType
		if payload, used = c.Compress(new(bytes.Buffer), payload); used != kgo.CompressionCodecType(codec) {
			tb.Fatalf("kgo used codec %d instead of %s", used, codec)
		}
	}
	b.Records = payload
	if edit != nil {
		edit(&b)
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	sumCRC(raw)
	return raw
}

func sumCRC(raw []byte) {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
}

// decodeSink reads the records of a batch that was written to the sink.
func decodeSink(tb testing.TB, raw []byte) (batch.Codec, []plain) {
	tb.Helper()
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		tb.Fatal(err)
	}
	if int(b.Length) != len(raw)-12 || b.Magic != 2 {
		tb.Fatalf("length %d of %d bytes, magic %d", b.Length, len(raw), b.Magic)
	}
	if b.NumRecords != b.LastOffsetDelta+1 {
		tb.Fatalf("a broker refuses %d records with last offset delta %d", b.NumRecords, b.LastOffsetDelta)
	}
	codec := batch.Codec(b.Attributes & 7)
	payload, err := kgo.DefaultDecompressor().Decompress(b.Records, kgo.CompressionCodecType(codec))
	if err != nil {
		tb.Fatal(err)
	}
	var records []plain
	for i := range b.NumRecords {
		length, n := binary.Varint(payload)
		var r kmsg.Record
		if err := r.ReadFrom(payload[:n+int(length)]); err != nil {
			tb.Fatal(err)
		}
		payload = payload[n+int(length):]
		if r.OffsetDelta != i {
			tb.Fatalf("record %d has offset delta %d", i, r.OffsetDelta)
		}
		records = append(records, plain{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: b.FirstTimestamp + r.TimestampDelta64})
	}
	if len(payload) > 0 {
		tb.Fatalf("%d bytes left", len(payload))
	}
	return codec, records
}

// written is a batch that the fake Writer took, with a copy of its bytes.
type written struct {
	batch.Outbound
	raw []byte
}

// fakeSink is a Writer that keeps everything and topics that are always there. Safe for concurrent use.
type fakeSink struct {
	mu      sync.Mutex
	batches []written
	fail    error                      // of every Write
	hold    bool                       // do not release
	gate    chan struct{}              // when set, each Write takes one from it first
	topic   batch.SinkTopic            // what Ensure answers, Partitions raised to what is asked
	ensured []string                   // "topic/partitions" of each Ensure
	onWrite func(w written)            // called with mu held
	missing map[string]error           // topics that Ensure fails for
	topics  map[string]batch.SinkTopic // what Ensure answers for these instead of topic
}

func (s *fakeSink) Write(ctx context.Context, b batch.Outbound) error {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			b.Release()
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := written{Outbound: b, raw: bytes.Clone(b.Raw)}
	if s.fail != nil {
		b.Release()
		return s.fail
	}
	s.batches = append(s.batches, w)
	if s.onWrite != nil {
		s.onWrite(w)
	}
	if !s.hold {
		// What a Writer does once a batch is acknowledged; whoever still reads these bytes is found out.
		for i := range b.Raw {
			b.Raw[i] = 0xee
		}
		b.Release()
	}
	return nil
}

func (s *fakeSink) Begin(context.Context, semantics.Transaction) error { return nil }
func (s *fakeSink) Flush(context.Context) (bool, error)                { return true, nil }
func (s *fakeSink) Abandon()                                           {}
func (s *fakeSink) Failed() <-chan struct{}                            { return nil }
func (s *fakeSink) Refresh()                                           {}

func (s *fakeSink) Ensure(_ context.Context, topic string, partitions int32) (batch.SinkTopic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ensured = append(s.ensured, fmt.Sprintf("%s/%d", topic, partitions))
	if err := s.missing[topic]; err != nil {
		return batch.SinkTopic{}, err
	}
	found, ok := s.topics[topic]
	if !ok {
		found = s.topic
	}
	if found.Partitions == 0 {
		found.Partitions = max(partitions, -partitions)
	}
	if found.MaxMessageBytes == 0 {
		found.MaxMessageBytes = 1048588
	}
	return found, nil
}

// taken is a copy of what was written so far.
func (s *fakeSink) taken() []written {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]written(nil), s.batches...)
}

// records are what a reader of one sink partition sees.
func (s *fakeSink) records(tb testing.TB, topic string, partition int32) []plain {
	tb.Helper()
	var all []plain
	for _, w := range s.taken() {
		if w.Topic == topic && w.Partition == partition {
			_, records := decodeSink(tb, w.raw)
			all = append(all, records...)
		}
	}
	return all
}

// sinkOptions route every topic to "out".
func sinkOptions() SinkOptions {
	return SinkOptions{Name: "s", Topic: func(string) (string, error) { return "out", nil }, Compression: "source", MaxMessageBytes: 1 << 20,
		Linger: 5e6}
}

// rig is one map task with its channels.
type rig struct {
	tb      testing.TB
	sink    *fakeSink
	task    *mapTask
	in      []chan delivery
	aligned chan alignment
	resume  chan semantics.Epoch
	result  chan error
	cancel  context.CancelFunc
}

// startTask runs a map task until the test ends.
func startTask(tb testing.TB, inputs int, cfg mapConfig, sink *fakeSink, state map[string][]byte) *rig {
	return startTaskAt(tb, 0, inputs, cfg, sink, state)
}

func withDefaults(cfg mapConfig) mapConfig {
	if cfg.tasks == 0 {
		cfg.tasks = 1
	}
	if cfg.sink.Topic == nil {
		cfg.sink = sinkOptions()
		cfg.sink.Linger = time.Hour // on a busy machine the real one would cut batches where no test expects it
	}
	if cfg.maxInFlight == 0 {
		cfg.maxInFlight = 64 << 20
	}
	return cfg
}

func nullLog() hclog.Logger { return hclog.NewNullLogger() }

func startTaskAt(tb testing.TB, index, inputs int, cfg mapConfig, sink *fakeSink, state map[string][]byte) *rig {
	tb.Helper()
	cfg = withDefaults(cfg)
	r := &rig{tb: tb, sink: sink, task: newMapTask(index, cfg, sink, sink, state, hclog.NewNullLogger()), aligned: make(chan alignment),
		resume: make(chan semantics.Epoch), result: make(chan error, 1)}
	var out []<-chan delivery
	for range inputs {
		c := make(chan delivery)
		r.in, out = append(r.in, c), append(out, c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.result <- r.task.run(ctx, out, r.aligned, r.resume) }()
	return r
}

// stop ends the task and returns what run returned.
func (r *rig) stop() error {
	r.cancel()
	return <-r.result
}

// fromSource is a delivery of a batch from source "src".
func fromSource(tb testing.TB, topic string, partition int32, raw []byte) sourceBatch {
	tb.Helper()
	h, raw, _, err := batch.Next(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return sourceBatch{source: "src", topic: topic, partition: partition, partitions: 8, header: h, raw: raw, from: h.FirstOffset, release: func() {}}
}

// send delivers a batch on input 0; false when the task has ended instead.
func (r *rig) send(b sourceBatch) bool { return r.sendTo(0, delivery{batch: b}) }

func (r *rig) sendTo(input int, d delivery) bool {
	r.tb.Helper()
	select {
	case r.in[input] <- d:
		return true
	case err := <-r.result:
		r.result <- err
		return false
	}
}

// barrier sends the barrier down every input and returns the alignment. It does not resume.
func (r *rig) barrier(epoch semantics.Epoch) alignment {
	r.tb.Helper()
	for i := range r.in {
		r.sendTo(i, delivery{barrier: epoch})
	}
	select {
	case a := <-r.aligned:
		return a
	case err := <-r.result:
		r.tb.Fatalf("the task ended instead of aligning: %v", err)
		return alignment{}
	}
}

// failure waits for the error that run ends with.
func (r *rig) failure() error {
	r.tb.Helper()
	select {
	case err := <-r.result:
		return err
	case <-time.After(20 * time.Second):
		r.tb.Fatal("the task goes on where it must fail")
		return nil
	}
}
