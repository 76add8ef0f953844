package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// selftestReport is the document of -o json.
type selftestReport struct {
	Version string `json:"version"`
	selftestNames
	Records  int            `json:"records"`
	Seen     int            `json:"records_seen"`
	Seconds  float64        `json:"seconds"`
	Steps    []*selftestRow `json:"steps"`
	Exactly  bool           `json:"exactly_once"`
	Findings selftestResult `json:"total"`
	Example  string         `json:"first_wrong,omitempty"`
}

func (s *selftest) show(f *selftestFindings, took time.Duration) error {
	moment := slices.IndexFunc(s.rows, func(r *selftestRow) bool { return r.Step == anyMoment })
	rows := append(slices.Delete(slices.Clone(s.rows), moment, moment+1), s.rows[moment])
	if s.Output == "json" {
		e := json.NewEncoder(s.env.stdout)
		e.SetIndent("", "  ")
		return e.Encode(selftestReport{Version: version, selftestNames: s.names, Records: s.load.total(), Seen: f.seen, Seconds: took.Seconds(), Steps: rows,
			Exactly: f.wrong() == 0, Findings: f.selftestResult, Example: f.example})
	}
	w := tabwriter.NewWriter(s.env.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\nstep\tkills\trecoveries\tmedian\tmax\tlost\tdoubled\treordered\tchanged")
	for _, r := range rows {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%.1f s\t%.1f s\t%d\t%d\t%d\t%d\n", r.Step, r.Kills, r.outcomes(), r.Median, r.Longest, r.Lost, r.Doubled, r.Reordered, r.Changed)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	kills := 0
	for _, r := range rows {
		kills += r.Kills
	}
	_, err := fmt.Fprintf(s.env.stdout, "\n%d records in %.0f s, %d kills: a read_committed reader sees %d; lost %d, doubled %d, reordered %d, changed %d\n",
		s.load.total(), took.Seconds(), kills, f.seen, f.Lost, f.Doubled, f.Reordered, f.Changed)
	return err
}

// outcomes is "2 clean, 1 replayed".
func (r *selftestRow) outcomes() string {
	var parts []string
	for _, o := range slices.Sorted(maps.Keys(r.Outcomes)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Outcomes[o], o))
	}
	return strings.Join(parts, ", ")
}
