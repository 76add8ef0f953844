//go:build failpoints

package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"kafkabridge/bridge"
)

// failpoint kills the process, as kill -9 does, after the operation that BRIDGE_FAILPOINT names; "name:n" means the nth
// time. Only binaries for tests have it.
func failpoint() func(operation string) {
	name, number, _ := strings.Cut(os.Getenv("BRIDGE_FAILPOINT"), ":")
	at, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		at = 1
	}
	var seen atomic.Int64
	return func(operation string) {
		if name == operation && seen.Add(1) == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal may take a moment, and nothing more may happen
		}
	}
}

// dropMap lets nothing through; BRIDGE_TEST_MAP=drop puts it behind the configured maps.
type dropMap struct{}

func (dropMap) Map(*bridge.Record, func(*bridge.Record) error) error { return nil }

// testMaps adds what only tests need.
func testMaps(o *bridge.Options, r bridge.Registry) {
	if os.Getenv("BRIDGE_TEST_MAP") != "drop" {
		return
	}
	r["drop"] = func(any) (bridge.Map, error) { return dropMap{}, nil }
	o.Maps = append(o.Maps, bridge.MapOptions{Kind: "drop"})
}
