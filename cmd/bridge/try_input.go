package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"unicode/utf8"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/semantics"
)

// inputLine is one line of --input. Value may be any JSON: a string is the value's text, anything else is the value itself.
type inputLine struct {
	Source      string          `json:"source"`
	Topic       string          `json:"topic"`
	Partition   int32           `json:"partition"`
	Offset      *int64          `json:"offset"`
	Timestamp   int64           `json:"timestamp"`
	Key         json.RawMessage `json:"key"`
	KeyBase64   []byte          `json:"key_base64"`
	Value       json.RawMessage `json:"value"`
	ValueBase64 []byte          `json:"value_base64"`
	Headers     json.RawMessage `json:"headers"`
}

// lineLimit bounds a line of --input, in bytes.
const lineLimit = 64 << 20

// lines reads --input. each says whether it wants more.
func (c *tryCommand) lines(b configs.Bridge, each func(*bridge.Record) (bool, error)) error {
	in := io.Reader(os.Stdin)
	name := "standard input"
	if c.Input != "-" {
		f, err := os.Open(c.Input)
		if err != nil {
			return semantics.Misconfigured("read --input", "%w", err)
		}
		defer f.Close()
		in, name = f, c.Input
	}
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, lineLimit)
	offsets := map[string]int64{}
	for n := 1; scan.Scan(); n++ {
		if len(bytes.TrimSpace(scan.Bytes())) == 0 {
			continue
		}
		r, err := c.record(b, scan.Bytes(), offsets)
		if err != nil {
			return semantics.Misconfigured("read --input", "%s:%d: %w", name, n, err)
		}
		if c.Topic != "" && r.Topic != c.Topic {
			continue
		}
		if more, err := each(r); err != nil || !more {
			return err
		}
	}
	if err := scan.Err(); err != nil {
		return semantics.Misconfigured("read --input", "%s: %w", name, err)
	}
	return nil
}

func (c *tryCommand) record(b configs.Bridge, line []byte, offsets map[string]int64) (*bridge.Record, error) {
	var in inputLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	if in.Partition < 0 || in.Offset != nil && *in.Offset < 0 {
		return nil, errors.New("partition and offset count from 0")
	}
	r := &bridge.Record{Topic: in.Topic, Partition: in.Partition, Timestamp: in.Timestamp}
	i, err := sourceOf(b, in.Source, in.Topic)
	if err != nil {
		return nil, err
	}
	s := b.Options.Sources[i]
	r.Source = s.Name
	if r.Topic == "" && len(s.Topics) > 0 {
		r.Topic = cmp.Or(c.Topic, s.Topics[0])
	}
	of := fmt.Sprintf("%s/%s/%d", r.Source, r.Topic, r.Partition)
	r.Offset = offsets[of]
	if in.Offset != nil {
		r.Offset = *in.Offset
	}
	offsets[of] = r.Offset + 1
	r.Key, r.Value = cmpBytes(in.KeyBase64, in.Key), cmpBytes(in.ValueBase64, in.Value)
	r.Headers, err = inputHeaders(in.Headers)
	return r, err
}

// cmpBytes is what a field holds: bytes, the text of a JSON string, or the JSON itself; nil for null and for nothing.
func cmpBytes(raw []byte, v json.RawMessage) []byte {
	if raw != nil || len(v) == 0 || string(v) == "null" {
		return raw
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		return []byte(s)
	}
	return v
}

// inputHeaders takes {"key": "value"} and [{"key": …, "value": …}], which keeps order and repeated keys.
func inputHeaders(raw json.RawMessage) (batch.Headers, error) {
	var buf batch.HeadersBuffer
	if len(raw) == 0 {
		return buf.Headers(), nil
	}
	var list []struct {
		Key         string          `json:"key"`
		Value       json.RawMessage `json:"value"`
		ValueBase64 []byte          `json:"value_base64"`
	}
	if json.Unmarshal(raw, &list) == nil {
		for _, h := range list {
			buf.Add([]byte(h.Key), cmpBytes(h.ValueBase64, h.Value))
		}
		return buf.Headers(), nil
	}
	var byName map[string]json.RawMessage
	if err := json.Unmarshal(raw, &byName); err != nil {
		return buf.Headers(), fmt.Errorf("headers are an object, or a list of objects with key and value: %w", err)
	}
	for _, key := range sortedKeys(byName) {
		buf.Add([]byte(key), cmpBytes(nil, byName[key]))
	}
	return buf.Headers(), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// textOrBytes is b as text where it is valid UTF-8, otherwise as bytes.
func textOrBytes(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

// writeLine is one JSON document in one line.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
