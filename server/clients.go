package server

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// clientNamespace begins the names of the Kafka clients' own metrics.
const clientNamespace = "bridge_client"

// clients are the metrics of the Kafka clients that are open now. They are not registered one by one: a client that is opened
// for the second time would be refused as a duplicate, and one that is closed would stay for ever.
type clients struct {
	mu   sync.Mutex
	open map[clientKey]*clientMetrics
}

type clientKey struct{ bridge, role, cluster string }

// clientMetrics are the hooks of one client. Labels are the bridge, the client's role, the name of its block, and the broker's node
// id: nothing that grows with topics or partitions.
type clientMetrics struct {
	*kprom.Metrics
	key clientKey
	all *clients
}

// Client returns the hook that measures a Kafka client of a bridge: role is "source" or "sink", cluster the name of its block. Each
// client needs a hook of its own. While the client is open it is in the scrape; a later client of the same name takes its place.
func (m *Metrics) Client(bridge, role, cluster string) kgo.Hook {
	return &clientMetrics{
		Metrics: kprom.NewMetrics(clientNamespace,
			kprom.Registerer(nil), // Collect below is the only way to them
			kprom.WithStaticLabel(prometheus.Labels{"bridge": bridge, "role": role, "cluster": cluster}),
			// The bridge fetches and produces batches itself: of the client's own records there are none.
			kprom.FetchAndProduceDetail(),
			kprom.NativeBucketFactor(1), // classic buckets only: what every Prometheus understands
			kprom.Histograms(kprom.RequestDurationE2E, kprom.RequestThrottled)),
		key: clientKey{bridge, role, cluster}, all: &m.clients,
	}
}

// OnNewClient implements kgo.HookNewClient.
func (c *clientMetrics) OnNewClient(cl *kgo.Client) {
	c.Metrics.OnNewClient(cl)
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.all.open == nil {
		c.all.open = map[clientKey]*clientMetrics{}
	}
	c.all.open[c.key] = c
}

// OnClientClosed implements kgo.HookClientClosed.
func (c *clientMetrics) OnClientClosed(*kgo.Client) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.all.open[c.key] == c { // else another has taken its place already
		delete(c.all.open, c.key)
	}
}

func (c *clients) collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.open {
		all := make(chan prometheus.Metric)
		go client.pour(all)
		for m := range all {
			// What kgo itself buffers for producing and consuming is always 0 here, and would be taken for the bridge's own.
			if !strings.Contains(m.Desc().String(), clientNamespace+"_buffered_") {
				out <- m
			}
		}
	}
}

func (c *clientMetrics) pour(all chan<- prometheus.Metric) {
	c.Collect(all)
	close(all)
}
