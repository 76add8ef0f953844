package daemon

import (
	"fmt"
	"strconv"
	"strings"
)

// Metrics are the samples of a scrape: `name{labels}` → value.
type Metrics map[string]float64

func parseMetrics(text string) (Metrics, error) {
	m := Metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			return nil, fmt.Errorf("daemon: not a sample: %q", line)
		}
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("daemon: sample %q: %w", line, err)
		}
		m[line[:i]] = v
	}
	return m, nil
}

// Sum adds up the samples of a name whose labels contain all the given ones, each written as `label="value"`.
// found is false when there is no such sample: an absent metric must not pass for zero.
func (m Metrics) Sum(name string, labels ...string) (sum float64, found bool) {
next:
	for sample, v := range m {
		base, rest, _ := strings.Cut(sample, "{")
		if base != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue next
			}
		}
		sum, found = sum+v, true
	}
	return sum, found
}
