package maps

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/maps/document"
)

// show is a record as "key|value|timestamp|topic|headers"; null is <null>.
func show(r *bridge.Record) string {
	text := func(b []byte) string {
		if b == nil {
			return "<null>"
		}
		return string(b)
	}
	var headers []string
	for _, h := range r.Headers.AppendTo(nil) {
		headers = append(headers, string(h.Key)+"="+text(h.Value))
	}
	return fmt.Sprintf("%s|%s|%d|%s|%s", text(r.Key), text(r.Value), r.Timestamp, r.SinkTopic, strings.Join(headers, ","))
}

func TestKinds(t *testing.T) {
	for _, row := range []struct {
		kind       string
		settings   any
		key, value string // "-" is null
		want       string // outputs separated by a space, or a part of the error
	}{
		{"filter", FilterOptions{`json.a > 1`}, "k", `{"a":2}`, `k|{"a":2}|7||h=1`},
		{"filter", FilterOptions{`json.a > 1`}, "k", `{"a":1}`, ``},
		{"filter", FilterOptions{`json.a > 1`}, "k", `{}`, `no such key: a`},
		{"filter", FilterOptions{`value != null`}, "k", `-`, ``},
		{"filter", FilterOptions{`json.a`}, "k", `{"a":1}`, `must give true or false`},
		{"route", RouteOptions{`json.t`}, "k", `{"t":"to"}`, `k|{"t":"to"}|7|to|h=1`},
		{"route", RouteOptions{`json.t`}, "k", `{"t":""}`, `k|{"t":""}|7||h=1`},
		{"route", RouteOptions{`json.t`}, "k", `{"t":"a b"}`, `cannot be a topic's name`},
		{"route", RouteOptions{`json.t`}, "k", `{"t":".."}`, `cannot be a topic's name`},
		{"route", RouteOptions{`json.t`}, "k", `{"t":1}`, `must give text`},
		{"route", RouteOptions{`headers["x"]`}, "k", `v`, `no such key`},
		{"key", KeyOptions{`json.id`}, "k", `{"id":"new"}`, `new|{"id":"new"}|7||h=1`},
		{"key", KeyOptions{`string(json.id)`}, "k", `{"id":12}`, `12|{"id":12}|7||h=1`},
		{"key", KeyOptions{`json.id`}, "k", `{"id":12}`, `must give text, bytes or null`},
		{"key", KeyOptions{`string(json.id)`}, "k", `{"id":1.000000000000000000001}`, `more digits`},
		{"key", KeyOptions{`null`}, "k", `v`, `<null>|v|7||h=1`},
		{"key", KeyOptions{`key`}, "-", `v`, `<null>|v|7||h=1`},
		{"key", KeyOptions{`value`}, "k", "\xff\x00", "\xff\x00|\xff\x00|7||h=1"},
		{"timestamp", TimestampOptions{`json.ts`}, "k", `{"ts":1700000000000}`, `k|{"ts":1700000000000}|1700000000000||h=1`},
		{"timestamp", TimestampOptions{`timestamp(json.ts)`}, "k", `{"ts":"2023-11-14T22:13:20.9999Z"}`, `k|{"ts":"2023-11-14T22:13:20.9999Z"}|1700000000999||h=1`},
		{"timestamp", TimestampOptions{`json.ts`}, "k", `{"ts":-1}`, `before 1970`},
		{"timestamp", TimestampOptions{`json.ts`}, "k", `{"ts":"x"}`, `must give a timestamp`},
		{"headers", HeadersOptions{SetExpr: map[string]string{"h": "key", "n": "null", "e": "''"}, Set: map[string]string{"a": "b"}}, "k", `v`, `k|v|7||h=k,a=b,e=,n=<null>`},
		{"headers", HeadersOptions{SetExpr: map[string]string{"old": `headers["h"]`}, Remove: []string{"h"}}, "k", `v`, `k|v|7||old=1`},
		{"headers", HeadersOptions{SetExpr: map[string]string{"x": `json.a`, "y": `json.b`}}, "k", `{"a":"1","b":"2"}`, `k|{"a":"1","b":"2"}|7||h=1,x=1,y=2`},
		{"headers", HeadersOptions{SetExpr: map[string]string{"x": `json.a`}}, "k", `{}`, `set_expr of "x": no such key`},
		{"jq", JQOptions{Value: `.[]`}, "k", `[1,{"a":2}]`, `k|1|7||h=1 k|{"a":2}|7||h=1`},
		{"jq", JQOptions{Value: `empty`}, "k", `1`, ``},
		{"jq", JQOptions{Value: `.a`}, "k", `-`, `k|<null>|7||h=1`},
		{"jq", JQOptions{Value: `.a`}, "k", `{}`, `k|null|7||h=1`},
		{"jq", JQOptions{Value: `.a`}, "k", ``, `the value is empty`},
		{"jq", JQOptions{Value: `.a`}, "k", `{`, `ends too early`},
		{"jq", JQOptions{Value: `error("no")`}, "k", `1`, `value: error: no`},
		{"jq", JQOptions{Value: `1, error("no")`}, "k", `1`, `value: error: no`},
		{"jq", JQOptions{Key: `.id`}, "k", `{"id":"n"}`, `n|{"id":"n"}|7||h=1`},
		{"jq", JQOptions{Key: `.id`, Value: `.v[]`, Headers: `$headers + {id}`}, "k", `{"id":3,"v":[1,2]}`, `3|1|7||h=1,id=3 3|2|7||h=1,id=3`},
		{"jq", JQOptions{Key: `.id // $key`, Value: `.`}, "k", `-`, `k|<null>|7||h=1`},
		{"jq", JQOptions{Key: `.id`}, "k", `-`, `what the key of a tombstone is`},
		{"jq", JQOptions{Key: `.id`}, "k", `{}`, `<null>|{}|7||h=1`},
		{"jq", JQOptions{Headers: `{}`}, "k", `1`, `k|1|7||`},
	} {
		m := newOf(t, row.kind, row.settings)
		for range 2 {
			var h batch.HeadersBuffer
			h.Add([]byte("h"), []byte("1"))
			r := &bridge.Record{Key: []byte(row.key), Value: []byte(row.value), Timestamp: 7, Headers: h.Headers()}
			if row.key == "-" {
				r.Key = nil
			}
			if row.value == "-" {
				r.Value = nil
			}
			var got []string
			err := m.Map(r, func(r *bridge.Record) error { got = append(got, show(r)); return nil })
			if err == nil && strings.Join(got, " ") != row.want || err != nil && (row.want == "" || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%s %+v of %q %q:\ngot  %q %v\nwant %s", row.kind, row.settings, row.key, row.value, got, err, row.want)
			}
		}
	}
}

func TestSettings(t *testing.T) {
	for kind, factory := range Kinds() {
		for _, settings := range []any{nil, 7, "x"} {
			if m, err := factory(settings); err == nil || m != nil {
				t.Errorf("%s takes %v", kind, settings)
			}
		}
	}
	for kind, settings := range map[string]any{
		"filter": FilterOptions{}, "route": RouteOptions{"1"}, "key": KeyOptions{"1"}, "timestamp": TimestampOptions{"'a'"}, "jq": JQOptions{},
		"headers": HeadersOptions{Set: map[string]string{"a": ""}, SetExpr: map[string]string{"a": "key"}},
	} {
		if _, err := Kinds()[kind](settings); err == nil {
			t.Errorf("%s takes %+v", kind, settings)
		}
	}
	if _, err := Kinds()["jq"](JQOptions{Key: "now"}); err == nil || !strings.Contains(err.Error(), "key: line 1, column 1: now is closed") {
		t.Error(err)
	}
}

func TestBatch(t *testing.T) {
	of := bridge.Common{Source: "east", Topic: "orders", Partition: 3, Timestamp: 1_700_000_000_000, SameTimestamp: true}
	mixed := of
	mixed.SameTimestamp = false
	for _, row := range []struct {
		kind     string
		settings any
		of       bridge.Common
		want     bridge.Decision
		decided  bool
		fails    bool
	}{
		{"filter", FilterOptions{`topic == "orders"`}, mixed, bridge.Decision{}, true, false},
		{"filter", FilterOptions{`topic == "other" || partition > 3`}, mixed, bridge.Decision{Drop: true}, true, false},
		{"filter", FilterOptions{`source == "east"`}, of, bridge.Decision{}, true, false},
		{"filter", FilterOptions{`timestamp > timestamp("2023-01-01T00:00:00Z")`}, of, bridge.Decision{}, true, false},
		{"filter", FilterOptions{`timestamp > timestamp("2024-01-01T00:00:00Z")`}, of, bridge.Decision{Drop: true}, true, false},
		{"filter", FilterOptions{`timestamp > timestamp("2023-01-01T00:00:00Z")`}, mixed, bridge.Decision{}, false, false},
		{"filter", FilterOptions{`topic == "orders" || key == "a"`}, of, bridge.Decision{}, false, false},
		{"filter", FilterOptions{`topic == "orders" || json.a == 1`}, of, bridge.Decision{}, false, false},
		{"filter", FilterOptions{`1 / (partition - 3) == 1`}, of, bridge.Decision{}, false, true},
		{"route", RouteOptions{`"to-" + topic`}, mixed, bridge.Decision{SinkTopic: "to-orders"}, true, false},
		{"route", RouteOptions{`"to-" + string(timestamp.getFullYear())`}, of, bridge.Decision{SinkTopic: "to-2023"}, true, false},
		{"route", RouteOptions{`"to-" + key`}, of, bridge.Decision{}, false, false},
		{"route", RouteOptions{`""`}, of, bridge.Decision{}, false, false},
		{"route", RouteOptions{`topic + " "`}, of, bridge.Decision{}, false, true},
	} {
		m := newOf(t, row.kind, row.settings).(bridge.BatchMap)
		for range 2 {
			got, decided, err := m.Batch(row.of)
			if got != row.want || decided != row.decided || (err != nil) != row.fails {
				t.Errorf("%+v: %+v %v %v", row.settings, got, decided, err)
			}
		}
	}
	// After a batch with one timestamp, another one is not taken for the same.
	m := newOf(t, "filter", FilterOptions{`timestamp > timestamp("2023-01-01T00:00:00Z")`}).(bridge.BatchMap)
	for _, at := range []int64{1_700_000_000_000, 0, 1_700_000_000_000} {
		of.Timestamp = at
		if d, decided, err := m.Batch(of); d.Drop != (at == 0) || !decided || err != nil {
			t.Errorf("%d: %+v %v %v", at, d, decided, err)
		}
	}
}

// TestChainParsesOnce: the second map reads what the first has made, and not after the value was changed.
func TestChainParsesOnce(t *testing.T) {
	run, emitted := chainOf(t, bridge.MapOptions{Kind: "filter", Settings: FilterOptions{`topic == "orders"`}},
		bridge.MapOptions{Kind: "headers", Settings: HeadersOptions{Set: map[string]string{"a": "b"}}})
	r := order()
	r.Value = []byte("no JSON")
	if err := run(r); err != nil || *emitted != 1 || r.Parsed != nil {
		t.Errorf("a chain that needs no JSON looked at it: %v", err)
	}
	kinds := Kinds()
	filter, _ := kinds["filter"](FilterOptions{`json.id == 123456`})
	mask, _ := kinds["mask"](MaskOptions{Paths: []string{"id"}, With: Redact})
	key, _ := kinds["key"](KeyOptions{`string(json.id)`})
	var parsed []any
	err := filter.Map(order(), func(r *bridge.Record) error {
		parsed = append(parsed, r.Parsed)
		second := *r
		return mask.Map(&second, func(r *bridge.Record) error {
			parsed = append(parsed, r.Parsed)
			third := *r
			return key.Map(&third, func(r *bridge.Record) error {
				if string(r.Key) != "***" {
					t.Errorf("the key is %q: the map read what the value was before", r.Key)
				}
				return nil
			})
		})
	})
	if _, ok := parsed[0].(*document.Document); !ok || parsed[1] != nil || err != nil {
		t.Errorf("%v %v", parsed, err)
	}
}

// TestEmitErrorComesBack: it is that of a later map, and nothing is to be added to it.
func TestEmitErrorComesBack(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range benchmarks {
		if len(row.maps) != 1 {
			continue
		}
		m := newOf(t, row.maps[0].Kind, row.maps[0].Settings)
		if err := m.Map(order(), func(*bridge.Record) error { return boom }); err != boom {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestValuesAreNotWrittenTo: they are views into the batch.
func TestValuesAreNotWrittenTo(t *testing.T) {
	for _, row := range benchmarks {
		run, _ := chainOf(t, row.maps...)
		r, want := order(), order()
		for range 3 {
			if err := run(r); err != nil {
				t.Fatal(row.name, err)
			}
		}
		r.Parsed = nil
		if show(r) != show(want) {
			t.Errorf("%s changed its input:\n%s\n%s", row.name, show(r), show(want))
		}
	}
}
