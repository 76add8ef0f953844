package main

import (
	"bytes"
	"strings"
	"testing"

	"kafkabridge/bridge"
	"kafkabridge/server"
)

// TestStatusSaysAReasonOnce: a broker's long answer under two names reads like two troubles.
func TestStatusSaysAReasonOnce(t *testing.T) {
	var out bytes.Buffer
	d := server.Document{Bridges: []bridge.Status{{
		Bridge: "orders", WaitsFor: "the sink cluster: broker is away", Waiting: []string{"broker is away", "topic t has no leader"},
	}}}
	if err := showStatus(&out, d); err != nil {
		t.Fatal(err)
	}
	for _, once := range []string{"broker is away", "topic t has no leader"} {
		if n := strings.Count(out.String(), once); n != 1 {
			t.Errorf("%q is there %d times, want once:\n%s", once, n, out.String())
		}
	}
}
