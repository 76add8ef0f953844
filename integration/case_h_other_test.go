//go:build !linux

package integration

import "testing"

// caseHCases need Linux to mount a file system; snapshot's tests of a failing disk stand in elsewhere.
func caseHCases() map[string]func(*testing.T, *kfakeSuite) { return nil }
