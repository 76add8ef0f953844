//go:build !failpoints

package main

import "kafkabridge/bridge"

// failpoint is absent from binaries that are not for tests.
func failpoint() func(operation string) { return nil }

func testMaps(*bridge.Options, bridge.Registry) {}
