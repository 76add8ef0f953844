package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"kafkabridge/bridge"
	"kafkabridge/server"
)

func showStatus(w io.Writer, d server.Document) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, b := range d.Bridges {
		state := "ready"
		if !b.Ready {
			state = "not ready: " + b.Reason
		}
		line(t, "bridge", b.Bridge, "%s, %s", b.Semantic, state)
		line(t, "", "waits for", "%s", b.WaitsFor)
		line(t, "", "epoch", "%d open, %d decided", b.Epoch, b.DecidedEpoch)
		if b.Transaction.Open != "" {
			line(t, "", "transaction", "%s, open %.1fs of %.0fs", b.Transaction.Open, b.Transaction.OpenSecs, b.Transaction.TimeoutSec)
		}
		if b.Transaction.Budget != nil {
			line(t, "", "may be down", "%.0fs before what is prepared must be read again", *b.Transaction.Budget)
		}
		if b.Recovery != nil {
			line(t, "", "recovery", "%s: %s", b.Recovery.Outcome, b.Recovery.Reason)
		}
		if b.Restarts > 0 {
			line(t, "", "restarts", "%d, the last after: %s", b.Restarts, b.LastFailure)
		}
		for _, s := range b.Sources {
			showSource(t, s)
		}
		line(t, "", "sink", "%d records, %d bytes, %d batches (%d untouched)", b.Maps.RecordsOut, b.Maps.BytesOut, b.Maps.BatchesOut, b.Maps.Untouched)
		if b.Maps.DeadLetters > 0 {
			line(t, "", "dead letters", "%d records (%d that the sink refuses)", b.Maps.DeadLetters, b.Maps.Rejected)
		}
		for _, why := range b.Waiting {
			if !strings.Contains(b.WaitsFor, why) { // the sentence above may have said it
				line(t, "", "waits", "%s", why)
			}
		}
	}
	return flush(t)
}

func showSource(t io.Writer, s bridge.SourceStatus) {
	var lag int64
	topics := map[string]bool{}
	for _, p := range s.Partitions {
		lag += max(0, p.Lag)
		topics[p.Topic] = true
	}
	line(t, "", "source "+s.Name, "%d records, lag %d, %d topics, %d partitions", s.RecordsIn, lag, len(topics), len(s.Partitions))
	showHeld(t, s)
	for _, g := range s.Gaps {
		line(t, "", "gap", "%s", g)
	}
}

// showHeld tells of the partition that is held back longest, and how many others there are.
func showHeld(t io.Writer, s bridge.SourceStatus) {
	var longest bridge.PartitionStatus
	held := 0
	for _, p := range s.Partitions {
		if p.HeldSecs <= 0 {
			continue
		}
		held++
		if p.HeldSecs > longest.HeldSecs {
			longest = p
		}
	}
	if held == 0 {
		return
	}
	others := ""
	if held > 1 {
		others = fmt.Sprintf("; %d partitions are held in all", held)
	}
	line(t, "", "held back", "topic %s partition %d for %.0fs, %d records, by %s%s", longest.Topic, longest.Partition, longest.HeldSecs,
		longest.HighWatermark-longest.LastStable, longest.HeldBy, others)
	if s.HoldersUnknown != "" {
		line(t, "", "", "%s", s.HoldersUnknown)
	}
}

func showStopped(w io.Writer, d stoppedDocument) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, b := range d.Bridges {
		line(t, "bridge", b.Bridge, "%s, stopped: %s", b.Semantic, b.Reason)
		line(t, "", "epoch", "%d decided", b.DecidedEpoch)
		if b.Transaction.Prepared != "" {
			line(t, "", "prepared", "%s: the next start asks for its outcome", b.Transaction.Prepared)
			if b.Transaction.Budget != nil {
				line(t, "", "may be down", "%.0fs before it must be read again", *b.Transaction.Budget)
			}
		}
		if b.Path != "" {
			line(t, "", "state", "%s, %d checkpoints", b.Path, len(b.Stored))
		}
		for _, c := range b.Stored {
			line(t, "", fmt.Sprintf("checkpoint %d", c.Epoch), "%s, saved %s %s", c.Status, c.SavedAt.Format(time.RFC3339), c.Transaction)
		}
	}
	return flush(t)
}

func line(w io.Writer, a, b, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", a, b, fmt.Sprintf(format, args...)) // the tabwriter keeps the error for Flush
}

func flush(t *tabwriter.Writer) error {
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
