package jq

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/maps/document"
)

// Input is a record as programs see it. One goroutine owns it; the zero value is ready.
type Input struct {
	record    *bridge.Record
	own       document.Document
	value     any
	variables []any
	steps     steps
	budget    int // of steps, in tests; 0: MaxSteps
}

// Begin takes a record. Its error says why the value is no JSON; a null value is null.
func (in *Input) Begin(r *bridge.Record) error {
	in.record, in.value = r, nil
	in.variables = append(in.variables[:0], nil, nil, r.Source, r.Topic, int(r.Partition), int(r.Offset), int(r.Timestamp))
	if r.Value == nil {
		return nil
	}
	root, err := document.Of(r, &in.own)
	if err != nil {
		return err
	}
	in.value = tree(root)
	return nil
}

// tree is a JSON value as gojq takes it. What it is made of is its own: gojq keeps parts of it in its outputs.
func tree(v document.Value) any {
	switch v.Kind() {
	case document.True:
		return true
	case document.False:
		return false
	case document.Number:
		return number(string(v.Raw()))
	case document.String:
		return strings.Clone(v.Text())
	case document.Object:
		m := map[string]any{}
		for w := v.Walk(); w.Next(); {
			m[strings.Clone(w.Name())] = tree(w.Value())
		}
		return m
	case document.Array:
		list := []any{}
		for w := v.Walk(); w.Next(); {
			list = append(list, tree(w.Value()))
		}
		return list
	case document.Null:
	}
	return nil
}

// number keeps the text of a number, except where int has the same.
func number(text string) any {
	if i, err := strconv.Atoi(text); err == nil && text != "-0" {
		return i
	}
	return json.Number(text)
}

// fill sets what only some programs read.
func (in *Input) fill(p *Program) error {
	if p.key && in.variables[0] == nil && in.record.Key != nil {
		if !utf8.Valid(in.record.Key) {
			return errors.New("$key is no UTF-8, and jq has nothing but text")
		}
		in.variables[0] = string(in.record.Key)
	}
	if !p.headers || in.variables[1] != nil {
		return nil
	}
	headers := map[string]any{}
	walk := in.record.Headers.Walk()
	for h, ok := walk.Next(); ok; h, ok = walk.Next() {
		if !utf8.Valid(h.Key) || !utf8.Valid(h.Value) {
			return fmt.Errorf("$headers: %q is no UTF-8, and jq has nothing but text", bounded(string(h.Key)))
		}
		headers[string(h.Key)] = nil
		if h.Value != nil {
			headers[string(h.Key)] = string(h.Value)
		}
	}
	in.variables[1] = headers
	return nil
}

// each calls yield for each output.
func (p *Program) each(in *Input, yield func(any) error) error {
	if err := in.fill(p); err != nil {
		return err
	}
	in.steps.left = MaxSteps
	if in.budget > 0 {
		in.steps.left = in.budget
	}
	outputs := p.code.RunWithContext(&in.steps, in.value, in.variables...)
	for n := 0; ; n++ {
		v, ok := outputs.Next()
		if !ok {
			return nil
		}
		if err, ok := v.(error); ok {
			return errors.New(bounded(err.Error()))
		}
		if n == MaxOutputs {
			return fmt.Errorf("the program has more than %d outputs for one record", MaxOutputs)
		}
		if err := yield(v); err != nil {
			return err
		}
	}
}

// Values calls yield for each output of the program as JSON text. The text is not written to again.
func (p *Program) Values(in *Input, yield func([]byte) error) error {
	size := 0
	return p.each(in, func(v any) error {
		text, err := marshal(v)
		if err != nil {
			return err
		}
		if size += len(text); size > MaxOutputBytes {
			return fmt.Errorf("the outputs for one record have more than %d bytes", MaxOutputBytes)
		}
		return yield(text)
	})
}

// one is the only output of a program.
func (p *Program) one(in *Input) (any, error) {
	n := 0
	var out any
	err := p.each(in, func(v any) error {
		if n++; n > 1 {
			return errors.New("the program has more than one output")
		}
		out = v
		return nil
	})
	if err == nil && n == 0 {
		err = errors.New("the program has no output")
	}
	return out, err
}

// Key is the only output of the program as a key: what a string says (as with jq -r), nil for null, and the JSON text of
// anything else.
func (p *Program) Key(in *Input) ([]byte, error) {
	out, err := p.one(in)
	if err != nil {
		return nil, err
	}
	return raw(out)
}

func raw(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	}
	return marshal(v)
}

// marshal writes an output.
func marshal(v any) ([]byte, error) {
	if err := writable(v); err != nil {
		return nil, err
	}
	text, err := gojq.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write an output as JSON: %w", err)
	}
	return text, nil
}

// Headers writes the only output of the program, an object, into buf: its names in ascending order, each value as Key has it.
func (p *Program) Headers(in *Input, buf *batch.HeadersBuffer) error {
	out, err := p.one(in)
	if err != nil {
		return err
	}
	headers, ok := out.(map[string]any)
	if !ok {
		return fmt.Errorf("the program gives %s, and must give an object", gojq.TypeOf(out))
	}
	buf.Reset()
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value, err := raw(headers[name])
		if err != nil {
			return err
		}
		buf.Add([]byte(name), value)
	}
	return nil
}
