package configs

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"

	"kafkabridge/bridge"
)

// lowest accepted pause between two rounds of something periodic: below it is a slip of the unit, and a busy loop.
const shortestPeriod = 10 * time.Millisecond

func (d *decoder) source(g *sourceGrammar, bridgeName string) bridge.SourceOptions {
	o := bridge.SourceOptions{
		Name:          g.Name,
		TopicsRegex:   d.pattern(g.TopicsRegex),
		TopicsExclude: d.patterns(g.TopicsExclude),
		Topics:        d.topics(g.Topics),
		Start:         d.start(g.Start),
		ReadCommitted: d.word(g.IsolationLevel, "read_committed", "read_committed", "read_uncommitted") == "read_committed",
		OnGap:         bridge.Policy(d.word(g.OnGap, string(bridge.DefaultOnGap), string(bridge.Fail), string(bridge.Skip))),
		Discover:      d.duration(g.Discover, bridge.DefaultDiscover, shortestPeriod),
		FetchMaxBytes: int32(d.size(g.FetchMaxBytes, bridge.DefaultFetchMaxBytes, 1<<10, math.MaxInt32)),
	}
	if o.Group = d.filled(g.Group); o.Group == "" {
		o.Group = bridgeName
	}
	d.checkName(g.Name, g.NameRange)
	d.topicsOrRegex(g)
	o.StartOffsets = d.startOffsets(g.StartOffsets, &o)
	return o
}

func (d *decoder) checkName(name string, at hcl.Range) {
	if err := bridge.CheckName(name); err != nil {
		d.errorAt(at, "Unsuitable name", "The name %q cannot be used: %s.", name, err)
	}
}

func (d *decoder) topicsOrRegex(g *sourceGrammar) {
	switch {
	case written(g.Topics) && written(g.TopicsRegex):
		d.errorAt(g.TopicsRegex.NameRange, "Conflicting arguments", "topics and topics_regex exclude each other: use two source blocks.")
	case !written(g.Topics) && !written(g.TopicsRegex):
		d.errorAt(g.DefRange, "Missing required argument", "Either topics or topics_regex is required.")
	}
	if written(g.TopicsExclude) && !written(g.TopicsRegex) {
		d.errorAt(g.TopicsExclude.NameRange, "Conflicting arguments", "topics_exclude goes with topics_regex; from a list of topics, leave the topic out.")
	}
}

func (d *decoder) topics(a *hcl.Attribute) []string {
	list := d.someTexts(a)
	for i, t := range list {
		if err := bridge.CheckTopic(t); err != nil {
			d.bad(a, "Element %d cannot be a topic's name%s: %s.", i+1, d.notElement(a, t), err)
		} else if slices.Contains(list[:i], t) {
			d.bad(a, "Element %d is there twice%s.", i+1, d.notElement(a, t))
		}
	}
	return list
}

func (d *decoder) pattern(a *hcl.Attribute) string {
	s := d.filled(a)
	d.checkPattern(a, s)
	return s
}

func (d *decoder) patterns(a *hcl.Attribute) []string {
	list := d.texts(a)
	for _, s := range list {
		d.checkPattern(a, s)
	}
	return list
}

func (d *decoder) checkPattern(a *hcl.Attribute, s string) {
	if _, err := regexp.Compile(s); err != nil {
		why := err.Error()
		if d.notElement(a, s) == "" {
			why = "it came from env or file and is not shown"
		}
		d.bad(a, `%s is no regular expression of Go's syntax: %s. Note that a \ in a quoted string is written \\.`, a.Name, why)
	}
}

// wholeName is how topics_regex and topics_exclude are matched: against the whole name.
func wholeName(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile("^(?:" + pattern + ")$")
}

func (d *decoder) start(a *hcl.Attribute) bridge.Start {
	s, ok := d.optText(a)
	if !ok {
		return bridge.Start{At: bridge.DefaultStart}
	}
	switch s {
	case "earliest":
		return bridge.Start{At: bridge.StartEarliest}
	case "latest":
		return bridge.Start{At: bridge.StartLatest}
	case "committed":
		return bridge.Start{At: bridge.StartCommitted}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.UnixMilli() < 0 {
		d.bad(a, `start must be "earliest", "latest", "committed" or a time such as "2026-01-31T12:00:00Z" (RFC 3339)%s.%s`, d.not(a, s),
			nearest(s, []string{"earliest", "latest", "committed"}))
	}
	return bridge.Start{At: bridge.StartTime, Time: t}
}

func (d *decoder) startOffsets(a *hcl.Attribute, o *bridge.SourceOptions) map[string]int64 {
	offsets := d.numberMap(a)
	for _, key := range slices.Sorted(maps.Keys(offsets)) {
		offset := offsets[key]
		topic, _, err := bridge.SplitPartition(key)
		switch {
		case err != nil:
			d.bad(a, "The key %s cannot be used: %s.", strconv.Quote(key), err)
		case offset < 0:
			d.bad(a, "The offset of %s is negative.", strconv.Quote(key))
		case !readsTopic(o, topic):
			d.bad(a, "The key %s names a topic that this source does not read.", strconv.Quote(key))
		}
	}
	return offsets
}

// readsTopic says whether the source's list or pattern has the topic. A pattern that is no pattern matches everything:
// it is reported elsewhere.
func readsTopic(o *bridge.SourceOptions, topic string) bool {
	if o.TopicsRegex == "" {
		return slices.Contains(o.Topics, topic)
	}
	if re, err := wholeName(o.TopicsRegex); err == nil && !re.MatchString(topic) {
		return false
	}
	return !slices.ContainsFunc(o.TopicsExclude, func(pattern string) bool {
		re, err := wholeName(pattern)
		return err == nil && re.MatchString(topic)
	})
}
