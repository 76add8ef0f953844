package bridge

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkSource reads batches of 90 records of 181 bytes from four partitions of a broker in the same process; the
// broker's part of the work is in the figures.
func BenchmarkSource(b *testing.B) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "a"), kfake.SyntheticFetch(kfake.SyntheticBatch{Records: 90, RecordBytes: 181}))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	s := newSource(SourceOptions{Name: srcName, Topics: []string{"a"}, ReadCommitted: true}, cl, hclog.NewNullLogger(), 64<<20)
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan delivery, 64)
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- s.run(ctx, at("a", 0, 0, 0, 0), []chan<- delivery{out}) }()
	n := 0
	for n < b.N {
		d := <-out
		n++
		b.SetBytes(int64(len(d.batch.raw)))
		d.batch.release()
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(90*n), "ns/record")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
