package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// show writes the plan for people.
func (p plan) show(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "%s: %s\n", p.Bridge, p.Semantic)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(what, format string, args ...any) {
		_, _ = fmt.Fprintf(t, "  %s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	if d := p.Daemon; d != nil {
		line("daemon", "runs here, state %s, last decided epoch %d%s", d.State, d.DecidedEpoch, after(", ", d.Reason))
		line("run", "%s", p.Run)
		return flush(t)
	}
	p.found(line)
	line("verdict", "%s%s", p.Verdict, after(": ", p.Reason))
	line("run", "%s", p.Run)
	for _, r := range p.Replay {
		line("again", "%s/%s/%d offsets %d to %d, at most %d records", r.Source, r.Topic, r.Partition, r.From, r.To-1, r.Records)
	}
	for _, g := range p.Gaps {
		line("gap", "%s", g)
	}
	for _, n := range p.Notes {
		line("note", "%s", n)
	}
	return flush(t)
}

// found writes the three witnesses.
func (p plan) found(line func(what, format string, args ...any)) {
	if s := p.Stored; s != nil {
		line("stored", "checkpoint %d, %s, saved %s%s", s.Epoch, s.Status, s.SavedAt.Format("2006-01-02T15:04:05Z"), after(", transaction ", s.Transaction))
	} else {
		line("stored", "no checkpoint%s", after(" in ", p.Path))
	}
	for _, d := range p.Broker {
		line("broker", "%s", d.sentence())
	}
	switch l := p.Ledger; {
	case l == nil:
		line("ledger", "none (ledger = false)")
	case !l.Found:
		line("ledger", "topic %s has no record of this bridge", l.Topic)
	default:
		line("ledger", "topic %s, offset %d: %s of epoch %d%s, by incarnation %s", l.Topic, l.Offset, l.Kind, l.Epoch, after(", transaction ", l.Transaction), l.Incarnation)
	}
}

// after puts words before a text, unless it is empty.
func after(words, text string) string {
	if text == "" {
		return ""
	}
	return words + text
}
