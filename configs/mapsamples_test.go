package configs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/maps"
)

// sampleRecord is a record of samples/*.json; nil is null.
type sampleRecord struct {
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][2]string `json:"headers"`
	Topic     string      `json:"topic"`
	Timestamp int64       `json:"timestamp"`
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

func textOf(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// TestMapSamples runs samples/NAME.hcl on the records of samples/NAME.json.
func TestMapSamples(t *testing.T) {
	t.Setenv("MASK_SECRET", "pepper")
	files, err := filepath.Glob("samples/*.hcl")
	if err != nil || len(files) < len(mapKinds()) {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	for _, file := range files {
		f, err := Load(file)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		var cases []struct {
			In  sampleRecord
			Out []sampleRecord
		}
		text, err := os.ReadFile(strings.TrimSuffix(file, ".hcl") + ".json")
		if err == nil {
			err = json.Unmarshal(text, &cases)
		}
		if err != nil || len(cases) == 0 {
			t.Errorf("%s: %d cases, %v", file, len(cases), err)
		}
		run := sampleChain(t, f.Bridges[0].Options.Maps)
		for i, c := range cases {
			if got := run(c.In); !reflect.DeepEqual(got, c.Out) {
				shown, _ := json.Marshal(got)
				t.Errorf("%s: record %d: got %s", file, i+1, shown)
			}
		}
	}
}

// sampleChain runs records of topic orders through the maps, in order.
func sampleChain(t *testing.T, options []bridge.MapOptions) func(sampleRecord) []sampleRecord {
	out := []sampleRecord{}
	next := func(r *bridge.Record) error {
		s := sampleRecord{Key: textOf(r.Key), Value: textOf(r.Value), Topic: r.SinkTopic, Timestamp: r.Timestamp}
		for _, h := range r.Headers.AppendTo(nil) {
			s.Headers = append(s.Headers, [2]string{string(h.Key), string(h.Value)})
		}
		out = append(out, s)
		return nil
	}
	kinds := maps.Kinds()
	for i := len(options) - 1; i >= 0; i-- {
		m, err := kinds[options[i].Kind](options[i].Settings)
		if err != nil {
			t.Fatal(err)
		}
		emit := next
		next = func(r *bridge.Record) error { c := *r; return m.Map(&c, emit) }
	}
	return func(in sampleRecord) []sampleRecord {
		out = []sampleRecord{}
		var headers batch.HeadersBuffer
		for _, h := range in.Headers {
			headers.Add([]byte(h[0]), []byte(h[1]))
		}
		if err := next(&bridge.Record{Source: "east", Topic: "orders", Key: bytesOf(in.Key), Value: bytesOf(in.Value), Timestamp: in.Timestamp, Headers: headers.Headers()}); err != nil {
			t.Error(err)
		}
		return out
	}
}

var readmeMap = regexp.MustCompile("(?s)```hcl\n(map \".*?)```")

// TestReadmeMaps: what the README shows of maps is in a sample, which TestMapSamples runs.
func TestReadmeMaps(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var samples string
	files, _ := filepath.Glob("samples/*.hcl")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		samples += string(b)
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for _, m := range readmeMap.FindAllStringSubmatch(string(readme), -1) {
		for block := range strings.SplitSeq(m[1], "\n\n") {
			if !strings.Contains(flat(samples), flat(block)) {
				t.Errorf("the README shows a map that is in no sample:\n%s", block)
			}
		}
	}
}
