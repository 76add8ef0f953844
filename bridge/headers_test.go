package bridge

import (
	"slices"

	"kafkabridge/batch"
)

// HeadersOptions are the settings of the map that these tests run: the built-in kinds are in package maps, which a test of
// this package cannot import.
type HeadersOptions struct {
	Set    map[string]string // appended
	Remove []string
}

// Maps is a registry with that map.
func Maps() Registry {
	return Registry{"headers": func(settings any) (Map, error) { return &headersMap{o: settings.(HeadersOptions)}, nil }}
}

type headersMap struct {
	o   HeadersOptions
	buf batch.HeadersBuffer
}

func (m *headersMap) Map(r *Record, emit func(*Record) error) error {
	m.buf.Reset()
	walk := r.Headers.Walk()
	for h, ok := walk.Next(); ok; h, ok = walk.Next() {
		if !slices.Contains(m.o.Remove, string(h.Key)) {
			m.buf.Add(h.Key, h.Value)
		}
	}
	for k, v := range m.o.Set {
		m.buf.Add([]byte(k), []byte(v))
	}
	r.Headers = m.buf.Headers()
	return emit(r)
}
