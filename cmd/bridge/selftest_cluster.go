package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"kafkabridge/semantics"
)

// selftestCluster is a cluster as the source or the sink reaches it.
type selftestCluster struct {
	cluster
	made []string // topics
}

func (c *selftestCluster) close() {
	if c.cl != nil {
		c.cl.Close()
	}
}

// connect finds out at once whether the clusters are there.
func (s *selftest) connect(ctx context.Context) error {
	for _, c := range []*selftestCluster{s.source, s.sink} {
		c.connect(ctx, hclog.NewNullLogger())
		if c.err != nil {
			return semantics.Misconfigured("selftest", "%w", c.err)
		}
	}
	return nil
}

// makeTopics makes the three topics as a user would.
func (s *selftest) makeTopics(ctx context.Context) error {
	s.say("topics %s, %s, %s; group and transactional ids %s", s.names.Source, s.names.Sink, s.names.Ledger, s.names.Bridge)
	compact := map[string]*string{"cleanup.policy": kadm.StringPtr("compact"), "message.timestamp.type": kadm.StringPtr("LogAppendTime")}
	for _, t := range []struct {
		c          *selftestCluster
		topic      string
		partitions int32
		configs    map[string]*string
	}{{s.source, s.names.Source, selftestPartitions, nil}, {s.sink, s.names.Sink, selftestPartitions, nil}, {s.sink, s.names.Ledger, 1, compact}} {
		resp, err := kadm.NewClient(t.c.cl).CreateTopic(ctx, t.partitions, s.ReplicationFactor, t.configs, t.topic)
		var refusal *kerr.Error
		if !errors.As(err, &refusal) {
			t.c.made = append(t.c.made, t.topic) // or perhaps: an answer that was lost must not leave a topic behind
		}
		switch {
		case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
			return semantics.Misconfigured("selftest", "brokers %s: topic %s may not be created: grant Create, Delete, Describe, Read and Write on the topics that begin with %s, "+
				"or choose a permitted beginning with --prefix", strings.Join(t.c.o.Brokers, ","), t.topic, s.Prefix)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return semantics.Misconfigured("selftest", "brokers %s: topic %s cannot be created: %w %s", strings.Join(t.c.o.Brokers, ","), t.topic, err, resp.ErrMessage)
		}
	}
	return nil
}

// removeTopics takes away topics and group, also after a failure or a stop. Transactional ids expire by themselves.
func (s *selftest) removeTopics() error {
	if len(s.source.made) == 0 {
		return nil // it was the first, and refused
	}
	if s.Keep {
		s.say("kept: topics %s", strings.Join(append(s.source.made, s.sink.made...), ", "))
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	var left []string
	for _, c := range []*selftestCluster{s.source, s.sink} {
		answers, err := kadm.NewClient(c.cl).DeleteTopics(ctx, c.made...)
		for _, t := range c.made {
			if e := errors.Join(err, answers[t].Err); e != nil && !errors.Is(e, kerr.UnknownTopicOrPartition) {
				left = append(left, fmt.Sprintf("topic %s (%v)", t, e))
			}
		}
	}
	if err := s.removeGroup(ctx); err != nil {
		left = append(left, fmt.Sprintf("group %s (%v)", s.names.Bridge, err))
	}
	if len(left) > 0 {
		return fmt.Errorf("selftest: not removed: %s: remove them by hand", strings.ReplaceAll(strings.Join(left, ", "), "\n", " "))
	}
	s.say("removed topics and group")
	return nil
}

// removeGroup repeats while a killed bridge's session counts as a member.
func (s *selftest) removeGroup(ctx context.Context) error {
	for {
		_, err := kadm.NewClient(s.source.cl).DeleteGroup(ctx, s.names.Bridge)
		switch {
		case err == nil, errors.Is(err, kerr.GroupIDNotFound), errors.Is(err, kerr.GroupAuthorizationFailed): // then the bridge could not make it either
			return nil
		case !errors.Is(err, kerr.NonEmptyGroup) || sleep(ctx, pollPause) != nil:
			return err
		}
	}
}

// pollPause is from one question to the next where something is waited for.
const pollPause = 200 * time.Millisecond

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// aborted waits until the brokers have aborted what the killed bridge left behind: then nothing of the sink and of the ledger is
// held back from a read_committed reader any more.
func (s *selftest) aborted(ctx context.Context) error {
	limit := s.TransactionTimeout + time.Minute // brokers look for timed-out transactions every 10 s by default
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the brokers did not abort the transaction of the killed bridge within %s", limit))
	defer cancel()
	for {
		open, err := s.heldBack(ctx)
		if err == nil && !open {
			return nil
		}
		if sleep(ctx, pollPause) != nil {
			return fmt.Errorf("selftest: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

// heldBack says whether a transaction is open in the sink or in the ledger.
func (s *selftest) heldBack(ctx context.Context) (bool, error) {
	adm := kadm.NewClient(s.sink.cl)
	ends, err := adm.ListEndOffsets(ctx, s.names.Sink, s.names.Ledger)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return false, fmt.Errorf("ends of %s: %w", s.names.Sink, err)
	}
	stable, err := adm.ListCommittedOffsets(ctx, s.names.Sink, s.names.Ledger)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return false, fmt.Errorf("last stable offsets of %s: %w", s.names.Sink, err)
	}
	open := false
	ends.Each(func(o kadm.ListedOffset) {
		if l, ok := stable.Lookup(o.Topic, o.Partition); !ok || l.Offset < o.Offset {
			open = true
		}
	})
	return open, nil
}

func (s *selftest) configPath() string { return filepath.Join(s.dir, "bridge.hcl") }
func (s *selftest) statePath() string  { return filepath.Join(s.dir, "state") }
func (s *selftest) logPath() string    { return filepath.Join(s.dir, "bridge.log") }
