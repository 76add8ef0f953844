package configs

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkabridge/bridge"
	"kafkabridge/connect"
	"kafkabridge/maps"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
	"kafkabridge/txn"
)

// TestTranslation has every setting at a value that is not its default.
func TestTranslation(t *testing.T) {
	t.Setenv("PW", "p")
	src := `
bridge "all.of-it" {
  semantic = "EXACTLY_ONCE"
  workers = 3
  source "one" {
    brokers = ["A:1", "b"]
    topics_regex = "t.*"
    topics_exclude = ["tx", "ty"]
    start = "2026-01-31T12:00:00+01:00"
    start_offsets = { "t/0" = 42, "ta/11" = 0 }
    isolation_level = "read_uncommitted"
    group = "g"
    on_gap = "skip"
    discover = "2m"
    commit_interval = "6s"
    fetch_max_bytes = "2MiB"
    tls {
      ca_file = "ca.pem"
      cert_file = "/abs/c.pem"
      key_file = "../k.pem"
      server_name = "s"
    }
    sasl {
      mechanism = "SCRAM-SHA-256"
      username = "u"
      password = env("PW")
    }
  }
  source "two" {
    brokers = ["c:3"]
    topics = ["x", "y"]
    start = "committed"
    tls { insecure_skip_verify = true }
  }
  map "headers" {
    set = { a = "b" }
    remove = ["c", "d"]
    rename = { e = "f" }
    on_error = "dead_letter"
  }
  map "headers" { remove = ["g"] }
  sink "out" {
    brokers = ["d:4"]
    topic = "pre.${topic}"
    partition = "key"
    create_topics = false
    compression = "zstd"
    linger = "0s"
    max_message_bytes = "2KiB"
    transactional_id = "tid"
    transaction_timeout = "1m"
    ledger_topic = "lt"
    on_timeout = "fail"
    on_reject = "dead_letter"
    dead_letter { topic = "dl" }
    sasl {
      mechanism = "OAUTHBEARER"
      token_url = "https://h/t"
      client_id = "ci"
      client_secret = "cs"
    }
  }
  checkpoint {
    path = "state"
    interval = "7s"
    max_records = 8
    timeout = "9s"
    min_pause = "10s"
    max_concurrent = 1
    tolerable_failures = 11
    retain = 12
  }
  restart {
    backoff = "13s"
    backoff_max = "14s"
    attempts = 15
  }
}
server { listen = "" }
log {
  level = "trace"
  format = "json"
}
`
	f, err := Parse([]byte(src), "/etc/bridge/x.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if to, err := f.Bridges[0].Options.Sink.Topic("orders"); err != nil || to != "pre.orders" {
		t.Errorf("topic %q, %v", to, err)
	}
	want := &File{
		Log: LogOptions{Level: "trace", Format: "json"},
		Bridges: []Bridge{{
			Options: bridge.Options{
				Name: "all.of-it", Semantic: semantics.ExactlyOnce, Workers: 3,
				TransactionalIDs: []string{"tid-0", "tid-1"}, Ledger: true, OnTimeout: bridge.Fail,
				StopTimeout: 20 * time.Second, MaxInFlight: 32 << 20,
				Sources: []bridge.SourceOptions{{
					Name: "one", TopicsRegex: "t.*", TopicsExclude: []string{"tx", "ty"},
					Start:        bridge.Start{At: bridge.StartTime, Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600))},
					StartOffsets: map[string]int64{"t/0": 42, "ta/11": 0}, Group: "g", OnGap: bridge.Skip, Discover: 2 * time.Minute, FetchMaxBytes: 2 << 20,
				}, {
					Name: "two", Topics: []string{"x", "y"}, Start: bridge.Start{At: bridge.StartCommitted}, ReadCommitted: true,
					Group: "all.of-it", OnGap: bridge.Fail, Discover: time.Minute, FetchMaxBytes: 50 << 20,
				}},
				Maps: []bridge.MapOptions{
					{Kind: "headers", Settings: maps.HeadersOptions{Set: map[string]string{"a": "b"}, Remove: []string{"c", "d"}, Rename: map[string]string{"e": "f"}}, OnError: bridge.DeadLetter},
					{Kind: "headers", Settings: maps.HeadersOptions{Remove: []string{"g"}}, OnError: bridge.Fail},
				},
				Sink: bridge.SinkOptions{Name: "out", PartitionByKey: true, Compression: "zstd", Linger: 1, MaxMessageBytes: 2048,
					OnReject: bridge.DeadLetter, DeadLetterTopic: "dl", Reserved: []string{"lt"}},
				Checkpoint: bridge.CheckpointOptions{Enabled: true, Interval: 7 * time.Second, MaxRecords: 8, Timeout: 9 * time.Second,
					MinPause: 10 * time.Second, TolerableFailures: 11},
				Restart: bridge.RestartOptions{Backoff: 13 * time.Second, BackoffMax: 14 * time.Second, Attempts: 15},
			},
			Sink: txn.Options{Semantic: semantics.ExactlyOnce, Bridge: "all.of-it", TransactionalIDs: []string{"tid-0", "tid-1"}, TransactionTimeout: time.Minute,
				Ledger: true, LedgerTopic: "lt", DeadLetterTopic: "dl", MaxInFlight: 32 << 20, RequestTimeout: 30 * time.Second, DeliveryTimeout: 2 * time.Minute},
			Store: &snapshot.Options{Path: "/etc/bridge/state", Bridge: "all.of-it", Retain: 12},
			SourceConnections: []connect.Options{{
				Brokers: []string{"a:1", "b:9092"}, ClientID: "all.of-it",
				TLS:  &connect.TLS{CAFile: "/etc/bridge/ca.pem", CertFile: "/abs/c.pem", KeyFile: "/etc/k.pem", ServerName: "s"},
				SASL: &connect.SASL{Mechanism: "SCRAM-SHA-256", Username: "u", Password: "p"},
			}, {
				Brokers: []string{"c:3"}, ClientID: "all.of-it", TLS: &connect.TLS{InsecureSkipVerify: true},
			}},
			SinkConnection: connect.Options{Brokers: []string{"d:4"}, ClientID: "all.of-it",
				SASL: &connect.SASL{Mechanism: "OAUTHBEARER", TokenURL: "https://h/t", ClientID: "ci", ClientSecret: "cs"}},
		}},
	}
	if !want.Bridges[0].Options.Sources[0].Start.Time.Equal(f.Bridges[0].Options.Sources[0].Start.Time) {
		t.Error(f.Bridges[0].Options.Sources[0].Start.Time)
	}
	want.Bridges[0].Options.Sources[0].Start.Time = f.Bridges[0].Options.Sources[0].Start.Time // locations are no values
	if got := withoutFunctions(f); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// TestContractDefaults are the values of the contract's reference file, written down by hand.
func TestContractDefaults(t *testing.T) {
	f, err := Parse([]byte(exactlyOnce(goodSink, "checkpoint {}")), "x.hcl")
	if err != nil {
		t.Fatal(err)
	}
	b := f.Bridges[0]
	s, k, c, r := b.Options.Sources[0], b.Options.Sink, b.Options.Checkpoint, b.Options.Restart
	for name, ok := range map[string]bool{
		"workers":             b.Options.Workers == 0,
		"start":               s.Start == bridge.Start{At: bridge.StartEarliest},
		"start_offsets":       len(s.StartOffsets) == 0,
		"isolation_level":     s.ReadCommitted,
		"group":               s.Group == "x",
		"on_gap":              s.OnGap == "fail",
		"discover":            s.Discover == time.Minute,
		"fetch_max_bytes":     s.FetchMaxBytes == 52428800,
		"partition":           !k.PartitionByKey,
		"create_topics":       k.CreateTopics && b.Sink.CreateTopics,
		"compression":         k.Compression == "source",
		"linger":              k.Linger == 5*time.Millisecond,
		"max_message_bytes":   k.MaxMessageBytes == 1048576,
		"transactional_id":    slices.Equal(b.Sink.TransactionalIDs, []string{"x-0", "x-1"}),
		"transaction_timeout": b.Sink.TransactionTimeout == 15*time.Minute,
		"ledger":              b.Sink.Ledger && b.Options.Ledger,
		"ledger_topic":        b.Sink.LedgerTopic == "x.ledger",
		"on_timeout":          b.Options.OnTimeout == "replay",
		"checkpoint":          c == bridge.CheckpointOptions{Enabled: true, Interval: 5 * time.Second, Timeout: 10 * time.Second},
		"path":                b.Store.Path == "/var/lib/bridge/x",
		"retain":              b.Store.Retain == 3,
		"restart":             r == bridge.RestartOptions{Backoff: 500 * time.Millisecond, BackoffMax: 30 * time.Second},
		"listen":              f.Server.Listen == "127.0.0.1:8080",
		"log":                 f.Log == LogOptions{Level: "info", Format: "text"},
	} {
		if !ok {
			t.Errorf("another default of %s than the contract's", name)
		}
	}
}

// TestCommitInterval: without a checkpoint block it is the interval, the shortest of all sources.
func TestCommitInterval(t *testing.T) {
	f, err := Parse([]byte(inBridge("source \"a\" {\nbrokers = [\"h:1\"]\ntopics = [\"a\"]\ncommit_interval = \"3s\"\n}", goodSource, goodSink)), "x.hcl")
	if err != nil {
		t.Fatal(err)
	}
	b := f.Bridges[0]
	if b.Store != nil || b.Options.Checkpoint.Enabled || b.Options.Checkpoint.Interval != 3*time.Second || b.Options.Semantic != semantics.AtLeastOnce {
		t.Errorf("%+v, store %v", b.Options, b.Store)
	}
}

func TestTopicTemplate(t *testing.T) {
	t.Setenv("PRE", "west")
	for expr, want := range map[string]string{
		`"${topic}"`: "orders", `topic`: "orders", `"west.${topic}"`: "west.orders", `"${env("PRE")}.${topic}-x"`: "west.orders-x",
		`"all"`: "all", `topic == "orders" ? "o" : topic`: "o",
	} {
		f, err := Parse([]byte(strings.Replace(inSink("topic = "+expr), "h:1", "elsewhere:1", 1)), "x.hcl")
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got, err := f.Bridges[0].Options.Sink.Topic("orders"); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", expr, got, err, want)
		}
	}
	f, err := Parse([]byte(inBridge("source \"in\" {\nbrokers = [\"o:1\"]\ntopics_regex = \"a.*\"\n}", "sink \"out\" {\nbrokers = [\"h:1\"]\ntopic = \"${topic}.${topic}\"\n}")), "x.hcl")
	if err != nil {
		t.Fatal(err)
	}
	long := string(slices.Repeat([]byte("a"), 200))
	if to, err := f.Bridges[0].Options.Sink.Topic(long); err == nil {
		t.Errorf("%q is no name of a topic", to)
	}
}

func TestTwoClustersSample(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "west-password", "w$${x}\n")
	t.Setenv("EAST_PASSWORD", "e%{x}")
	t.Setenv("WEST_USER", "wu")
	writeFile(t, dir, "c.hcl", string(sample(t, "two-clusters.hcl")))
	f, err := Load(filepath.Join(dir, "c.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	b := f.Bridges[0]
	if s := b.SourceConnections[0].SASL; *s != (connect.SASL{Mechanism: "SCRAM-SHA-512", Username: "bridge", Password: "e%{x}"}) {
		t.Error("source's sasl")
	}
	if s := b.SinkConnection.SASL; *s != (connect.SASL{Mechanism: "PLAIN", Username: "wu", Password: "w$${x}", PasswordFile: s.PasswordFile}) || s.PasswordFile.String() != filepath.Join(dir, "west-password") {
		t.Error("sink's sasl")
	}
	if b.SinkConnection.TLS.CAFile != filepath.Join(dir, "west-ca.pem") || *b.SourceConnections[0].TLS != (connect.TLS{}) {
		t.Error("tls")
	}
	if len(b.Options.Sources[0].NeverMatch) != 0 {
		t.Error("the ledger is on another cluster")
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.hcl"))
	if err == nil || semantics.ClassOf(err) != semantics.Fatal {
		t.Error(err)
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"0B": 0, "8589934591GiB": 8589934591 << 30, "8589934592GiB": -1, "": -1, "B": -1, "-1B": -1, "1": -1, "1kib": -1, "1.5MiB": -1} {
		n, ok := parseSize(s)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q is %d, want %d", s, n, want)
		}
	}
}

// TestServerBlock: token and tls, and what is warned about.
func TestServerBlock(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "token", "S3cr3t-XYZ\n")
	parse := func(block string) (*File, error) {
		return Parse([]byte(inBridge(goodSource, goodSink)+"\nserver {\n"+block+"\n}\n"), filepath.Join(dir, "x.hcl"))
	}
	f, err := parse("token = file(\"token\")\ntls {\ncert_file = \"s.pem\"\nkey_file = \"/k.pem\"\nclient_ca_file = \"ca.pem\"\n}")
	if err != nil {
		t.Fatal(err)
	}
	want := connect.ServerTLS{CertFile: filepath.Join(dir, "s.pem"), KeyFile: "/k.pem", ClientCAFile: filepath.Join(dir, "ca.pem")}
	if f.Server.Listen != DefaultListen || *f.Server.TLS != want || f.Server.Token.Text(nil) != "S3cr3t-XYZ" {
		t.Errorf("%+v", f.Server)
	}
	for block, want := range map[string]string{
		"token = \"\"":                "must not be empty",
		"token = \"S3cr3t XYZ\"":      "it is sent in an HTTP header",
		"token = \"S3cr3t-XYZ\\n\"":   "",
		"token = \"S3cr3t-ä\"":        "it is sent in an HTTP header",
		"token = S3cr3t":              "not shown",
		"token = 5":                   "takes a string",
		"tls {}":                      "\"cert_file\" is required",
		"tls {\ncert_file = \"c\"\n}": "\"key_file\" is required",
		"tls {\nca_file = \"c\"\n}":   "ca_file",
		"tls {\ncert_file = \"c\"\nkey_file = \"\"\n}":      "must not be empty",
		"tls {\ncert_file=\"c\"\nkey_file=\"k\"\n}\ntls {}": "Duplicate tls block",
	} {
		if _, err := parse(block); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3cr3t") {
			t.Errorf("%s: %v, want %q", block, err, want)
		}
	}
	full := "token = \"t\"\ntls {\ncert_file = \"c\"\nkey_file = \"k\"\n}"
	for block, want := range map[string]string{
		"": "", `listen = ""`: "", `listen = "localhost:80"`: "", `listen = "[::1]:80"`: "", `listen = "127.0.0.2:80"`: "",
		`listen = ":80"`: "set server.token", `listen = "0.0.0.0:80"`: "set server.token", `listen = "[::]:80"`: "set server.token", `listen = "bridge:80"`: "set server.token",
		"listen = \":80\"\ntoken = \"t\"": "in plain text", "listen = \":80\"\n" + full: "",
		"listen = \":80\"\ntls {\ncert_file = \"c\"\nkey_file = \"k\"\nclient_ca_file = \"ca\"\n}": "",
		"listen = \":80\"\ntls {\ncert_file = \"c\"\nkey_file = \"k\"\n}":                          "set server.token",
	} {
		f, err := parse(block)
		if err != nil {
			t.Errorf("%s: %v", block, err)
			continue
		}
		if got := strings.Join(f.Server.Warnings(), "\n"); want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s: warnings %q, want %q", block, got, want)
		}
	}
}
