package kafka

import (
	"errors"
	"os"
	"testing"
)

// StartT is Start for a test: the cluster lives in the test's temporary folder, ends with the test, and a
// failed test prints the end of its logs. On a machine that cannot run Kafka the test is skipped, loudly; in
// continuous integration (CI=true) it fails, so that nothing looks green that did not run.
func StartT(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := Start(t.Context(), o)
	if err != nil {
		Unavailable(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
		c.Close()
	})
	return c
}

// Unavailable skips the test, or fails it when CI=true, if err is ErrUnavailable. Otherwise it does nothing.
func Unavailable(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, ErrUnavailable) {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("REAL KAFKA TEST DID NOT RUN, and CI=true forbids to skip it: %v", err)
	}
	t.Skipf("REAL KAFKA TEST DID NOT RUN: %v", err)
}
