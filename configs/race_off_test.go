//go:build !race

package configs

const raceDetector = false
