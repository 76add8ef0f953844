//go:build kafka

package integration

import "testing"

// TestScenario08TwoClusters: scenario 1 from one cluster to another, the sink's being older than the source's
// and the other way round.
func TestScenario08TwoClusters(t *testing.T) {
	newer, older := sharedCluster(t, current()), sharedCluster(t, allClusters()[2])
	t.Run("to-older", func(t *testing.T) { killsAtRandom(t, newer, older, 240_000, 6) })
	t.Run("to-newer", func(t *testing.T) { killsAtRandom(t, older, newer, 240_000, 6) })
}
