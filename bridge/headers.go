package bridge

import (
	"fmt"
	"maps"
	"slices"

	"kafkabridge/batch"
)

// HeadersOptions are the settings of the map kind "headers". Header keys are compared byte for byte and may occur
// several times in a record.
//
// Each header of the record is looked at once, in order: one whose key is in Remove is dropped; one whose key is in
// Rename keeps its place and value under the new key (names given by Rename are not looked up again, so two keys can be
// swapped). Then Set applies to what came out: the first header of that key gets the value and keeps its place, further
// ones of that key are dropped, and a key that is missing is appended. Missing keys are appended in ascending order. All
// other headers stay as they are, duplicates and null values included.
type HeadersOptions struct {
	Set    map[string]string // key → value
	Remove []string          // keys; one that is also in Rename is an error
	Rename map[string]string // old key → new key
}

// Maps are the built-in map kinds. Every call makes a new Registry, which the caller may add to.
func Maps() Registry {
	return Registry{"headers": newHeadersMap}
}

// headerEdit is what happens to an incoming header of one key.
type headerEdit struct {
	remove bool
	key    []byte // the new key, not nil when renamed
	set    int    // index into headersMap.set, -1 when Set does not name the key that comes out
}

// headersMap edits headers. It has no state from record to record but its memory.
type headersMap struct {
	edits map[string]headerEdit // by incoming key; keys that are not in it are untouched
	set   []batch.RecordHeader  // in ascending order of keys
	all   batch.Headers         // set, encoded: most records have none of its keys
	done  []bool                // per set: a header of the record has got it
	buf   batch.HeadersBuffer
}

func newHeadersMap(settings any) (Map, error) {
	o, ok := settings.(HeadersOptions)
	if !ok {
		return nil, fmt.Errorf("settings are %T, not HeadersOptions", settings)
	}
	m := &headersMap{edits: map[string]headerEdit{}, done: make([]bool, len(o.Set))}
	index := map[string]int{}
	var all batch.HeadersBuffer
	for i, key := range slices.Sorted(maps.Keys(o.Set)) {
		h := batch.RecordHeader{Key: []byte(key), Value: []byte(o.Set[key])}
		m.set = append(m.set, h)
		all.Add(h.Key, h.Value)
		index[key] = i
		m.edits[key] = headerEdit{set: i}
	}
	m.all = all.Headers()
	for from, to := range o.Rename {
		i, ok := index[to]
		if !ok {
			i = -1
		}
		m.edits[from] = headerEdit{key: []byte(to), set: i}
	}
	for _, key := range o.Remove {
		if _, ok := o.Rename[key]; ok {
			return nil, fmt.Errorf("header %q is in both remove and rename", key)
		}
		m.edits[key] = headerEdit{remove: true}
	}
	return m, nil
}

// Map implements Map.
func (m *headersMap) Map(r *Record, emit func(*Record) error) error {
	m.buf.Reset()
	clear(m.done)
	missing := len(m.set)
	walk := r.Headers.Walk()
	for h, ok := walk.Next(); ok; h, ok = walk.Next() {
		edit, ok := m.edits[string(h.Key)]
		switch {
		case !ok:
			m.buf.Add(h.Key, h.Value)
		case edit.remove || edit.set >= 0 && m.done[edit.set]:
		case edit.set >= 0:
			m.buf.Add(m.set[edit.set].Key, m.set[edit.set].Value)
			m.done[edit.set] = true
			missing--
		default:
			m.buf.Add(edit.key, h.Value)
		}
	}
	switch missing {
	case 0:
	case len(m.set):
		m.buf.AddAll(m.all)
	default:
		for i, h := range m.set {
			if !m.done[i] {
				m.buf.Add(h.Key, h.Value)
			}
		}
	}
	r.Headers = m.buf.Headers()
	return emit(r)
}
