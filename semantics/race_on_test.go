//go:build race

package semantics

// raceEnabled: the race detector makes an exploration ten times slower, so it takes smaller bounds.
const raceEnabled = true
