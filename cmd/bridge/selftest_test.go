package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/configs"
	"kafkabridge/connect"
)

// TestSelftestCounts: records are lost, doubled, out of order and changed by hand; each is counted once, and for the step during which
// it was produced.
func TestSelftestCounts(t *testing.T) {
	early, late := &selftestRow{Step: "early"}, &selftestRow{Step: "late"}
	s := &selftest{load: &selftestLoad{parts: []loadPart{{row: early}, {row: late, from: [selftestPartitions]int{5}}}}}
	f := &selftestFindings{}
	for p := range f.count {
		f.count[p], f.last[p] = make([]uint8, 10), -1
	}
	at := func(n int) *kgo.Record { return loadRecord(0, n) }
	changed := at(6)
	changed.Value = append(changed.Value, '!')
	foreign := at(3)
	foreign.Headers = nil
	elsewhere := at(9)
	elsewhere.Partition = 1
	for _, r := range []*kgo.Record{at(0), at(1), at(1), at(3), at(2), at(4), at(5), changed, at(1), at(7), at(8), foreign, elsewhere} {
		s.take(f, r)
	}
	s.missing(f)
	// Lost are the last of partition 0, all but the last of partition 1, and all of the other two.
	want := selftestResult{Lost: 1 + 9 + 20, Doubled: 2, Reordered: 1, Changed: 3}
	if f.selftestResult != want || f.seen != 13 {
		t.Errorf("%+v of %d, want %+v of 13", f.selftestResult, f.seen, want)
	}
	if want := (selftestResult{Doubled: 2, Reordered: 1}); early.selftestResult != want {
		t.Errorf("early: %+v, want %+v", early.selftestResult, want)
	}
	if want := (selftestResult{Lost: 30, Changed: 2}); late.selftestResult != want {
		t.Errorf("late: %+v, want %+v", late.selftestResult, want)
	}
	if !strings.Contains(f.example, "record 1 of partition 0 is doubled (early)") {
		t.Errorf("example: %s", f.example)
	}
}

// TestSelftestConfig: what is written reads as it was meant, with a user name that HCL would take apart, and without the secrets.
func TestSelftestConfig(t *testing.T) {
	t.Setenv("BRIDGE_SELFTEST_SINK_PASSWORD", "planted-secret")
	t.Setenv("BRIDGE_SELFTEST_SOURCE_CLIENT_SECRET", "planted-other")
	s := &selftest{dir: t.TempDir(), selftestCommand: selftestCommand{Prefix: "p", TransactionTimeout: 4_000_000_000}}
	s.name()
	s.source = &selftestCluster{cluster: cluster{o: connect.Options{Brokers: []string{"a:1"}, SASL: &connect.SASL{Mechanism: connect.OAuthBearer, TokenURL: "https://x/", ClientID: "id", ClientSecret: "planted-other"}}}}
	sasl := &connect.SASL{Mechanism: connect.ScramSHA512, Username: "a\"b${c}%{d}\\\u2028\x01", Password: "planted-secret"}
	tls := &connect.TLS{CAFile: "/ca", CertFile: "/cert", KeyFile: "/key", ServerName: "name"}
	s.sink = &selftestCluster{cluster: cluster{o: connect.Options{Brokers: []string{"b:2", "c:3"}, TLS: tls, SASL: sasl}}}
	if err := s.writeConfig(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "bridge.hcl"))
	if err != nil || strings.Contains(string(text), "planted") {
		t.Fatalf("%v\n%s", err, text)
	}
	file, err := configs.Load(s.configPath())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	b := file.Bridges[0]
	if got := b.SinkConnection; *got.TLS != *tls || got.SASL.Username != sasl.Username || got.SASL.Password != "planted-secret" || len(got.Brokers) != 2 {
		t.Errorf("sink: %+v %+v", got.TLS, got.Brokers)
	}
	if got := b.SourceConnections[0]; got.TLS != nil || got.SASL.ClientSecret != "planted-other" || got.SASL.TokenURL != "https://x/" {
		t.Errorf("source: %+v", got)
	}
	if b.Options.Name != s.names.Bridge || b.Sink.LedgerTopic != s.names.Ledger || b.Sink.TransactionTimeout != s.TransactionTimeout || !b.Sink.Ledger {
		t.Errorf("%+v", b.Sink)
	}
	if info, err := os.Stat(s.configPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}
