package main

import (
	"context"
	"fmt"
)

// run compares one pair, or one mixture, after the other.
func (c *comparing) run(ctx context.Context) (verification, error) {
	v := verification{Bridge: c.r.b.Options.Name, Compared: c.parts.String(), Ordered: len(c.mixtures) == 0, Parts: []comparison{}}
	if !v.Ordered {
		v.Note = "several source partitions flow together: whole sink topics are compared, without order, and what was changed counts as lost and foreign"
	}
	for _, p := range c.pairs {
		report, err := c.pairUp(ctx, p)
		if err != nil {
			return v, fmt.Errorf("bridge %q: %w", v.Bridge, err)
		}
		v.Parts = append(v.Parts, report)
	}
	for _, m := range c.mixtures {
		report, err := c.mixUp(ctx, m)
		if err != nil {
			return v, fmt.Errorf("bridge %q: %w", v.Bridge, err)
		}
		v.Parts = append(v.Parts, report)
	}
	return v, nil
}

// pairUp compares two partitions in order.
func (c *comparing) pairUp(ctx context.Context, p pair) (comparison, error) {
	report := comparison{Sink: p.out.String()}
	if p.in.topic != "" {
		report.Source = p.in.String()
	}
	if err := c.align(ctx, &p, &report); err != nil {
		return report, err
	}
	in, err := c.open(p.in)
	if err != nil {
		return report, err
	}
	defer in.close()
	out, err := c.open(p.out)
	if err != nil {
		return report, err
	}
	defer out.close()
	o := newOrdered(newAhead(func() (item, bool, error) { return in.read(ctx) }, &report.In),
		newAhead(func() (item, bool, error) { return out.read(ctx) }, &report.Out), &report)
	o.examples, o.source, o.sink, o.decided = c.examples, report.Source, report.Sink, p.decided
	return report, o.run()
}

// align finds where both sides begin alike, when retention has deleted the begin of one, or the source block began later than its
// log. Where nothing is alike they are compared as they are.
func (c *comparing) align(ctx context.Context, p *pair, report *comparison) error {
	later := p.in.topic != "" && beginsLater(p.source)
	if p.in.topic == "" || !later && p.in.start == 0 && p.out.start == 0 {
		return nil
	}
	first, ok, err := c.first(ctx, p.out)
	if err != nil {
		return err
	}
	if !ok { // nothing is in the sink: what is before the positions was left out, or is gone on the sink's side
		if later || p.out.start > 0 {
			p.in.start = max(p.in.start, p.decided)
		}
		return nil
	}
	if later || p.out.start > 0 {
		if at, passed, err := c.find(ctx, p.in, first); err != nil || at >= 0 {
			p.in.start = max(p.in.start, at)
			report.Skipped += passed
			return err
		}
	}
	if p.in.start == 0 {
		return nil
	}
	if first, ok, err = c.first(ctx, p.in); err != nil || !ok {
		return err
	}
	at, passed, err := c.find(ctx, p.out, first)
	if err == nil && at >= 0 {
		p.out.start = at
		report.Skipped += passed
	}
	return err
}

// first is the fingerprint of a log's first record.
func (c *comparing) first(ctx context.Context, e extent) (fingerprint, bool, error) {
	l, err := c.open(e)
	if err != nil {
		return fingerprint{}, false, err
	}
	defer l.close()
	it, ok, err := l.read(ctx)
	return it.print, ok, err
}

// find is the offset of the first record with that fingerprint, -1 when there is none, and how many come before it.
func (c *comparing) find(ctx context.Context, e extent, p fingerprint) (at, passed int64, err error) {
	l, err := c.open(e)
	if err != nil {
		return -1, 0, err
	}
	defer l.close()
	for {
		it, ok, err := l.read(ctx)
		switch {
		case err != nil || !ok:
			return -1, 0, err
		case it.print == p:
			return it.offset, passed, nil
		}
		passed++
	}
}
