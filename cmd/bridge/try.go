package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/mattn/go-isatty"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/maps"
	"kafkabridge/semantics"
)

type tryCommand struct {
	fileFlag
	formatFlag
	Bridge  string `placeholder:"NAME" help:"Which bridge, when the file has several."`
	Records int    `default:"10" help:"How many records to try."`
	Topic   string `placeholder:"T" help:"Only this source topic."`
	From    string `default:"earliest" placeholder:"OFFSET" help:"Where to begin in each partition: an offset, earliest, or -N for the last N (--from=-5)."`
	Input   string `placeholder:"FILE" help:"JSON lines instead of the sources: {\"key\":…,\"value\":…,\"headers\":{…},\"topic\":…}; - is standard input."`
}

// Run takes records through the maps and shows what becomes of them. Nothing is written anywhere.
func (c *tryCommand) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	b, err := oneBridge(file, c.Bridge)
	if err != nil {
		return err
	}
	if c.Records < 1 {
		return &usageError{fmt.Errorf("--records=%d: at least 1", c.Records)}
	}
	t, err := bridge.NewTryout(b.Options.Maps, maps.Kinds())
	if err != nil {
		return err
	}
	ctx, release := env.stoppable(context.Background())
	defer release()
	show := c.presenter(env, b)
	tried := 0
	each := func(r *bridge.Record) (more bool, err error) {
		result, err := t.Run(r)
		if err != nil {
			return false, err
		}
		tried++
		return tried < c.Records, show(r, result)
	}
	if c.Input != "" {
		err = c.lines(b, each)
	} else {
		err = c.live(ctx, env, b, each)
	}
	if err == nil && tried == 0 {
		_, _ = fmt.Fprintln(env.stderr, "bridge: there was no record to try; see --from, --topic and --input")
	}
	return err
}

// oneBridge is the bridge of that name, or the only one.
func oneBridge(file *configs.File, name string) (configs.Bridge, error) {
	if name == "" && len(file.Bridges) == 1 {
		return file.Bridges[0], nil
	}
	var names []string
	for _, b := range file.Bridges {
		if b.Options.Name == name {
			return b, nil
		}
		names = append(names, b.Options.Name)
	}
	if name == "" {
		return configs.Bridge{}, &usageError{fmt.Errorf("the file has the bridges %q: choose one with --bridge", names)}
	}
	return configs.Bridge{}, &usageError{fmt.Errorf("--bridge=%s: the file has the bridges %q", name, names)}
}

func (c *tryCommand) presenter(env environment, b configs.Bridge) func(*bridge.Record, bridge.TryoutResult) error {
	if c.Output == "json" {
		return func(r *bridge.Record, result bridge.TryoutResult) error {
			return writeLine(env.stdout, tried(b, r, result))
		}
	}
	p := &sideBySide{w: env.stdout, width: terminalWidth(env.stdout), colour: isTerminal(env.stdout)}
	return func(r *bridge.Record, result bridge.TryoutResult) error { return p.show(tried(b, r, result)) }
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && os.Getenv("NO_COLOR") == ""
}

// shownRecord is one record in try's JSON, and in its input. Key and Value are text where they are valid UTF-8; otherwise
// the _base64 members hold them. null is null.
type shownRecord struct {
	Source      string        `json:"source,omitempty"`
	Topic       string        `json:"topic"`
	Partition   *int32        `json:"partition,omitempty"`
	Offset      *int64        `json:"offset,omitempty"`
	Timestamp   int64         `json:"timestamp"`
	Key         *string       `json:"key"`
	KeyBase64   []byte        `json:"key_base64,omitempty"`
	Value       *string       `json:"value"`
	ValueBase64 []byte        `json:"value_base64,omitempty"`
	Headers     []shownHeader `json:"headers"`
}

type shownHeader struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

// shownResult is one line of try -o json.
type shownResult struct {
	Before  shownRecord   `json:"before"`
	After   []shownRecord `json:"after"`
	Dropped string        `json:"dropped_by,omitempty"` // position and kind of the map
	Failed  string        `json:"failed_in,omitempty"`
	Error   string        `json:"error,omitempty"`
	OnError string        `json:"on_error,omitempty"`
}

func tried(b configs.Bridge, r *bridge.Record, result bridge.TryoutResult) shownResult {
	before := shown(r.Topic, r.Timestamp, r.Key, r.Value, r.Headers)
	before.Source, before.Partition, before.Offset = r.Source, &r.Partition, &r.Offset
	s := shownResult{Before: before, After: []shownRecord{}}
	switch {
	case result.Err != nil:
		s.Failed, s.Error, s.OnError = result.Map, result.Err.Error(), string(result.Policy)
	case len(result.Outputs) == 0:
		s.Dropped = result.Map
	}
	for _, o := range result.Outputs {
		topic := o.SinkTopic
		if topic == "" {
			var err error
			if topic, err = b.Options.Sink.Topic(r.Topic); err != nil {
				s.Error = err.Error()
			}
		}
		s.After = append(s.After, shown(topic, o.Timestamp, o.Key, o.Value, o.Headers))
	}
	return s
}

func shown(topic string, timestamp int64, key, value []byte, headers batch.Headers) shownRecord {
	s := shownRecord{Topic: topic, Timestamp: timestamp, Headers: []shownHeader{}}
	s.Key, s.KeyBase64 = textOrBytes(key)
	s.Value, s.ValueBase64 = textOrBytes(value)
	for _, h := range headers.AppendTo(nil) {
		sh := shownHeader{Key: string(h.Key)}
		sh.Value, sh.ValueBase64 = textOrBytes(h.Value)
		s.Headers = append(s.Headers, sh)
	}
	return s
}

// sourceOf is the index of the source that has a topic; the first when none says so.
func sourceOf(b configs.Bridge, name, topic string) (int, error) {
	for i, s := range b.Options.Sources {
		switch {
		case name == s.Name:
			return i, nil
		case name == "" && (slices.Contains(s.Topics, topic) || s.TopicsRegex != "" && matches(s.TopicsRegex, s.TopicsExclude, s.NeverMatch, topic, false)):
			return i, nil
		}
	}
	if name != "" {
		return 0, semantics.Misconfigured("try", "bridge %q has no source %q", b.Options.Name, name)
	}
	return 0, nil
}
