//go:build race

package snapshot

// raceDetector: Pebble checks its invariants in such builds too, and is a hundred times slower.
const raceDetector = true
