package integration

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// caseFCases are public cases of family F, fidelity and placement; F5 is in case_f_kafka_test.go.
func caseFCases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"CaseF1Headers":              caseF1Headers,
		"CaseF4TooLargeForTheSink":   caseF4TooLarge,
		"CaseF4CompressedIsSmall":    caseF4Compressed,
		"CaseF4LargerThanFetchLimit": caseF4Fetch,
	}
}

// caseF1Headers: repeated keys, their order, null and empty, none, a thousand, and bytes that are no UTF-8, under every
// semantic, as they are and through a map that edits one header. (Kafka's Java consumer makes text of header keys, so
// the reader is kgo's.)
func caseF1Headers(t *testing.T, suite *kfakeSuite) {
	thousand := make([]kgo.RecordHeader, 1000)
	for i := range thousand {
		thousand[i] = kgo.RecordHeader{Key: fmt.Sprint("h", i%7), Value: []byte{byte(i), byte(i >> 8)}}
	}
	lists := [][]kgo.RecordHeader{
		{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{}}, {Key: "a", Value: []byte("2")}, {Key: "c"}},
		nil,
		thousand,
		{{Key: "\xff\xfe\x00", Value: []byte{0x80, 0xc3, 0x28}}, {Key: "", Value: []byte("no name")}, {Key: "\xff\xfe\x00"}},
	}
	rename := daemon.Block{Label: "headers", Attrs: daemon.Attrs{"rename": daemon.Raw(`{ "c" = "d" }`)}}
	for _, semantic := range []string{"EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"} {
		for _, maps := range [][]daemon.Block{nil, {rename}} {
			r := newKfakeRig(t, suite, semantic, 1)
			r.cfg.Maps = maps
			var records []*kgo.Record
			for i, headers := range slices.Concat(lists, lists) {
				records = append(records, &kgo.Record{Topic: "in", Value: []byte(fmt.Sprint(i)), Headers: headers, Timestamp: time.UnixMilli(int64(i))})
			}
			if err := r.cl.ProduceSync(r.ctx(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			r.untilEnd()
			r.exactlyOnce(verdict{mapped: func(rec oracle.Record) []oracle.Record {
				for i := range rec.Headers {
					if maps != nil && rec.Headers[i].Key == "c" {
						rec.Headers[i].Key = "d"
					}
				}
				return []oracle.Record{rec}
			}}, len(records))
		}
	}
}

// newSmallSinkRig has a source that takes records of 20 MiB, and a sink with Kafka's default limit.
func newSmallSinkRig(t *testing.T, suite *kfakeSuite) *kfakeRig {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 1)
	r.in, r.out = []string{"large"}, "small"
	r.limited("large", "20971520")
	r.limited("small", "1048588")
	r.cfg.Sources[0].Attrs["topics"], r.cfg.Sink.Attrs["topic"] = r.in, r.out
	r.cfg.Sources[0].Attrs["fetch_max_bytes"] = "50MiB"
	return r
}

func (r *kfakeRig) limited(topic, bytes string) {
	r.t.Helper()
	if _, err := r.admin.CreateTopic(r.ctx(), 1, 1, map[string]*string{"max.message.bytes": &bytes}, topic); err != nil {
		r.t.Fatal(err)
	}
}

// one produces a batch of one record with a value of so many bytes and moves on to the next sequence number.
func (r *kfakeRig) one(valueBytes int, codecs ...kgo.CompressionCodec) {
	r.t.Helper()
	p := r.plan(1)
	p.First, p.ValueBytes, p.Batches, p.Codecs = r.fed, valueBytes, []int{1}, codecs
	r.fed++
	r.total += r.produce(p).Committed
}

// caseF4TooLarge: what fits is delivered, also beside what does not; the first record that does not stops the bridge, each
// time it is started, with topic, partition, offset, size and limit, and no restart in between. A larger limit is the way on.
func caseF4TooLarge(t *testing.T, suite *kfakeSuite) {
	const limit = 1048588
	for _, large := range []int{limit, 1_060_000, 5_000_000, 19_000_000} { // the value alone has the limit's size, so the batch is above it
		r := newSmallSinkRig(t, suite)
		r.one(900)
		r.one(1_038_000) // 0.99 of the limit
		r.one(limit - 400)
		r.untilEnd()
		fits := r.total
		r.one(large)
		r.one(900)
		for i := range 3 {
			d := r.start("")
			if i == 1 { // killed at any moment of that, the next one finds the same
				r.moment(300 * time.Millisecond)
				if d.Running() {
					r.kill(d)
				}
				continue
			}
			log := r.exit(d, 3)
			r.says(log, "small", "topic large partition 0 offset 3", fmt.Sprint(limit), "max.message.bytes")
			if n := bytes.Count([]byte(log), []byte("the run failed")); n > 1 {
				t.Errorf("%d runs in one process: a refused record must not be tried again and again", n)
			}
		}
		seen := 0
		r.read(true, func(oracle.Record) error { seen++; return nil }, r.out)
		if seen != fits {
			t.Errorf("%d records are in the sink, want the %d that fit before the large one", seen, fits)
		}
		r.raiseLimit("small", "20971520")
		r.cfg.Sink.Attrs["max_message_bytes"] = "20MiB"
		r.untilEnd()
		r.exactlyOnce(verdict{}, r.total)
	}
}

func (r *kfakeRig) raiseLimit(topic, bytes string) {
	r.t.Helper()
	change := []kadm.AlterConfig{{Name: "max.message.bytes", Value: &bytes}}
	if _, err := r.admin.AlterTopicConfigs(r.ctx(), change, topic); err != nil {
		r.t.Fatal(err)
	}
}

// caseF4Compressed: 10 MB of zeros that zstd makes small fit: untouched, and also when a map makes new batches of them.
// Asked to send them uncompressed, the bridge stops and says so.
func caseF4Compressed(t *testing.T, suite *kfakeSuite) {
	edit := daemon.Block{Label: "headers", Attrs: daemon.Attrs{"set": daemon.Raw(`{ "x" = "y" }`)}}
	for _, maps := range [][]daemon.Block{nil, {edit}} {
		r := newSmallSinkRig(t, suite)
		r.cfg.Maps = maps
		r.one(900)
		r.one(10_000_000, kgo.ZstdCompression())
		r.one(900)
		r.untilEnd()
		r.exactlyOnce(verdict{mapped: func(rec oracle.Record) []oracle.Record {
			if maps != nil {
				rec.Headers = append(slices.Clone(rec.Headers), oracle.Header{Key: "x", Value: []byte("y")})
			}
			return []oracle.Record{rec}
		}}, r.total)
		r.cfg.Sink.Attrs["compression"] = "none"
		r.one(10_000_000, kgo.ZstdCompression())
		r.says(r.exit(r.start(""), 3), "topic large partition 0 offset 3", "1048588")
	}
}

// caseF4Fetch: a record larger than fetch_max_bytes is read all the same.
func caseF4Fetch(t *testing.T, suite *kfakeSuite) {
	r := newSmallSinkRig(t, suite)
	r.raiseLimit("small", "20971520")
	r.cfg.Sink.Attrs["max_message_bytes"] = "20MiB"
	r.cfg.Sources[0].Attrs["fetch_max_bytes"] = "64KiB"
	for _, size := range []int{900, 19_000_000, 900, 5_000_000, 900} {
		r.one(size, traffic.Codecs()[0])
	}
	r.untilEnd()
	r.exactlyOnce(verdict{}, r.total)
}
