package bridge

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kafkabridge/semantics"
)

func validOptions() Options {
	o := Options{
		Name:             "b",
		Semantic:         semantics.ExactlyOnce,
		Sources:          []SourceOptions{{Name: "s", Topics: []string{"a"}}},
		Sink:             SinkOptions{Name: "k", Topic: func(t string) (string, error) { return t, nil }},
		Checkpoint:       CheckpointOptions{Enabled: true},
		TransactionalIDs: []string{"b-0", "b-1"},
	}
	o.EnsureDefaults()
	return o
}

// TestOptionsDefaults compares with the contract's reference file, by hand.
func TestOptionsDefaults(t *testing.T) {
	o := validOptions()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	s := o.Sources[0]
	for name, ok := range map[string]bool{
		"start": s.Start == Start{At: StartEarliest}, "group": s.Group == "b", "on_gap": s.OnGap == Fail, "discover": s.Discover == time.Minute,
		"fetch_max_bytes": s.FetchMaxBytes == 50*1024*1024, "compression": o.Sink.Compression == "source", "linger": o.Sink.Linger == 5*time.Millisecond,
		"max_message_bytes": o.Sink.MaxMessageBytes == 1024*1024, "on_timeout": o.OnTimeout == Replay, "on_reject": o.Sink.OnReject == "fail",
		"interval": o.Checkpoint.Interval == 5*time.Second, "timeout": o.Checkpoint.Timeout == 10*time.Second,
		"backoff": o.Restart.Backoff == 500*time.Millisecond, "backoff_max": o.Restart.BackoffMax == 30*time.Second,
	} {
		if !ok {
			t.Errorf("default of %s", name)
		}
	}
	var empty Options
	empty.EnsureDefaults()
	if empty.Semantic != semantics.AtLeastOnce {
		t.Errorf("semantic defaults to %v", empty.Semantic)
	}
}

func TestOptionsValidate(t *testing.T) {
	for setting, spoil := range map[string]func(*Options){
		"bridge name":          func(o *Options) { o.Name = "a b" },
		"semantic:":            func(o *Options) { o.Semantic = 9 },
		"workers":              func(o *Options) { o.Workers = -1 },
		"on_timeout":           func(o *Options) { o.OnTimeout = Skip },
		"--adopt":              func(o *Options) { o.Adopt.Epoch = -1 },
		"stop timeout":         func(o *Options) { o.StopTimeout = -1 },
		"in flight":            func(o *Options) { o.MaxInFlight = -1 },
		"checkpoint block":     func(o *Options) { o.Checkpoint.Enabled = false },
		"transactional_id":     func(o *Options) { o.TransactionalIDs[1] = o.TransactionalIDs[0] },
		"source block":         func(o *Options) { o.Sources = nil },
		"have this name":       func(o *Options) { o.Sources = append(o.Sources, o.Sources[0]) },
		"topics_regex":         func(o *Options) { o.Sources[0].TopicsRegex = "a" },
		"topics_exclude":       func(o *Options) { o.Sources[0].TopicsExclude = []string{"a"} },
		"topics: \"a b\"":      func(o *Options) { o.Sources[0].Topics = []string{"a b"} },
		"is there twice":       func(o *Options) { o.Sources[0].Topics = []string{"a", "a"} },
		"error parsing regexp": func(o *Options) { o.Sources[0].Topics, o.Sources[0].TopicsRegex = nil, "(" },
		"start:":               func(o *Options) { o.Sources[0].Start.At = StartTime },
		"start_offsets":        func(o *Options) { o.Sources[0].StartOffsets = map[string]int64{"a": 1} },
		"not negative":         func(o *Options) { o.Sources[0].StartOffsets = map[string]int64{"a/0": -1} },
		"group":                func(o *Options) { o.Sources[0].Group = "" },
		"on_gap":               func(o *Options) { o.Sources[0].OnGap = Replay },
		"discover":             func(o *Options) { o.Sources[0].Discover = -1 },
		"fetch_max_bytes":      func(o *Options) { o.Sources[0].FetchMaxBytes = -1 },
		"map 1: the kind":      func(o *Options) { o.Maps = []MapOptions{{OnError: Fail}} },
		"on_error":             func(o *Options) { o.Maps = []MapOptions{{Kind: "k", OnError: Replay}} },
		"map 1: on_error = \"dead_letter\" needs": func(o *Options) { o.Maps = []MapOptions{{Kind: "k", OnError: DeadLetter}} },
		"on_reject = \"skip\"":                    func(o *Options) { o.Sink.OnReject = Skip },
		"on_reject = \"dead_letter\" needs":       func(o *Options) { o.Sink.OnReject = DeadLetter },
		"dead_letter: topic":                      func(o *Options) { o.Sink.DeadLetterTopic = "a b" },
		"topic: must be set":                      func(o *Options) { o.Sink.Topic = nil },
		"compression":                             func(o *Options) { o.Sink.Compression = "LZ4" },
		"linger":                                  func(o *Options) { o.Sink.Linger = -1 },
		"max_message_bytes":                       func(o *Options) { o.Sink.MaxMessageBytes = -1 },
		"interval":                                func(o *Options) { o.Checkpoint.Interval = -1 },
		"max_records":                             func(o *Options) { o.Checkpoint.MaxRecords = -1 },
		"timeout =":                               func(o *Options) { o.Checkpoint.Timeout = -1 },
		"min_pause":                               func(o *Options) { o.Checkpoint.MinPause = -1 },
		"tolerable_failures":                      func(o *Options) { o.Checkpoint.TolerableFailures = -1 },
		"restart: backoff =":                      func(o *Options) { o.Restart.Backoff = -1 },
		"backoff_max":                             func(o *Options) { o.Restart.BackoffMax = 1 },
		"attempts":                                func(o *Options) { o.Restart.Attempts = -1 },
	} {
		o := validOptions()
		spoil(&o)
		err := o.Validate()
		var e *semantics.Error
		if !errors.As(err, &e) || e.Exit != semantics.ExitUsage || !strings.Contains(err.Error(), setting) || strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

func TestOptionsValidateReportsAll(t *testing.T) {
	o := validOptions()
	o.Workers, o.Sink.Compression, o.Restart.Attempts = -1, "x", -1
	if err := o.Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("not three lines: %v", err)
	}
}

func TestSplitPartition(t *testing.T) {
	if topic, p, err := SplitPartition("a.b/12"); err != nil || topic != "a.b" || p != 12 {
		t.Error(topic, p, err)
	}
	for _, key := range []string{"", "/", "a", "a/", "/0", "a/b/0", "a/-1", "a/+1", "a/2147483648", "a/0x1", "a/ 1"} {
		if _, _, err := SplitPartition(key); err == nil {
			t.Errorf("%q is accepted", key)
		}
	}
}

func TestCheckTopic(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "a.B_c-9": true, "...": true, "": false, ".": false, "..": false, "a b": false, "ä": false,
		"a\n": false, strings.Repeat("a", 249): true, strings.Repeat("a", 250): false} {
		if err := CheckTopic(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
