package bridge

import (
	"strings"
	"testing"
)

// panicky panics in one of its methods.
type panicky struct {
	mapFunc
	in string
}

func (p *panicky) Batch(Common) (Decision, bool, error) { return Decision{}, false, p.may("Batch") }
func (p *panicky) Snapshot() ([]byte, error)            { return nil, p.may("Snapshot") }
func (p *panicky) Restore([]byte) error                 { return p.may("Restore") }

func (p *panicky) may(method string) error {
	if p.in == method {
		panic(method + " " + strings.Repeat("x", 1000))
	}
	return nil
}

func onward(r *Record, emit func(*Record) error) error { return emit(r) }

// TestPanicIsAnError: a panic fails the record as an error does, whichever map of the chain it is in, and says where it was.
func TestPanicIsAnError(t *testing.T) {
	registry := Registry{
		"onward": kind(onward),
		"index":  kind(func(r *Record, _ func(*Record) error) error { r.Value[7] = 1; return nil }),
		"nil":    kind(func(*Record, func(*Record) error) error { var r *Record; r.Offset++; return nil }),
		"after":  kind(func(r *Record, emit func(*Record) error) error { _ = emit(r); panic(strings.Repeat("\xff", 1000)) }),
	}
	for last, want := range map[string]string{"index": "index out of range [7]", "nil": "nil pointer", "after": "\uFFFD"} {
		maps := []MapOptions{{Kind: "onward"}, {Kind: last, OnError: Skip}, {Kind: "onward"}}
		try, err := NewTryout(maps, registry)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the chain is usable afterwards
			result, err := try.Run(&Record{Value: []byte("v")})
			if err != nil || result.Err == nil || len(result.Outputs) > 0 || result.Map != "2 "+last || result.Policy != Skip {
				t.Fatalf("%s: %+v %v", last, result, err)
			}
			text := result.Err.Error()
			if !strings.Contains(text, "panicked in kafkabridge/bridge.TestPanicIsAnError.func") || !strings.Contains(text, "mappanic_test.go:") ||
				!strings.Contains(text, want) || len(text) > 600 {
				t.Errorf("%s: %s", last, text)
			}
		}
	}
}

// TestPanicOfOtherMethods: they are errors as well.
func TestPanicOfOtherMethods(t *testing.T) {
	chainWith := func(method string) *chain {
		m := &panicky{mapFunc: onward, in: method}
		c, err := newChain(partitionKey{}, []MapOptions{{Kind: "p"}}, Registry{"p": func(any) (Map, error) { return m, nil }}, make([]int64, 1), func(*Record) {})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if _, _, decided := chainWith("Batch").batch(Common{}); decided {
		t.Error("a panic decided for a batch")
	}
	c := chainWith("Snapshot")
	state := mapState{}
	if err := c.snapshot(state); err == nil || !strings.Contains(err.Error(), "panicked") || len(state) > 0 {
		t.Errorf("Snapshot: %v, %v", err, state)
	}
	c = chainWith("Restore")
	state.set(c.stages[0].key(), nil)
	if err := c.restore(state); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("Restore: %v", err)
	}
	if _, err := NewTryout([]MapOptions{{Kind: "f"}}, Registry{"f": func(any) (Map, error) { panic("no") }}); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("the factory: %v", err)
	}
}
