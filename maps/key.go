package maps

import (
	"kafkabridge/bridge"
	"kafkabridge/maps/expr"
)

// KeyOptions are the settings of the map kind "key".
type KeyOptions struct {
	From string // CEL that gives the new key: text, bytes, or null for no key
}

type key struct {
	from *expr.Program
	in   expr.Input
}

func newKey(c *compiler, o KeyOptions) (*key, error) {
	from, err := c.expr("from", o.From, expr.Bytes)
	if err != nil {
		return nil, err
	}
	return &key{from: from}, nil
}

// Map implements bridge.Map.
func (m *key) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	k, err := m.from.Bytes(&m.in, r)
	if err != nil {
		return err
	}
	r.Key = k
	return emit(r)
}
