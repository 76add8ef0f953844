//go:build !race

package sim

import "time"

// What a plain go test runs: about a minute on two cores.
const (
	usualSeeds = 300
	usualTime  = 75 * time.Second
)
