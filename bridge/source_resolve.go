package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kafkabridge/semantics"
)

// resolve finds the topics and partitions that are matched now and says where each is to be read from; it is called
// before the claim. A partition in known (positions of all sources, as ledger or checkpoint hold them) keeps its
// position if the source still has it. Any other one begins at start_offsets or start with atStart, else at its log
// start: found at run time, nothing of it may be left out. Found at run time it is also with atStart, when known has
// other partitions of its topic, or other topics of a source with a regex: an earlier run may have begun to read it and
// ended before its position was stored, and start = "latest" would then leave records out.
//
// A position that the source no longer has is a gap: with on_gap = "fail" an error with exit code 3, with "skip" it is
// returned and the position moved: to the log start after retention, to the log's end after a truncation, to the log
// start of the new topic after a recreation. A listed topic that does not exist is an error of class Retry.
func (s *source) resolve(ctx context.Context, known semantics.Positions, atStart bool) (semantics.Positions, []Gap, error) {
	if s.matchErr != nil {
		return nil, nil, s.matchErr
	}
	found, err := s.lookup(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.missingTopics(found); err != nil {
		return nil, nil, err
	}
	if err := s.confirmRecreated(ctx, known, found); err != nil {
		return nil, nil, err
	}
	r := resolution{s: s, found: found, known: known, pos: semantics.Positions{}}
	for t, info := range found {
		for p := range info.partitions {
			r.keys = append(r.keys, topicPartition{t, p})
		}
	}
	if err := r.list(ctx); err != nil {
		return nil, nil, s.classify("resolve positions", err)
	}
	if err := r.checkKnown(); err != nil {
		return nil, nil, err
	}
	if err := r.placeUnknown(ctx, atStart); err != nil {
		return nil, nil, s.classify("resolve positions", err)
	}
	return r.pos, r.gaps, nil
}

// missingTopics names the listed topics that do not exist: reading nothing silently would look like an idle source.
func (s *source) missingTopics(found map[string]topicInfo) error {
	var missing []string
	for _, t := range s.o.Topics {
		if _, ok := found[t]; !ok && s.match == nil {
			missing = append(missing, t)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return s.classify("resolve positions", fmt.Errorf("waiting for topics that do not exist: %s", strings.Join(missing, ", ")))
}

// confirmRecreated asks once more when a topic's id is not the known one: a broker that lags behind may answer with the
// id of an earlier topic, and refusing (or skipping) for that would be wrong.
func (s *source) confirmRecreated(ctx context.Context, known semantics.Positions, found map[string]topicInfo) error {
	differs := func(t string, info topicInfo) bool {
		return recreated(known[semantics.SourceTopic{Source: s.o.Name, Topic: t}].ID, info.id)
	}
	for t, info := range found {
		if !differs(t, info) {
			continue
		}
		again, err := s.lookup(ctx)
		if err != nil {
			return err
		}
		if again[t].id != info.id {
			return s.classify("resolve positions", fmt.Errorf("topic %s: brokers tell different topic ids (%s, %s)", t, info.id, again[t].id))
		}
	}
	return nil
}

// recreated says whether two ids are of different topics; a broker before Kafka 2.8 has none.
func recreated(known, now semantics.TopicID) bool {
	return known != now && known != (semantics.TopicID{}) && now != (semantics.TopicID{})
}

// resolution is one call of resolve under way.
type resolution struct {
	s          *source
	found      map[string]topicInfo
	known      semantics.Positions
	keys       []topicPartition
	start, end map[topicPartition]listed // log starts and high watermarks
	pos        semantics.Positions
	gaps       []Gap
	unknown    []topicPartition
}

func (r *resolution) topic(t string) semantics.SourceTopic {
	return semantics.SourceTopic{Source: r.s.o.Name, Topic: t}
}

func (r *resolution) set(k topicPartition, at semantics.Position) {
	r.pos.Set(r.topic(k.topic), r.found[k.topic].id, k.partition, at)
}

func (r *resolution) list(ctx context.Context) (err error) {
	slices.SortFunc(r.keys, compareTopicPartitions) // so that the same partition is named in every attempt's message
	epochs := map[topicPartition]int32{}
	for _, k := range r.keys {
		at, ok := r.known.Get(r.topic(k.topic), k.partition)
		if ok && r.known[r.topic(k.topic)].ID == r.found[k.topic].id {
			epochs[k] = leaderSince(r.found[k.topic], k.partition, at)
		}
	}
	if r.start, err = r.s.listOffsetsSince(ctx, r.keys, epochs, listEarliest, false); err != nil {
		return err
	}
	r.end, err = r.s.listOffsetsSince(ctx, r.keys, epochs, listLatest, false)
	return err
}

func compareTopicPartitions(a, b topicPartition) int {
	if c := strings.Compare(a.topic, b.topic); c != 0 {
		return c
	}
	return int(a.partition) - int(b.partition)
}

// checkKnown keeps or moves the known positions and collects the partitions without one.
func (r *resolution) checkKnown() error {
	for _, k := range r.keys {
		at, ok := r.known.Get(r.topic(k.topic), k.partition)
		switch {
		case !ok:
			r.unknown = append(r.unknown, k)
		case recreated(r.known[r.topic(k.topic)].ID, r.found[k.topic].id):
			// checkRecreated counts the gaps, also of partitions that the new topic does not have
			r.unknown = append(r.unknown, k)
		default:
			if err := r.check(k, at); err != nil {
				return err
			}
		}
	}
	return r.checkRecreated()
}

// check keeps the position of k if the log still has it.
func (r *resolution) check(k topicPartition, at semantics.Position) error {
	start, end := r.start[k], r.end[k]
	if start.err != nil || end.err != nil {
		// Nothing was found wrong, and the fetch will notice what is: one partition without a leader does not keep
		// the others from being read.
		r.s.log.Warn("cannot check a position now", "topic", k.topic, "partition", k.partition, "offset", at.Offset, "error", cmpErr(start.err, end.err))
		r.set(k, at)
		return nil //nolint:nilerr // see above
	}
	gap, resume := outOfRange(r.s.o.Name, k, at.Offset, start.offset, end.offset)
	if gap == nil {
		r.set(k, at)
		return nil
	}
	if err := r.s.gap(*gap, resume); err != nil {
		return err
	}
	r.gaps = append(r.gaps, *gap)
	r.set(k, semantics.Position{Offset: resume, LeaderEpoch: -1})
	return nil
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// outOfRange tells the gap of a position that the log does not have, and where to go on behind it; nil if it has it.
func outOfRange(source string, k topicPartition, at, start, end int64) (gap *Gap, resume int64) {
	switch {
	case at < start:
		return &Gap{Source: source, Topic: k.topic, Partition: k.partition, From: at, To: start, Reason: gapRetention}, start
	case at > end:
		return &Gap{Source: source, Topic: k.topic, Partition: k.partition, From: end, To: at, Reason: gapTruncated}, end
	default:
		return nil, 0
	}
}

// checkRecreated tells a gap for each known partition of a topic that was made anew. Its partitions are then unknown ones,
// which must begin at the log start: they came into being while the bridge was on.
func (r *resolution) checkRecreated() error {
	for _, t := range slices.Sorted(maps.Keys(r.found)) {
		old := r.known[r.topic(t)]
		if !recreated(old.ID, r.found[t].id) {
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(old.Partitions)) {
			g := Gap{Source: r.s.o.Name, Topic: t, Partition: p, From: old.Partitions[p].Offset, To: -1, Reason: gapRecreated}
			if err := r.s.gap(g, max(r.start[topicPartition{t, p}].offset, 0)); err != nil {
				return err
			}
			r.gaps = append(r.gaps, g)
		}
	}
	return nil
}

// foundAtRunTime says whether a partition of topic without a position came into being while the bridge was on.
func (r *resolution) foundAtRunTime(topic string) bool {
	for st := range r.known {
		if st.Source == r.s.o.Name && (st.Topic == topic || r.s.match != nil) {
			return true
		}
	}
	return false
}

// placeUnknown gives the partitions without a position their first one.
func (r *resolution) placeUnknown(ctx context.Context, atStart bool) error {
	places := placement{s: r.s}
	for _, k := range r.unknown {
		start, end := r.start[k], r.end[k]
		if start.err != nil || end.err != nil {
			if atStart {
				return fmt.Errorf("%s: %w", k, cmpErr(start.err, end.err))
			}
			continue // discovery begins it at its log start as soon as it has a leader
		}
		at := semantics.Position{Offset: start.offset, LeaderEpoch: -1}
		if atStart && !r.foundAtRunTime(k.topic) {
			var err error
			if at, err = places.place(ctx, k, r.unknown, start.offset); err != nil {
				return err
			}
		}
		// What start names can be out of range too: a committed offset that retention has passed, start_offsets of a shorter log.
		if err := r.check(k, at); err != nil {
			return err
		}
	}
	return nil
}
