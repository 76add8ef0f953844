package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"kafkabridge/server"
)

// TestStatusOfPrepared: a bridge that died between persist and commit shows its prepared transaction, and the document of a
// stopped daemon decodes as that of a running one.
func TestStatusOfPrepared(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(demoPartitions, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	var out bytes.Buffer
	d := &demo{n: 50, env: environment{stdout: &out, stderr: &out}, brokers: broker.ListenAddrs(), dir: t.TempDir()}
	if err := d.produce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if killed, err := d.killed(t.Context()); !killed || err != nil {
		t.Fatalf("killed %t, %v\n%s", killed, err, out.String())
	}
	file, err := d.config()
	if err != nil {
		t.Fatal(err)
	}
	stopped, err := stoppedStatus(file)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := showStopped(&text, stopped); err != nil || !strings.Contains(text.String(), "the next start asks for its outcome") {
		t.Errorf("%v in\n%s", err, text.String())
	}
	var encoded bytes.Buffer
	if err := writeJSON(&encoded, stopped); err != nil {
		t.Fatal(err)
	}
	var doc server.Document
	if err := json.Unmarshal(encoded.Bytes(), &doc); err != nil {
		t.Fatalf("%v in\n%s", err, encoded.String())
	}
	b := doc.Bridges[0]
	if doc.Ready || b.Ready || b.Bridge != "demo" || b.State != "stopped" || b.DecidedEpoch != 0 || !strings.HasPrefix(b.Transaction.Prepared, "demo-1 ") {
		t.Errorf("%+v", b)
	}
	if stored := stopped.Bridges[0].Stored; len(stored) != 1 || stored[0].Status != "proposed" || stored[0].Epoch != 1 {
		t.Errorf("%+v", stored)
	}
}
