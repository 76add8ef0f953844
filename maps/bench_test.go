package maps

import (
	"testing"

	"kafkabridge/batch"
	"kafkabridge/bridge"
)

// order is the record of the benchmarks: 180 bytes of JSON, three headers.
func order() *bridge.Record {
	var headers batch.HeadersBuffer
	headers.Add([]byte("content-type"), []byte("application/json"))
	headers.Add([]byte("tenant"), []byte("acme"))
	headers.Add([]byte("trace"), []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	return &bridge.Record{
		Source: "east", Topic: "orders", Partition: 3, Offset: 12345, Timestamp: 1_700_000_000_000,
		Key: []byte("customer-77"), Headers: headers.Headers(),
		Value: []byte(`{"id":123456,"user":{"id":77,"email":"someone@example.org","name":"Some One"},"items":[{"sku":"a-1","qty":2},{"sku":"b-2","qty":1}],"total":12.50,"currency":"EUR","ts":1700000000000}`),
	}
}

// link is one map of a chain, as the bridge runs it: each has a copy of the record.
type link struct {
	m    bridge.Map
	in   bridge.Record
	emit func(*bridge.Record) error
}

// chainOf makes a chain of maps; run takes a record through it and counts what comes out.
func chainOf(tb testing.TB, options ...bridge.MapOptions) (run func(*bridge.Record) error, emitted *int) {
	tb.Helper()
	kinds, n := Kinds(), 0
	next := func(*bridge.Record) error { n++; return nil }
	for i := len(options) - 1; i >= 0; i-- {
		m, err := kinds[options[i].Kind](options[i].Settings)
		if err != nil {
			tb.Fatal(err)
		}
		l := &link{m: m, emit: next}
		next = func(r *bridge.Record) error {
			l.in = *r
			return l.m.Map(&l.in, l.emit)
		}
	}
	return next, &n
}

// benchmarks are one chain for each kind, and one of four; allocs is what a record may allocate, negative when that is the language's business.
var benchmarks = []struct {
	name   string
	allocs float64
	maps   []bridge.MapOptions
}{
	{"headers", 0, []bridge.MapOptions{{Kind: "headers", Settings: HeadersOptions{Set: map[string]string{"origin": "east"}, Remove: []string{"trace"}}}}},
	{"headers-expr", 0, []bridge.MapOptions{{Kind: "headers", Settings: HeadersOptions{SetExpr: map[string]string{"from": "topic"}}}}},
	{"filter-topic", 0, []bridge.MapOptions{{Kind: "filter", Settings: FilterOptions{When: `topic == "orders" && partition < 10`}}}},
	{"filter-key", 0, []bridge.MapOptions{{Kind: "filter", Settings: FilterOptions{When: `key.startsWith("customer-")`}}}},
	{"filter-headers", 0, []bridge.MapOptions{{Kind: "filter", Settings: FilterOptions{When: `"tenant" in headers && headers["tenant"] == "acme"`}}}},
	{"filter-timestamp", 0, []bridge.MapOptions{{Kind: "filter", Settings: FilterOptions{When: `timestamp > timestamp("2020-01-01T00:00:00Z") && offset > 5`}}}},
	{"filter-json", 0, []bridge.MapOptions{{Kind: "filter", Settings: FilterOptions{When: `json.user.id == 77`}}}},
	{"route", 0, []bridge.MapOptions{{Kind: "route", Settings: RouteOptions{Topic: `headers["tenant"]`}}}},
	{"key", 0, []bridge.MapOptions{{Kind: "key", Settings: KeyOptions{From: `json.user.email`}}}},
	{"timestamp", 0, []bridge.MapOptions{{Kind: "timestamp", Settings: TimestampOptions{From: `json.ts`}}}},
	{"mask", 0, []bridge.MapOptions{{Kind: "mask", Settings: MaskOptions{Paths: []string{"user.email", "items[].sku"}, With: Redact}}}},
	{"mask-hmac", -1, []bridge.MapOptions{{Kind: "mask", Settings: MaskOptions{Paths: []string{"user.email"}, With: HMAC, Secret: "pepper"}}}},
	{"dedupe", -1, []bridge.MapOptions{{Kind: "dedupe", Settings: DedupeOptions{By: `[key, string(offset)]`, Records: 10_000}}}},
	{"jq", -1, []bridge.MapOptions{{Kind: "jq", Settings: JQOptions{Value: `{id, user: .user.id, total}`}}}},
	{"four", -1, []bridge.MapOptions{
		{Kind: "filter", Settings: FilterOptions{When: `json.currency == "EUR"`}},
		{Kind: "mask", Settings: MaskOptions{Paths: []string{"user.email"}, With: SHA256}},
		{Kind: "key", Settings: KeyOptions{From: `string(json.user.id)`}},
		{Kind: "headers", Settings: HeadersOptions{Set: map[string]string{"origin": "east"}}},
	}},
}

func BenchmarkKinds(b *testing.B) {
	for _, row := range benchmarks {
		b.Run(row.name, func(b *testing.B) {
			run, emitted := chainOf(b, row.maps...)
			r := order()
			b.ReportAllocs()
			for b.Loop() {
				r.Offset++
				if err := run(r); err != nil {
					b.Fatal(err)
				}
			}
			if *emitted == 0 {
				b.Fatal("nothing came out")
			}
		})
	}
}

// TestAllocations: what a chain that needs no JSON does, and most of what reads JSON, allocates nothing for a record.
func TestAllocations(t *testing.T) {
	for _, row := range benchmarks {
		if row.allocs < 0 {
			continue
		}
		run, _ := chainOf(t, row.maps...)
		r := order()
		got := testing.AllocsPerRun(200, func() {
			if err := run(r); err != nil {
				t.Fatal(row.name, err)
			}
		})
		if got > row.allocs {
			t.Errorf("%s: %v allocations per record, want %v", row.name, got, row.allocs)
		}
	}
}
