package integration

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
)

// orders is traffic for a chain of all map kinds. What becomes of a record is computed here, from its number and with
// nothing of the bridge.
type orders struct {
	bootstrap  []string
	topic      string
	partitions int32
	records    int // per partition
	begin      time.Time
	during     time.Duration
}

// Every order has one of these fates, by its number.
const (
	plainOrder  = iota
	repeated    // the order before it again: dropped by dedupe
	draft       // dropped by filter
	broken      // no JSON: a dead letter of filter
	halfBad     // the second of three items makes jq fail: a dead letter, although the first was emitted
	withoutTime // timestamp fails for the second of two items: skipped, with the first
	nowhereTo   // the name that route gives is none: a dead letter
	empty       // no items: dropped by jq
	fates
)

const maskSecret = "not for logs"

func fate(n int) int {
	if n%3 != 1 {
		return plainOrder
	}
	return n / 3 % fates
}

// number is the order that record n shows: a repeated one shows the one before.
func number(n int) int {
	if fate(n) == repeated {
		return n - 1
	}
	return n
}

func (o *orders) items(n int) []string {
	switch fate(n) {
	case empty:
		return nil
	case halfBad:
		return []string{fmt.Sprintf(`{"sku":"a","qty":1,"at":%d}`, o.at(n)), `{"sku":"b","qty":"many"}`, `{"sku":"c","qty":3}`}
	case withoutTime:
		return []string{fmt.Sprintf(`{"sku":"a","qty":1,"at":%d}`, o.at(n)), `{"sku":"b","qty":2}`}
	}
	items := make([]string, 1+n%3)
	for i := range items {
		items[i] = fmt.Sprintf(`{"sku":"\u0073ku-%d","qty":%d,"at":%d}`, i, n, o.at(n)+int64(i))
	}
	return items
}

func (o *orders) at(n int) int64 { return o.begin.UnixMilli() - 3_600_000 + int64(n) }

func (o *orders) id(partition int32, n int) string { return fmt.Sprintf("%d-%d", partition, n) }

// record is number n of a partition.
func (o *orders) record(partition int32, n int) *kgo.Record {
	shows := number(n)
	id := o.id(partition, shows)
	state := "paid"
	if fate(n) == draft {
		state = "draft"
	}
	value := fmt.Sprintf(`{"id":%q, "state":%q, "big":12345678901234567890123456789%d, "user":{"email":"%s@example.org"}, "items":[%s]}`,
		id, state, shows%10, id, strings.Join(o.items(shows), ", "))
	if fate(n) == broken {
		value = value[:len(value)-1]
	}
	region := []string{"east", "west"}[shows%2]
	if fate(n) == nowhereTo {
		region = "no/where"
	}
	return &kgo.Record{Topic: o.topic, Partition: partition, Key: []byte(id), Value: []byte(value), Timestamp: o.begin.Add(time.Duration(n) * time.Millisecond),
		Headers: []kgo.RecordHeader{{Key: "region", Value: []byte("old")}, {Key: "n", Value: []byte(strconv.Itoa(n))}, {Key: "region", Value: []byte(region)}, {Key: "debug"}}}
}

func of(r oracle.Record) int {
	for _, h := range r.Headers {
		if h.Key == "n" {
			n, err := strconv.Atoi(string(h.Value))
			if err == nil {
				return n
			}
		}
	}
	return -1
}

// topicOf is where record n goes.
func topicOf(out string, n int) string { return out + "-" + []string{"east", "west"}[number(n)%2] }

// becomes is what the sink has to show for a source record.
func (o *orders) becomes(r oracle.Record) (out []oracle.Record) {
	n := of(r)
	if f := fate(n); f != plainOrder {
		return nil
	}
	id := o.id(r.Partition, n)
	mac := hmac.New(sha256.New, []byte(maskSecret))
	mac.Write([]byte(id + "@example.org"))
	email := hex.EncodeToString(mac.Sum(nil))
	for i := range 1 + n%3 {
		at := o.at(n) + int64(i)
		value := fmt.Sprintf(`{"at":%d,"big":12345678901234567890123456789%d,"email":"%s","order":"%s","qty":%d,"sku":"sku-%d"}`, at, n%10, email, id, n, i)
		out = append(out, oracle.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: at, KeyHash: -1,
			Key: fmt.Appendf(nil, "%s/sku-%d", id, i), Value: []byte(value),
			Headers: slices.Concat(slices.Delete(slices.Clone(r.Headers), 3, 4), []oracle.Header{
				{Key: "from", Value: fmt.Appendf(nil, "%s/%d@%d", r.Topic, r.Partition, r.Offset)}, {Key: "origin", Value: []byte("test")}})})
	}
	return out
}

// letter is the dead letter of a source record without its error, if it becomes one.
func (o *orders) letter(r oracle.Record) []oracle.Record {
	by := map[int]string{broken: "1 filter", halfBad: "3 jq", nowhereTo: "8 route"}[fate(of(r))]
	if by == "" {
		return nil
	}
	r.Headers = slices.Clip(r.Headers)
	for _, h := range [][2]string{{"bridge.source", "src"}, {"bridge.topic", r.Topic}, {"bridge.partition", strconv.Itoa(int(r.Partition))},
		{"bridge.offset", strconv.FormatInt(r.Offset, 10)}, {"bridge.timestamp", strconv.FormatInt(r.Timestamp, 10)}, {"bridge.map", by}} {
		r.Headers = append(r.Headers, oracle.Header{Key: h[0], Value: []byte(h[1])})
	}
	return []oracle.Record{r}
}

// blocks are the chain: one of each kind.
func (o *orders) blocks(out string) []daemon.Block {
	block := func(kind string, attrs daemon.Attrs) daemon.Block { return daemon.Block{Label: kind, Attrs: attrs} }
	return []daemon.Block{
		block("filter", daemon.Attrs{"when": "json.state != 'draft'", "on_error": "dead_letter"}),
		block("dedupe", daemon.Attrs{"by": "json.id", "window": "1s"}),
		block("jq", daemon.Attrs{"on_error": "dead_letter", "value": `. as $o | .items[] | if (.qty | type) != "number" then error("qty") else . end` +
			` | {order: $o.id, sku, qty, big: $o.big, email: $o.user.email} + (if .at then {at} else {} end)`}),
		block("mask", daemon.Attrs{"paths": []string{"email"}, "with": "hmac-sha256", "secret": maskSecret}),
		block("key", daemon.Attrs{"from": "json.order + '/' + json.sku"}),
		block("timestamp", daemon.Attrs{"from": "timestamp(json.at / 1000) + duration(string(json.at % 1000) + 'ms')", "on_error": "skip"}),
		block("headers", daemon.Attrs{"set": daemon.Raw(`{ origin = "test" }`), "remove": []string{"debug"},
			"set_expr": daemon.Raw(`{ from = "topic + '/' + string(partition) + '@' + string(offset)" }`)}),
		block("route", daemon.Attrs{"topic": fmt.Sprintf("%q + '-' + headers.region", out), "on_error": "dead_letter"}),
	}
}

// produce writes everything in batches of fifty.
func (o *orders) produce(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	const size = 50
	for first := 0; first < o.records; first += size {
		var all []*kgo.Record
		for p := range o.partitions {
			for n := first; n < min(first+size, o.records); n++ {
				all = append(all, o.record(p, n))
			}
		}
		if err := cl.ProduceSync(ctx, all...).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		select {
		case <-time.After(o.during * size / time.Duration(o.records)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// withoutError is a dead letter without its last header, the error, which has to be there.
func withoutError(r oracle.Record) (oracle.Record, error) {
	last := len(r.Headers) - 1
	if last < 0 || r.Headers[last].Key != "bridge.error" || len(r.Headers[last].Value) == 0 {
		return r, fmt.Errorf("%s has no error in its headers", r)
	}
	r.Headers = r.Headers[:last]
	return r, nil
}
