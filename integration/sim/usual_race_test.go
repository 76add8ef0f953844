//go:build race

package sim

import "time"

// What go test -race runs: it needs about ten times the work for each seed.
const (
	usualSeeds = 40
	usualTime  = 40 * time.Second
)
