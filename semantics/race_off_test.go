//go:build !race

package semantics

const raceEnabled = false
