//go:build !kafka

package integration

import "testing"

// TestRealKafkaSuiteIsSeparate keeps a plain "go test ./..." from looking as if the real brokers had been tried.
func TestRealKafkaSuiteIsSeparate(t *testing.T) {
	t.Skip("NOT RUN HERE: the suite on real Apache Kafka. Run: go test -tags kafka -timeout 40m ./integration/...")
}
