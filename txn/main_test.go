package txn

import (
	"testing"

	"go.uber.org/goleak"
)

// Whoever starts a goroutine waits for it: sender, requests and locators end with their run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
