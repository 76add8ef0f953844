package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/bridge"
)

// shows is a bridge that shows a fixed status.
type shows bridge.Status

func (s shows) Status() bridge.Status { return bridge.Status(s) }

// busy is a status with something in every field that metrics take.
func busy() bridge.Status {
	budget := 898.5
	return bridge.Status{
		Bridge: "orders", Semantic: "EXACTLY_ONCE", State: "running", Ready: true,
		Epoch: 8, DecidedEpoch: 7, LastDecidedMs: 1_700_000_000_500, Restarts: 3, Replayed: 11, CheckpointBytes: 321, WaitsFor: "new records",
		Transaction: bridge.Transactions{Open: "orders-1", OpenSecs: 1.5, TimeoutSec: 900, Budget: &budget},
		Recoveries:  map[string]int64{"clean": 1, "replayed": 2},
		Checkpoints: map[string]int64{"decided": 7, "failed": 1},
		Sources: []bridge.SourceStatus{{
			Name: "east", RecordsIn: 30, BytesIn: 4000, InFlight: 17,
			Gaps: []bridge.Gap{{Source: "east", Topic: "orders", Partition: 1, From: 3, To: 9}}, GapCount: 1,
			Partitions: []bridge.PartitionStatus{
				{Topic: "orders", Partition: 0, Position: 10, LastStable: 10, HighWatermark: 10, Lag: 0, RecordsIn: 10},
				{Topic: "orders", Partition: 1, Position: 15, LastStable: 20, HighWatermark: 23, Lag: 5, RecordsIn: 20, Gaps: 1, HeldSecs: 12.5, HeldBy: &bridge.Holder{TransactionalID: "other", ProducerID: 4}},
				{Topic: "orders", Partition: 2, Position: -1, LastStable: -1, Lag: -1},
				{Topic: "was", Partition: 0, Position: 3, LastStable: 3, Lag: 0, RecordsIn: 3, Gone: true, HeldSecs: 9},
			},
		}},
		Maps: bridge.MapStats{RecordsIn: 30, RecordsDropped: 2, DroppedBy: map[string]int64{"filter": 2}, MapErrors: map[string]map[bridge.Policy]int64{"jq": {bridge.Skip: 3, bridge.DeadLetter: 4}}, DeadLetters: 6, Rejected: 2, RecordsOut: 28, BytesOut: 3500, Untouched: 4, Reencoded: map[string]int64{"map": 6}},
	}
}

func unready(name, why string) bridge.Status {
	return bridge.Status{Bridge: name, Reason: why}
}

func handlerOf(statuses ...bridge.Status) (http.Handler, *Metrics) {
	metrics := NewMetrics()
	var bridges []Bridge
	for _, s := range statuses {
		bridges = append(bridges, shows(s))
	}
	return New("v1.2.3", bridges, metrics, hclog.NewNullLogger()).Handler(), metrics
}

func get(t *testing.T, h http.Handler, method, path string) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(body)
}
