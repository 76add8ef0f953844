package batch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kafkabridge/batch"
)

// These tests hold the package against franz-go's own encoder and decoder, with a broker of kfake between them.

func codecs() map[batch.Codec]kgo.CompressionCodec {
	return map[batch.Codec]kgo.CompressionCodec{
		batch.None: kgo.NoCompression(), batch.Gzip: kgo.GzipCompression(), batch.Snappy: kgo.SnappyCompression(),
		batch.Lz4: kgo.Lz4Compression(), batch.Zstd: kgo.ZstdCompression(),
	}
}

func startBroker(t *testing.T) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

func newClient(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	// Versions from before topic ids, so that requests can name the topic.
	versions := kversion.V3_0_0()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.MaxVersions(versions))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// kgoRecords are records as a user of franz-go writes them; keys and values null, empty and not.
func kgoRecords(n int) []*kgo.Record {
	var records []*kgo.Record
	for i := range n {
		r := &kgo.Record{Topic: "t", Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i*37%91)), Value: bytes.Repeat(fmt.Appendf(nil, "value %d ", i), i%40)}
		switch i % 4 {
		case 0:
			r.Key = fmt.Appendf(nil, "key %d", i)
		case 1:
			r.Key = []byte{}
		case 2:
			r.Value = nil
		}
		for j := range i % 5 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprint("h", j%2), Value: [][]byte{nil, {}, {0xff}}[j%3]})
		}
		records = append(records, r)
	}
	return records
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// compare says how a record of ours differs from one of franz-go's.
func compare(ours *batch.Record, theirs *kgo.Record) error {
	headers := ours.Headers.AppendTo(nil)
	if !sameBytes(ours.Key, theirs.Key) || !sameBytes(ours.Value, theirs.Value) || ours.Timestamp != theirs.Timestamp.UnixMilli() || len(headers) != len(theirs.Headers) {
		return fmt.Errorf("%+v differs from %+v", ours, theirs)
	}
	for i, h := range theirs.Headers {
		if string(headers[i].Key) != h.Key || !sameBytes(headers[i].Value, h.Value) {
			return fmt.Errorf("header %d: %q differs from %q", i, headers[i], h)
		}
	}
	return nil
}

// fetchRaw returns the record bytes of the partition from an offset.
func fetchRaw(ctx context.Context, t *testing.T, cl *kgo.Client, offset int64) []byte {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MaxWaitMillis, req.MinBytes = 100<<20, 1000, 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "t"
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes = offset, 100<<20
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp, err := cl.Broker(0).RetriableRequest(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		t.Fatal(err)
	}
	return p.RecordBatches
}

// What franz-go writes, this package reads.
func TestReadsFranz(t *testing.T) {
	for codec, theirs := range codecs() {
		t.Run(codec.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cl := newClient(t, startBroker(t), kgo.ProducerBatchCompression(theirs), kgo.ProducerLinger(50*time.Millisecond))
			want := kgoRecords(1000)
			if err := cl.ProduceSync(ctx, want...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			var n int
			for n < len(want) {
				n = readBatches(t, fetchRaw(ctx, t, cl, int64(n)), codec, want, n)
			}
		})
	}
}

// readBatches compares the records of a fetch response with want from record n on, and returns the next n.
func readBatches(t *testing.T, fetched []byte, codec batch.Codec, want []*kgo.Record, n int) int {
	t.Helper()
	dec := batch.NewDecoder(batch.DefaultDecompressedLimit)
	for {
		h, raw, rest, err := batch.Next(fetched)
		if errors.Is(err, io.EOF) || errors.Is(err, batch.ErrTruncated) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := batch.CheckCRC(raw); err != nil || h.FirstOffset != int64(n) || h.Codec() != codec && h.Codec() != batch.None {
			t.Fatalf("%+v, want offset %d: %v", h, n, err)
		}
		payload, err := dec.Payload(raw, h)
		if err != nil {
			t.Fatal(err)
		}
		var r batch.Reader
		var rec batch.Record
		for r.Reset(h, payload); r.Next(&rec); n++ {
			if err := compare(&rec, want[n]); err != nil || rec.Offset != int64(n) {
				t.Fatalf("record %d has offset %d: %v", n, rec.Offset, err)
			}
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		fetched = rest
	}
}

// What this package writes, franz-go reads: built batches, and the same fetched and handed on untouched.
func TestFranzReads(t *testing.T) {
	for codec := range codecs() {
		t.Run(codec.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			brokers := startBroker(t)
			cl := newClient(t, brokers)
			want := kgoRecords(600)
			raw := buildAll(t, want, codec)
			batch.Stamp(raw, -1, -1, -1, false)
			produceRaw(ctx, t, cl, raw)
			h, again, _, err := batch.Next(fetchRaw(ctx, t, cl, 0))
			if err != nil {
				t.Fatal(err)
			}
			if reason, ok := h.HandOn(); !ok {
				t.Fatalf("cannot be handed on: %s", reason)
			}
			batch.Stamp(again, -1, -1, -1, false)
			if !bytes.Equal(again, raw) {
				t.Error("the batch has changed on its way")
			}
			produceRaw(ctx, t, cl, again)
			consume(ctx, t, newClient(t, brokers, kgo.ConsumeTopics("t")), append(want, want...))
		})
	}
}

func buildAll(t *testing.T, records []*kgo.Record, codec batch.Codec) []byte {
	t.Helper()
	var b batch.Builder
	var headers batch.HeadersBuffer
	for _, r := range records {
		headers.Reset()
		for _, h := range r.Headers {
			headers.Add([]byte(h.Key), h.Value)
		}
		if err := b.Append(&batch.Record{Key: r.Key, Value: r.Value, Headers: headers.Headers(), Timestamp: r.Timestamp.UnixMilli()}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := b.Finish(nil, new(batch.Compressor), codec)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func produceRaw(ctx context.Context, t *testing.T, cl *kgo.Client, raw []byte) {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = raw
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp, err := cl.Broker(0).RetriableRequest(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

func consume(ctx context.Context, t *testing.T, cl *kgo.Client, want []*kgo.Record) {
	t.Helper()
	n := 0
	for n < len(want) {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var headers batch.HeadersBuffer
			for _, h := range r.Headers {
				headers.Add([]byte(h.Key), h.Value)
			}
			ours := &batch.Record{Key: r.Key, Value: r.Value, Headers: headers.Headers(), Timestamp: r.Timestamp.UnixMilli()}
			if err := compare(ours, want[n]); err != nil || r.Offset != int64(n) {
				t.Fatalf("record %d has offset %d: %v", n, r.Offset, err)
			}
			n++
		})
	}
}
