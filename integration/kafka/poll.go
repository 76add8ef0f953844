package kafka

import (
	"context"
	"fmt"
	"time"
)

// PollTimeout bounds a Poll whose context has no earlier deadline.
const PollTimeout = 60 * time.Second

// Poll asks ok until it says true, fails, or the context or PollTimeout ends; what names the condition in
// the error.
func Poll(ctx context.Context, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, PollTimeout)
	defer cancel()
	for {
		done, err := ok()
		if err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if done {
			return nil
		}
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		}
	}
}
