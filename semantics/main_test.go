package semantics

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the heap grow: an exploration keeps almost everything it allocates, so collecting often is a third of its time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(500)
	os.Exit(m.Run())
}
