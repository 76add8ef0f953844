package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/maps"
	"kafkabridge/semantics"
)

type testCommand struct {
	fileFlag
	Only string `name:"run" placeholder:"TEXT" help:"Only tests whose name contains TEXT."`
}

// Run runs the tests of the configuration and of the files beside it. No Kafka is needed.
func (c *testCommand) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	tests, err := file.LoadTests(c.Config)
	if err != nil {
		return err
	}
	tests = slices.DeleteFunc(tests, func(t configs.Test) bool { return !strings.Contains(t.Name, c.Only) })
	if len(tests) == 0 {
		return semantics.Misconfigured("test", "there is no test: write tests { test \"NAME\" { … } } into %s, or into a file beside it whose name ends in _test.hcl", c.Config)
	}
	failed := 0
	for _, t := range tests {
		b, err := oneBridge(file, t.Bridge)
		if err != nil {
			return err
		}
		wrong, err := runTest(b, t)
		if err != nil {
			return err
		}
		if len(wrong) == 0 {
			_, _ = fmt.Fprintf(env.stdout, "ok    %s\n", t.Name)
			continue
		}
		failed++
		_, _ = fmt.Fprintf(env.stdout, "FAIL  %s (%s)\n", t.Name, t.Place)
		for _, w := range wrong {
			for line := range strings.Lines(strings.TrimRight(w, "\n")) {
				_, _ = fmt.Fprintf(env.stdout, "      %s\n", printable(plainSpaces.Replace(line)))
			}
		}
	}
	_, _ = fmt.Fprintf(env.stderr, "%d tests, %d failed\n", len(tests), failed)
	if failed > 0 {
		return &silentError{semantics.ExitGaveUp}
	}
	return nil
}

// plainSpaces takes the spaces of a diff, which are of several kinds, for what they are.
var plainSpaces = strings.NewReplacer("\n", "", "\t", "    ", "\u00a0", " ")

// runTest takes the inputs through the maps of the bridge and says what is wrong with what comes out.
func runTest(b configs.Bridge, t configs.Test) (wrong []string, err error) {
	maps, err := bridge.NewTryout(b.Options.Maps, maps.Kinds())
	if err != nil {
		return nil, err
	}
	var got []configs.TestRecord
	for i, in := range t.Inputs {
		result, err := maps.Run(inputRecord(in))
		if err != nil {
			return nil, err
		}
		if w := failure(i, in, result); w != "" {
			wrong = append(wrong, w)
		}
		for _, o := range result.Outputs {
			r, err := outputRecord(b, in.Topic, o)
			if err != nil {
				return nil, err
			}
			got = append(got, r)
		}
	}
	for i := range max(len(got), len(t.Outputs)) {
		switch {
		case i >= len(got):
			wrong = append(wrong, fmt.Sprintf("output %d is missing", i+1))
		case i >= len(t.Outputs):
			wrong = append(wrong, fmt.Sprintf("output %d was not expected:\n%s", i+1, indented(describeRecord(got[i], nil))))
		default:
			if d := difference(t.Outputs[i], got[i]); d != "" {
				wrong = append(wrong, fmt.Sprintf("output %d differs (- expected, + got):\n%s", i+1, d))
			}
		}
	}
	return wrong, nil
}

func failure(i int, in configs.TestInput, result bridge.TryoutResult) string {
	switch {
	case result.Err == nil && in.Fails == "":
		return ""
	case result.Err == nil:
		return fmt.Sprintf("input %d: no map failed; expected the error %q", i+1, in.Fails)
	case in.Fails == "":
		return fmt.Sprintf("input %d: map %s failed: %v", i+1, result.Map, result.Err)
	case !strings.Contains(result.Err.Error(), in.Fails):
		return fmt.Sprintf("input %d: map %s failed: %v; expected an error with %q", i+1, result.Map, result.Err, in.Fails)
	}
	return ""
}

func inputRecord(in configs.TestInput) *bridge.Record {
	var h batch.HeadersBuffer
	for _, header := range in.Headers {
		h.Add([]byte(header.Key), header.Value)
	}
	return &bridge.Record{Source: in.Source, Topic: in.Topic, Partition: in.Partition, Offset: in.Offset, Timestamp: in.Timestamp,
		Key: in.Key, Value: in.Value, Headers: h.Headers()}
}

func outputRecord(b configs.Bridge, sourceTopic string, o bridge.TryoutOutput) (configs.TestRecord, error) {
	r := configs.TestRecord{Topic: o.SinkTopic, Timestamp: o.Timestamp, Key: o.Key, Value: o.Value}
	if r.Topic == "" {
		var err error
		if r.Topic, err = b.Options.Sink.Topic(sourceTopic); err != nil {
			return r, err
		}
	}
	for _, h := range o.Headers.AppendTo(nil) {
		r.Headers = append(r.Headers, configs.TestHeader{Key: string(h.Key), Value: h.Value})
	}
	slices.SortStableFunc(r.Headers, func(a, b configs.TestHeader) int { return strings.Compare(a.Key, b.Key) })
	return r, nil
}

// difference is empty when got is as a test wants it.
func difference(want configs.TestOutput, got configs.TestRecord) string {
	if want.JSON && sameJSON(want.Value, got.Value) {
		want.Value = got.Value
	}
	return cmp.Diff(describeRecord(want.TestRecord, &want), describeRecord(got, &want))
}

// described is a record as tests compare and show it: text, null, or JSON that is parsed. Members that a test does not name are nil.
type described map[string]any

func describeRecord(r configs.TestRecord, only *configs.TestOutput) described {
	d := described{}
	put := func(given bool, name string, v any) {
		if given {
			d[name] = v
		}
	}
	all := only == nil
	put(all || only.Given.Topic, "topic", r.Topic)
	put(all || only.Given.Timestamp, "timestamp", time.UnixMilli(r.Timestamp).UTC().Format(time.RFC3339Nano))
	put(all || only.Given.Key, "key", contents(r.Key, false))
	put(all || only.Given.Value, "value", contents(r.Value, all || only.JSON))
	headers := map[string][]any{}
	for _, h := range r.Headers {
		headers[h.Key] = append(headers[h.Key], contents(h.Value, false))
	}
	put(all || only.Given.Headers, "headers", headers)
	return d
}

// contents is a key, a value or a header value.
func contents(b []byte, asJSON bool) any {
	if b == nil {
		return nil
	}
	if v, err := parseJSON(b); asJSON && err == nil {
		return v
	}
	return string(b)
}

func parseJSON(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // a float would make large numbers equal that are not
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func sameJSON(a, b []byte) bool {
	va, errA := parseJSON(a)
	vb, errB := parseJSON(b)
	return errA == nil && errB == nil && reflect.DeepEqual(va, vb)
}

func indented(d described) string {
	var b strings.Builder
	for _, name := range sortedKeys(d) {
		fmt.Fprintf(&b, "  %s: %v\n", name, d[name])
	}
	return b.String()
}
