package oracle

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"kafkabridge/integration/kafka"
)

// NothingOpen waits until the last stable offset of every partition of the topics has reached the high
// watermark: until no transaction is open or has its markers still to be written. It fails with the partitions
// that hang when that does not come before ctx or kafka.PollTimeout ends.
func NothingOpen(ctx context.Context, admin *kadm.Client, topics ...string) error {
	var hanging string
	err := kafka.Poll(ctx, "no transaction is open", func() (bool, error) {
		hanging = ""
		// The high watermark first: asked for second it could have grown past a stable offset that was level.
		ends, err := admin.ListEndOffsets(ctx, topics...)
		if err != nil {
			return false, fmt.Errorf("high watermarks: %w", err)
		}
		stable, err := admin.ListCommittedOffsets(ctx, topics...)
		if err != nil {
			return false, fmt.Errorf("last stable offsets: %w", err)
		}
		if err := ends.Error(); kerr.IsRetriable(err) {
			hanging = fmt.Sprintf(" high watermarks: %v", err) // a leader that has just been elected: OFFSET_NOT_AVAILABLE
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("high watermarks: %w", err)
		}
		ends.Each(func(o kadm.ListedOffset) {
			s, _ := stable.Lookup(o.Topic, o.Partition)
			if s.Err != nil || s.Offset < o.Offset {
				hanging += fmt.Sprintf(" %s/%d: stable %d of %d;", o.Topic, o.Partition, s.Offset, o.Offset)
			}
		})
		return hanging == "", nil
	})
	if err != nil {
		return fmt.Errorf("%w:%s", err, hanging)
	}
	return nil
}
