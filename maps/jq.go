package maps

import (
	"errors"
	"fmt"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/maps/jq"
)

// JQOptions are the settings of the map kind "jq": programs that all see the record as it came to this map. At least one is set.
//
// A record whose value is null (a tombstone) keeps it: Value is not run. Key and Headers are, with null as their input; a key
// that becomes null then is an error, because a record without key and value means nothing to anybody.
type JQOptions struct {
	Value   string // each output is the JSON value of a record; no output drops the record
	Key     string // one output: a string, null for no key, or anything else, whose JSON text is the key
	Headers string // one output: an object that replaces all headers; $headers + {a: "b"} keeps the others
}

// jqMap runs the programs.
type jqMap struct {
	value, key, headers *jq.Program
	in                  jq.Input
	buf                 batch.HeadersBuffer
	out                 bridge.Record
}

func newJQ(c *compiler, o JQOptions) (*jqMap, error) {
	m := &jqMap{}
	for _, p := range []struct {
		name, text string
		to         **jq.Program
	}{{"value", o.Value, &m.value}, {"key", o.Key, &m.key}, {"headers", o.Headers, &m.headers}} {
		if p.text == "" {
			continue
		}
		program, err := c.jq(p.name, p.text)
		if err != nil {
			return nil, err
		}
		*p.to = program
	}
	if m.value == nil && m.key == nil && m.headers == nil {
		return nil, errors.New("one of value, key and headers is needed")
	}
	return m, nil
}

// Map implements bridge.Map.
func (m *jqMap) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	if r.Value == nil && m.key == nil && m.headers == nil {
		return emit(r)
	}
	if err := m.in.Begin(r); err != nil {
		return err
	}
	m.out = *r
	if m.key != nil {
		k, err := m.key.Key(&m.in)
		if err != nil {
			return fmt.Errorf("key: %w", err)
		}
		if k == nil && r.Key != nil && r.Value == nil {
			return errors.New("key: it becomes null, and the value is null: say what the key of a tombstone is, as in .id // $key")
		}
		m.out.Key = k
	}
	if m.headers != nil {
		if err := m.headers.Headers(&m.in, &m.buf); err != nil {
			return fmt.Errorf("headers: %w", err)
		}
		m.out.Headers = m.buf.Headers()
	}
	if m.value == nil || r.Value == nil {
		return emit(&m.out)
	}
	var emitted error
	err := m.value.Values(&m.in, func(text []byte) error {
		out := m.out
		out.Value, out.Parsed = text, nil
		emitted = emit(&out)
		return emitted
	})
	if err != nil && emitted == nil {
		return fmt.Errorf("value: %w", err)
	}
	return err
}
