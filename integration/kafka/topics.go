package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// CreateTopic creates a topic with the cluster's default replication and waits until every partition has a
// leader. configs may be nil.
func (c *Cluster) CreateTopic(ctx context.Context, topic string, partitions int32, configs map[string]string) error {
	values := make(map[string]*string, len(configs))
	for k, v := range configs {
		values[k] = &v
	}
	// The client repeats a request whose answer was late, and then the topic is there: names are a test's own.
	if _, err := c.admin.CreateTopic(ctx, partitions, -1, values, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("kafka: create topic %s: %w", topic, err)
	}
	return c.waitLeaders(ctx, topic, partitions)
}

// AddPartitions grows a topic to a total number of partitions and waits until all have a leader.
func (c *Cluster) AddPartitions(ctx context.Context, topic string, total int32) error {
	resp, err := c.admin.UpdatePartitions(ctx, int(total), topic)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("kafka: grow topic %s to %d partitions: %w", topic, total, err)
	}
	return c.waitLeaders(ctx, topic, total)
}

// DeleteTopic deletes a topic.
func (c *Cluster) DeleteTopic(ctx context.Context, topic string) error {
	if _, err := c.admin.DeleteTopic(ctx, topic); err != nil {
		return fmt.Errorf("kafka: delete topic %s: %w", topic, err)
	}
	return nil
}

func (c *Cluster) waitLeaders(ctx context.Context, topic string, partitions int32) error {
	return Poll(ctx, fmt.Sprintf("topic %s has %d led partitions", topic, partitions), func() (bool, error) {
		ends, err := c.admin.ListEndOffsets(ctx, topic)
		if err != nil || ends.Error() != nil {
			return false, nil //nolint:nilerr // not there yet: the poll's deadline decides
		}
		return int32(len(ends[topic])) == partitions, nil
	})
}
