//go:build !failpoints

package main

import (
	"kafkabridge"
	"kafkabridge/bridge"
)

// testMaps adds nothing to binaries that are not for tests.
func testMaps(*bridge.Options) []kafkabridge.Option { return nil }
