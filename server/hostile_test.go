package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/bridge"
)

// TestMetricsOfHostileNames: a transactional id is whatever its owner sends and its cluster passes on. One that is no UTF-8
// must not take all other metrics with it: Prometheus takes no such label.
func TestMetricsOfHostileNames(t *testing.T) {
	s := bridge.Status{Bridge: "orders", Sources: []bridge.SourceStatus{{Name: "a", Partitions: []bridge.PartitionStatus{
		{Topic: "t", HeldSecs: 9, HeldBy: &bridge.Holder{TransactionalID: "bad\xff\"\n{id}"}}}}}}
	w := httptest.NewRecorder()
	New("v", []Bridge{shows(s)}, NewMetrics(), hclog.NewNullLogger()).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if want := `transactional_id="bad�\"\n{id}"} 1`; w.Code != 200 || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d without %s", w.Code, want)
	}
}
