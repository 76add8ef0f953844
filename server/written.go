package server

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Written counts the records of one bridge by sink partition. The status has only their sum. Safe for concurrent use; the
// memory is bounded by the number of sink partitions.
type Written struct {
	mu      sync.Mutex
	records map[sinkPartition]int64
}

type sinkPartition struct {
	topic     string
	partition int32
}

// Add counts the records of one batch.
func (w *Written) Add(topic string, partition, records int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records[sinkPartition{topic, partition}] += int64(records)
}

// Written makes the counters of the bridge of that name. It is called once a bridge, before the server starts.
func (m *Metrics) Written(name string) *Written {
	w := &Written{records: map[sinkPartition]int64{}}
	m.written[name] = w
	return w
}

func (w *Written) collect(bridge string, out chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := families()
	for k, n := range w.records {
		f.recordsOut.send(out, float64(n), bridge, k.topic, itoa(k.partition))
	}
}
