//go:build kafka

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
)

// batch is a group of cells that are judged together: Kafka's own consumer takes longer to start than to read what a
// cell has moved.
type batch struct {
	*campaign
	rank int

	mu    sync.Mutex
	cells []*cell
}

// announce fixes the scenario's place in the table: cells end in any order.
func (b *batch) announce(scenario string) { b.table.announce(b.rank, scenario) }

// dir makes a folder that lives as long as the campaign.
func (b *batch) dir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(b.campaign.dir, unique(t))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// verdict compares what each cell's sink shows to a read_committed reader with what its source holds.
func (b *batch) verdict(t *testing.T) {
	t.Helper()
	b.read(t, func(x *cell) (*kafka.Cluster, string) {
		x.expect = oracle.NewExpected()
		return x.src, x.in[0]
	}, func(x *cell, r oracle.Record) error { return x.expect.Add("src", r) })
	b.read(t, func(x *cell) (*kafka.Cluster, string) {
		x.check = x.expect.NewCheck()
		x.check.Place = oracle.SamePartition
		return x.dst, x.out
	}, func(x *cell, r oracle.Record) error { return x.check.Saw(r) })
	for _, x := range b.cells {
		report := x.check.Report()
		if err := x.faulty(report); err != nil {
			x.failed = true
			t.Errorf("%s: %v\n%s", x.name, err, logs(x.dir))
		}
		b.table.add(x.scenario, report, x.recoveries, x.failed)
	}
}

// read reads one topic of every cell, all topics of a cluster in one go.
func (b *batch) read(t *testing.T, where func(*cell) (*kafka.Cluster, string), saw func(*cell, oracle.Record) error) {
	t.Helper()
	topics, cells := map[*kafka.Cluster][]string{}, map[string]*cell{}
	for _, x := range b.cells {
		cluster, topic := where(x)
		topics[cluster] = append(topics[cluster], topic)
		cells[topic] = x
	}
	for cluster, names := range topics {
		err := oracle.Read(t.Context(), cluster.Bootstrap(), oracle.Committed, names, func(r oracle.Record) error { return saw(cells[r.Topic], r) })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// faulty says what is wrong with a cell's result.
func (x *cell) faulty(r oracle.Report) error {
	var err error
	// A producer of the traffic that lives through a broker's death may repeat itself: then the source holds more.
	if r.Expected < x.want || r.Expected > x.want && !x.repeats {
		err = fmt.Errorf("the source holds %d records, but %d were produced", r.Expected, x.want)
	}
	return errors.Join(err, r.ExactlyOnce())
}

// logs is the end of every run's log.
func logs(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the only error is a malformed pattern
	var all string
	for _, file := range files {
		const keep = 8 << 10
		text, err := os.ReadFile(file)
		all += fmt.Sprintf("--- end of %s, %v\n%s\n", filepath.Base(file), err, text[max(0, len(text)-keep):])
	}
	return all
}
