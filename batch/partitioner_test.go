package batch

import (
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The vectors of Kafka's own org.apache.kafka.common.utils.UtilsTest.testMurmur2.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(Murmur2([]byte(key))); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

// franz-go's default partitioner, a second implementation, agrees on every key that is not null.
func TestPartitionForKey(t *testing.T) {
	theirs := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		key := make([]byte, i%67)
		for j := range key {
			key[j] = byte(rng.Uint32())
		}
		n := 1 + rng.IntN(100)
		if got, want := PartitionForKey(key, int32(n)), theirs.Partition(&kgo.Record{Key: key}, n); int(got) != want {
			t.Fatalf("%x of %d: %d, want %d", key, n, got, want)
		}
	}
}
