//go:build kafka

package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kafkabridge/integration/oracle"
)

// table counts what a campaign did. Safe for concurrent use.
type table struct {
	mu   sync.Mutex
	rows []*row
}

// row is one scenario over all its runs.
type row struct {
	scenario                 string
	rank                     int
	runs, failed             int
	records                  int
	lost, doubled, reordered int
	foreign                  int // changed, misplaced or from elsewhere
	recoveries               []time.Duration
}

// row returns the scenario's row, in the order in which rows were first asked for. t.mu must be held.
func (t *table) row(scenario string) *row {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.scenario == scenario })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &row{scenario: scenario})
	}
	return t.rows[i]
}

// announce adds a scenario without runs, behind those of its rank.
func (t *table) announce(rank int, scenario string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.row(scenario).rank = rank
	slices.SortStableFunc(t.rows, func(a, b *row) int { return a.rank - b.rank })
}

// add counts a run. One that failed before it was judged has an empty report.
func (t *table) add(scenario string, rep oracle.Report, recoveries []time.Duration, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.row(scenario)
	r.runs++
	if failed {
		r.failed++
	}
	r.records += rep.Expected
	r.lost, r.doubled, r.reordered = r.lost+rep.Lost, r.doubled+rep.Doubled, r.reordered+rep.Reordered
	r.foreign += rep.Misplaced + rep.Foreign
	r.recoveries = append(r.recoveries, recoveries...)
}

// String is the table in Markdown.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	b.WriteString("| scenario | runs | records | lost | doubled | reordered | changed or foreign | failed | recoveries | median | longest |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	all := &row{scenario: "**all**"}
	for _, r := range t.rows {
		if r.runs == 0 {
			continue
		}
		b.WriteString(r.String())
		all.runs, all.failed, all.records = all.runs+r.runs, all.failed+r.failed, all.records+r.records
		all.lost, all.doubled, all.reordered = all.lost+r.lost, all.doubled+r.doubled, all.reordered+r.reordered
		all.foreign, all.recoveries = all.foreign+r.foreign, append(all.recoveries, r.recoveries...)
	}
	b.WriteString(all.String())
	return b.String()
}

func (r *row) String() string {
	slices.Sort(r.recoveries)
	median, longest := "", ""
	if n := len(r.recoveries); n > 0 {
		median, longest = seconds(r.recoveries[n/2]), seconds(r.recoveries[n-1])
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %s | %s |\n", r.scenario, r.runs, r.records, r.lost, r.doubled,
		r.reordered, r.foreign, r.failed, len(r.recoveries), median, longest)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
