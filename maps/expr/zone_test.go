package expr

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kafkabridge/bridge"
)

// TestMachineZone: an expression sees nothing of the machine, its time zone included.
func TestMachineZone(t *testing.T) {
	before := time.Local
	defer func() { time.Local = before }()
	time.Local = time.FixedZone("here", 9*3600)
	for text, want := range map[string]string{
		`string(timestamp.getHours("Local"))`:                                          "line 1, column 27: ",
		`timestamp("2024-01-01T00:00:00Z").getFullYear("localtime") == 2024 ? "" : ""`: "column 47: ",
		`string(timestamp.getMinutes("posixrules"))`:                                   "column ",
		`string(timestamp.getHours("Lo" + "cal"))`:                                     "closed",
		`string(timestamp.getDate(json.zone))`:                                         "closed",
		`string(timestamp.getHours(json.zones[0]))`:                                    "closed",
		`string(timestamp.getHours("Europe/Berlin"))`:                                  "23",
		`string(timestamp.getHours("UTC"))`:                                            "22",
		`string(timestamp.getHours("+02:00"))`:                                         "0",
		`string(timestamp.getHours())`:                                                 "22",
	} {
		got := ""
		p, err := Compile(text, Text)
		if err == nil {
			var in Input
			got, err = p.Text(&in, &bridge.Record{Timestamp: 1_700_000_000_000, Value: []byte(`{"zone":"Local","zones":["right/UTC"]}`)})
		}
		var e *Error
		if strings.Contains(want, "column") && !errors.As(err, &e) {
			t.Errorf("%s: %v, want it to be found when it is compiled", text, err)
		}
		if err != nil {
			got = err.Error()
			if !strings.Contains(got, "closed") {
				t.Errorf("%s: %v", text, err)
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
