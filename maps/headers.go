package maps

import (
	"fmt"
	"maps"
	"slices"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/maps/expr"
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
	// SetExpr is key → CEL that gives text, bytes, or null for a header whose value is null. It is set as Set does; a key is in
	// one of both. The expressions see the record as it came to this map.
	SetExpr map[string]string
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

	exprs   []*expr.Program // per set: where its value comes from; nil: it is fixed
	dynamic bool            // not all of exprs are nil
	in      expr.Input
	allBuf  batch.HeadersBuffer // of all
}

func newHeaders(c *compiler, o HeadersOptions) (*headersMap, error) {
	m := &headersMap{edits: map[string]headerEdit{}}
	index := map[string]int{}
	keys := slices.Sorted(maps.Keys(o.Set))
	for key := range o.SetExpr {
		if _, ok := o.Set[key]; ok {
			return nil, fmt.Errorf("header %q is in both set and set_expr", key)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, key := range keys {
		h := batch.RecordHeader{Key: []byte(key), Value: []byte(o.Set[key])}
		m.set = append(m.set, h)
		m.exprs = append(m.exprs, nil)
		if text, ok := o.SetExpr[key]; ok {
			p, err := c.expr(fmt.Sprintf("set_expr of %q", key), text, expr.Bytes)
			if err != nil {
				return nil, err
			}
			m.exprs[i], m.dynamic = p, true
		}
		index[key] = i
		m.edits[key] = headerEdit{set: i}
	}
	m.done = make([]bool, len(m.set))
	m.encode()
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

// encode makes all of set.
func (m *headersMap) encode() {
	m.allBuf.Reset()
	for _, h := range m.set {
		m.allBuf.Add(h.Key, h.Value)
	}
	m.all = m.allBuf.Headers()
}

// evaluate gives the headers of SetExpr the record's values. Each is copied: it lives no longer than until the next one is evaluated.
func (m *headersMap) evaluate(r *bridge.Record) error {
	for i, p := range m.exprs {
		if p == nil {
			continue
		}
		v, err := p.Bytes(&m.in, r)
		if err != nil {
			return fmt.Errorf("set_expr of %q: %w", m.set[i].Key, err)
		}
		if v == nil {
			m.set[i].Value = nil
			continue
		}
		m.set[i].Value = append(m.set[i].Value[:0], v...)
		if m.set[i].Value == nil {
			m.set[i].Value = []byte{}
		}
	}
	m.encode()
	return nil
}

// Map implements bridge.Map.
func (m *headersMap) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	if m.dynamic {
		if err := m.evaluate(r); err != nil {
			return err
		}
	}
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
