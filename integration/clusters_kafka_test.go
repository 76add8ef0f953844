//go:build kafka

package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// current is what every scenario runs on.
func current() kafka.Options { return kafka.Options{Version: kafka.Current, TransactionVersion: 2} }

// allClusters are the brokers of the suite: transactions v2, v1 on a new broker, and a broker before v2.
func allClusters() []kafka.Options {
	return []kafka.Options{current(), {Version: kafka.Current, TransactionVersion: 1}, {Version: kafka.BeforeV2}}
}

// suiteClusters are those that a test runs on, one after the other: all, but with -short only the first. Continuous
// integration has no time for all, and the campaign, the cases A to D and txn's tests run on the others, too.
func suiteClusters() []kafka.Options {
	if testing.Short() {
		return allClusters()[:1]
	}
	return allClusters()
}

// startCluster boots a cluster of the test's own: for tests that kill brokers.
func startCluster(t *testing.T, o kafka.Options) *kafka.Cluster {
	t.Helper()
	return kafka.StartT(t, o)
}

// shared holds the clusters that tests share: a boot takes seconds, and most tests only need topics of their own.
type shared struct {
	mu  sync.Mutex
	dir string
	all map[string]*kafka.Cluster
}

var clusters = &shared{all: map[string]*kafka.Cluster{}}

// TestMain ends the shared clusters and removes what they wrote.
func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

func runSuite(m *testing.M) int {
	defer clusters.close()
	defer builds.close()
	return m.Run()
}

// sharedCluster returns a cluster that other tests use too: do not kill its nodes.
func sharedCluster(t *testing.T, o kafka.Options) *kafka.Cluster {
	t.Helper()
	clusters.mu.Lock()
	defer clusters.mu.Unlock()
	name := clusterName(o)
	if c := clusters.all[name]; c != nil {
		return c
	}
	if clusters.dir == "" {
		dir, err := os.MkdirTemp("", "kafkabridge-suite-")
		if err != nil {
			t.Fatal(err)
		}
		clusters.dir = dir
	}
	o.Dir = filepath.Join(clusters.dir, name)
	// Not the test's context: the cluster lives on after it.
	c, err := kafka.Start(context.Background(), o)
	if err != nil {
		kafka.Unavailable(t, err)
		t.Fatal(err)
	}
	clusters.all[name] = c
	return c
}

func clusterName(o kafka.Options) string {
	return strings.ReplaceAll(o.Version, ".", "-") + "-tv" + string(rune('0'+o.TransactionVersion))
}

func (s *shared) close() {
	for _, c := range s.all {
		c.Close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// unique makes a topic and bridge name of a test's own on a shared cluster.
func unique(t *testing.T) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "#", "-").Replace(t.Name()))
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func createTopic(t *testing.T, c *kafka.Cluster, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	if err := c.CreateTopic(t.Context(), topic, partitions, configs); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, p traffic.Plan) traffic.Count {
	t.Helper()
	n, err := traffic.Produce(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// restartNode kills a broker with SIGKILL and boots it again.
func restartNode(t *testing.T, c *kafka.Cluster, id int32) {
	t.Helper()
	if err := c.Node(id).Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Node(id).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// console reads a topic of text with Kafka's own console consumer, hands the records to check (may be nil) and
// wants to see so many.
func console(t *testing.T, c *kafka.Cluster, topic string, check *oracle.Check, want int) {
	t.Helper()
	begin, seen := time.Now(), 0
	err := oracle.Console(t.Context(), c.Bootstrap(), topic, func(r oracle.Record) error {
		seen++
		if check != nil {
			return check.Saw(r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("console consumer saw %d records of %s (%v)", seen, topic, time.Since(begin).Round(time.Millisecond))
	if seen != want {
		t.Errorf("console consumer saw %d records of %s, want %d", seen, topic, want)
	}
}

// compactedTopic makes a topic with compaction gaps in every partition: perPartition records of which most are
// superseded, cleaned before it returns. The newest segment is never cleaned, so some follow that are not.
func compactedTopic(t *testing.T, c *kafka.Cluster, topic string, partitions int32, perPartition int) {
	t.Helper()
	createTopic(t, c, topic, partitions, map[string]string{"cleanup.policy": "compact", "segment.ms": "500",
		"min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "500", "delete.retention.ms": "0"})
	plan := traffic.Plan{Bootstrap: c.Bootstrap(), Topic: topic, Partitions: traffic.Range(partitions), Records: perPartition,
		Batches: []int{1, 30, 100}, Codecs: traffic.Codecs(), Keys: perPartition / 4}
	produce(t, plan)
	tail := plan
	tail.First, tail.Records = perPartition, 1
	full := perPartition * int(partitions)
	err := kafka.Poll(t.Context(), "topic "+topic+" is compacted", func() (bool, error) {
		tail.First++ // rolls the segment, which is what lets the cleaner see it
		full += int(partitions)
		if _, err := traffic.Produce(t.Context(), tail); err != nil {
			return false, err
		}
		gaps, err := partitionsWithGaps(t.Context(), c, topic)
		return gaps == int(partitions), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func partitionsWithGaps(ctx context.Context, c *kafka.Cluster, topic string) (int, error) {
	last, gaps := map[int32]int64{}, map[int32]bool{}
	err := oracle.Read(ctx, c.Bootstrap(), oracle.Committed, []string{topic}, func(r oracle.Record) error {
		if before, found := last[r.Partition]; found && r.Offset > before+1 {
			gaps[r.Partition] = true
		}
		last[r.Partition] = r.Offset
		return nil
	})
	return len(gaps), err
}
