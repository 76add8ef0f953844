package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"kafkabridge/semantics"
)

// target is what --to says. Exactly one field is set.
type target struct {
	earliest, latest bool
	at               time.Time
	offsets          []namedOffset
}

type namedOffset struct {
	topic     string
	partition int32
	offset    int64
}

func parseTarget(text string) (t target, err error) {
	switch {
	case text == "earliest":
		t.earliest = true
		return t, nil
	case text == "latest":
		t.latest = true
		return t, nil
	case !strings.Contains(text, "="):
		if t.at, err = time.Parse(time.RFC3339, text); err != nil {
			return t, &usageError{fmt.Errorf("--to %s: want earliest, latest, a time such as 2026-01-31T12:00:00Z, or topic/partition=offset", text)}
		}
		return t, nil
	}
	for _, part := range strings.Split(text, ",") {
		o, ok := parseOffset(part)
		if !ok {
			return t, &usageError{fmt.Errorf("--to %s: want topic/partition=offset", part)}
		}
		if slices.ContainsFunc(t.offsets, func(x namedOffset) bool { return x.topic == o.topic && x.partition == o.partition }) {
			return t, &usageError{fmt.Errorf("--to names %s/%d twice", o.topic, o.partition)}
		}
		t.offsets = append(t.offsets, o)
	}
	return t, nil
}

func parseOffset(part string) (o namedOffset, ok bool) {
	where, offset, ok := strings.Cut(part, "=")
	topic, partition, found := strings.Cut(where, "/")
	p, err := strconv.ParseInt(partition, 10, 32)
	n, err2 := strconv.ParseInt(offset, 10, 64)
	return namedOffset{topic, int32(p), n}, ok && found && topic != "" && err == nil && err2 == nil && p >= 0 && n >= 0
}

// move is the new position of one partition.
type move struct {
	source    string
	topic     string
	id        semantics.TopicID
	partition int32
	known     bool
	from, to  int64 // from only if known
}

// effect says what becomes of the records between the two positions. An offset is at most one record: markers take offsets, too,
// and compaction leaves gaps.
func (m move) effect() string {
	switch {
	case !m.known:
		return "begins here"
	case m.to < m.from:
		return fmt.Sprintf("reads %d again", m.from-m.to)
	case m.to > m.from:
		return fmt.Sprintf("skips %d", m.to-m.from)
	default:
		return "stays"
	}
}

// moves are the new positions, in order of source, topic and partition.
func (t target) moves(ctx context.Context, only string, views []*sourceView, before semantics.Positions) (out []move, err error) {
	for _, v := range views {
		if only != "" && v.o.Name != only {
			continue
		}
		var found []move
		if len(t.offsets) > 0 {
			found, err = t.named(v, before)
		} else {
			found, err = t.everywhere(ctx, v, before)
		}
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", v.o.Name, err)
		}
		out = append(out, found...)
	}
	return out, t.allFound(out)
}

// allFound refuses names that belong to no source, or to more than one.
func (t target) allFound(moves []move) error {
	for _, o := range t.offsets {
		var sources []string
		for _, m := range moves {
			if m.topic == o.topic && m.partition == o.partition {
				sources = append(sources, m.source)
			}
		}
		switch {
		case len(sources) == 0:
			return semantics.Misconfigured("reset", "--to %s/%d=%d: no source has this partition", o.topic, o.partition, o.offset)
		case len(sources) > 1:
			return semantics.Misconfigured("reset", "--to %s/%d=%d: sources %s read this topic: say --source", o.topic, o.partition, o.offset, strings.Join(sources, ", "))
		}
	}
	return nil
}

func (v *sourceView) move(before semantics.Positions, topic string, partition int32, to int64) move {
	m := move{source: v.o.Name, topic: topic, id: v.topics[topic].id, partition: partition, to: to}
	at, known := v.known(before, topic, partition)
	m.from, m.known = at.Offset, known
	return m
}

// everywhere sets all partitions of a source.
func (t target) everywhere(ctx context.Context, v *sourceView, before semantics.Positions) (out []move, err error) {
	var times map[string]map[int32]int64
	if !t.at.IsZero() {
		if times, err = v.at(ctx, t.at); err != nil {
			return nil, err
		}
	}
	for _, topic := range v.names() {
		for _, p := range v.topics[topic].numbers() {
			l := v.topics[topic].partitions[p]
			to := l.start
			switch {
			case t.latest:
				to = l.latest
			case !t.at.IsZero():
				to = l.latest // every record is older
				if o, ok := times[topic][p]; ok {
					to = min(o, l.latest)
				}
			}
			out = append(out, v.move(before, topic, p, to))
		}
	}
	return out, nil
}

// at finds the first offset whose timestamp is that time or later; partitions without one are left out.
func (v *sourceView) at(ctx context.Context, when time.Time) (map[string]map[int32]int64, error) {
	out := map[string]map[int32]int64{}
	if len(v.topics) == 0 {
		return out, nil
	}
	found, err := listed(v.adm.ListOffsetsAfterMilli(ctx, when.UnixMilli(), v.names()...))
	if err != nil {
		return nil, err
	}
	for topic, ps := range found {
		out[topic] = map[int32]int64{}
		for p, o := range ps {
			if o.Offset >= 0 {
				out[topic][p] = o.Offset
			}
		}
	}
	return out, nil
}

// named sets what --to names. The rest of the source must have positions already: what has none would be taken for found at run
// time then, and begin at its log start instead of where start says.
func (t target) named(v *sourceView, before semantics.Positions) (out []move, err error) {
	for _, o := range t.offsets {
		l, ok := v.topics[o.topic].partitions[o.partition]
		if !ok {
			continue
		}
		if o.offset < l.start || o.offset > l.high {
			return nil, semantics.Misconfigured("reset", "--to %s/%d=%d: its log has offsets %d to %d", o.topic, o.partition, o.offset, l.start, l.high)
		}
		out = append(out, v.move(before, o.topic, o.partition, o.offset))
	}
	if len(out) == 0 {
		return nil, nil
	}
	for _, topic := range v.names() {
		for _, p := range v.topics[topic].numbers() {
			set := slices.ContainsFunc(out, func(m move) bool { return m.topic == topic && m.partition == p })
			if _, known := v.known(before, topic, p); !known && !set {
				return nil, semantics.Misconfigured("reset", "%s/%d has no position yet: name it, too", topic, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b move) int { return strings.Compare(a.key(), b.key()) })
	return out, nil
}

func (m move) key() string { return fmt.Sprintf("%s/%010d", m.topic, m.partition) }

// positions are the new positions as a barrier would bring them.
func positionsOf(moves []move) semantics.Positions {
	p := semantics.Positions{}
	for _, m := range moves {
		p.Set(semantics.SourceTopic{Source: m.source, Topic: m.topic}, m.id, m.partition, semantics.Position{Offset: m.to, LeaderEpoch: -1})
	}
	return p
}

func showMoves(w io.Writer, bridge string, moves []move, dropState bool) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SOURCE\tTOPIC\tPARTITION\tNOW\tTO\tRECORDS AT MOST")
	var again, skipped int64
	for _, m := range moves {
		now := "-"
		if m.known {
			now = strconv.FormatInt(m.from, 10)
			again += max(0, m.from-m.to)
			skipped += max(0, m.to-m.from)
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%s\n", m.source, m.topic, m.partition, now, m.to, m.effect())
	}
	_ = t.Flush() // what follows asks, and fails where nothing can be written
	_, _ = fmt.Fprintf(w, "bridge %q: at most %d records are read again, at most %d skipped", bridge, again, skipped)
	if dropState {
		_, _ = fmt.Fprint(w, "; the map state is dropped")
	}
	_, _ = fmt.Fprintln(w)
}
