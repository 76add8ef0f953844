package sim

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// site is one cluster with a network of its own.
type site struct {
	name    string
	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	brokers []string
	cl      *kgo.Client // without faults
	adm     *kadm.Client
}

// newSite boots a cluster; old: like Kafka 3.9.
func newSite(t *testing.T, name string, brokers int, old bool, opts ...kfake.Opt) *site {
	s := &site{name: name, net: &kfake.VirtualNetwork{}}
	opts = append(opts, kfake.NumBrokers(brokers), kfake.Ports(ports(brokers)...), kfake.ListenFn(s.net.Listen))
	if old {
		opts = append(opts, kfake.MaxVersions(kversion.FromString("3.9")))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	s.cluster, s.brokers = cluster, cluster.ListenAddrs()
	s.cl = s.client(t)
	s.adm = kadm.NewClient(s.cl)
	return s
}

func ports(n int) (out []int) {
	for i := range n {
		out = append(out, 9092+i)
	}
	return out
}

// client has no faults on its wire.
func (s *site) client(t *testing.T, more ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(more, kgo.SeedBrokers(s.brokers...), kgo.Dialer(s.net.DialContext), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.DisableClientMetrics(), kgo.WithDecompressor(bubbleDecompressor{kgo.DefaultDecompressor()}))...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func (s *site) close() {
	s.cl.Close()
	s.cluster.Close()
}
