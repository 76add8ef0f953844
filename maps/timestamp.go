package maps

import (
	"fmt"

	"kafkabridge/bridge"
	"kafkabridge/maps/expr"
)

// TimestampOptions are the settings of the map kind "timestamp".
type TimestampOptions struct {
	From string // CEL that gives the new timestamp: a timestamp, cut to milliseconds, or Unix milliseconds as int
}

type timestamp struct {
	from *expr.Program
	in   expr.Input
}

func newTimestamp(c *compiler, o TimestampOptions) (*timestamp, error) {
	from, err := c.expr("from", o.From, expr.Time)
	if err != nil {
		return nil, err
	}
	return &timestamp{from: from}, nil
}

// Map implements bridge.Map.
func (m *timestamp) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	t, err := m.from.Time(&m.in, r)
	if err != nil {
		return err
	}
	if t < 0 { // brokers refuse it, with the whole batch
		return fmt.Errorf("the timestamp %d is before 1970", t)
	}
	r.Timestamp = t
	return emit(r)
}
