package maps

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/batch"
	"kafkabridge/bridge"
)

// hs are headers from "key=value"; "key" alone has a null value.
func hs(pairs ...string) []kmsg.Header {
	var out []kmsg.Header
	for _, p := range pairs {
		h := kmsg.Header{Key: p}
		for i := range p {
			if p[i] == '=' {
				h = kmsg.Header{Key: p[:i], Value: []byte(p[i+1:])}
				break
			}
		}
		out = append(out, h)
	}
	return out
}

func TestHeadersMap(t *testing.T) {
	set := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, row := range []struct {
		name     string
		options  HeadersOptions
		in, want []kmsg.Header
	}{
		{"nothing to do", HeadersOptions{}, hs("a=1", "b", "a=2", "c=", "=x"), hs("a=1", "b", "a=2", "c=", "=x")},
		{"set on none", HeadersOptions{Set: set("x", "1")}, nil, hs("x=1")},
		{"set appends sorted", HeadersOptions{Set: set("z", "3", "b", "2", "a", "1")}, hs("m=0"), hs("m=0", "a=1", "b=2", "z=3")},
		{"set replaces the first and drops the rest", HeadersOptions{Set: set("a", "new")}, hs("x", "a=1", "y=2", "a=3", "a"), hs("x", "a=new", "y=2")},
		{"set replaces null", HeadersOptions{Set: set("a", "")}, hs("a", "b"), hs("a=", "b")},
		{"set one of two", HeadersOptions{Set: set("a", "1", "b", "2")}, hs("b=0", "c=3"), hs("b=2", "c=3", "a=1")},
		{"remove all of a key", HeadersOptions{Remove: []string{"a"}}, hs("a=1", "b=2", "a", "c=3"), hs("b=2", "c=3")},
		{"remove compares whole keys", HeadersOptions{Remove: []string{"a"}}, hs("aa=1", "A=2", "=3"), hs("aa=1", "A=2", "=3")},
		{"rename keeps place, value and duplicates", HeadersOptions{Rename: set("a", "b")}, hs("a=1", "x=2", "a", "b=3"), hs("b=1", "x=2", "b", "b=3")},
		{"rename swaps", HeadersOptions{Rename: set("a", "b", "b", "a")}, hs("a=1", "b=2"), hs("b=1", "a=2")},
		{"rename, and remove of the new name", HeadersOptions{Rename: set("a", "b"), Remove: []string{"b"}}, hs("a=1", "b=2"), hs("b=1")},
		{"rename, and set of the new name", HeadersOptions{Rename: set("a", "b"), Set: set("b", "new")}, hs("x=0", "a=1", "b=2"), hs("x=0", "b=new")},
		{"rename, and set of the old name", HeadersOptions{Rename: set("a", "b"), Set: set("a", "new")}, hs("a=1", "x=0"), hs("b=1", "x=0", "a=new")},
		{"remove, and set of the same", HeadersOptions{Remove: []string{"a"}, Set: set("a", "new")}, hs("a=1", "x=0"), hs("x=0", "a=new")},
		{"bytes", HeadersOptions{Set: set("\xff", "\x00\xfe")}, hs("\xfe=\xff"), hs("\xfe=\xff", "\xff=\x00\xfe")},
	} {
		m, err := Kinds()["headers"](row.options)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second record must find nothing of the first
			var in batch.HeadersBuffer
			for _, h := range row.in {
				in.Add([]byte(h.Key), h.Value)
			}
			var got []kmsg.Header
			calls := 0
			err := m.Map(&bridge.Record{Headers: in.Headers()}, func(r *bridge.Record) error {
				calls++
				for _, h := range r.Headers.AppendTo(nil) {
					got = append(got, kmsg.Header{Key: string(h.Key), Value: h.Value})
				}
				return nil
			})
			if err != nil || calls != 1 || !reflect.DeepEqual(got, row.want) {
				t.Errorf("%s: got %q, want %q (%d calls, %v)", row.name, fmt.Sprint(got), fmt.Sprint(row.want), calls, err)
			}
		}
	}
}

func TestHeadersMapSettings(t *testing.T) {
	for _, settings := range []any{nil, 7, HeadersOptions{Remove: []string{"a"}, Rename: map[string]string{"a": "b"}}} {
		if m, err := Kinds()["headers"](settings); err == nil || m != nil {
			t.Errorf("%v was accepted", settings)
		}
	}
	a, b := Kinds(), Kinds()
	delete(a, "headers")
	if len(b) == 0 {
		t.Error("two registries share their memory")
	}
}
