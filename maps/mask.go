package maps

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"kafkabridge/bridge"
	"kafkabridge/maps/document"
)

// MaskWith is what a masked value is replaced with.
type MaskWith string

// The ways of masking. The hashes are over what a string says, in UTF-8, or over the text of another value as it was written,
// and come out as 64 hexadecimal digits. A plain SHA-256 of something that can be guessed, such as a telephone number, can be
// found by trying: use the HMAC for it.
const (
	Redact MaskWith = "redact"      // "***"
	SHA256 MaskWith = "sha256"      // the SHA-256
	HMAC   MaskWith = "hmac-sha256" // the HMAC-SHA-256 with Secret
)

// MaskWays are all ways of masking.
func MaskWays() []string { return []string{string(Redact), string(SHA256), string(HMAC)} }

// MaskOptions are the settings of the map kind "mask".
//
// Paths are names of members separated by dots, with [n] for an element and [] for all of them: user.email, items[].card,
// [0].name. A name with special characters stands in quotes: 'a.b'.c. Names are compared as what they say, not as they are
// escaped, byte for byte; capitals differ. When a name is there more than once, all of them are masked.
//
// Whatever is at a path becomes a string: strings, numbers, true, false, whole arrays and objects. A null stays null, and a
// path that is not there changes nothing. All other bytes of the value stay as they were. A null value (tombstone) goes on as it is; a
// value that is no JSON is an error, because nobody can say what is in it.
type MaskOptions struct {
	Paths  []string
	With   MaskWith
	Secret Secret // of HMAC, and only of it
}

// Secret is a text that no error and no log shows.
type Secret string

// String hides it.
func (Secret) String() string { return "(secret)" }

// GoString hides it.
func (Secret) GoString() string { return "(secret)" }

// MarshalText hides it.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Validate says what is wrong with the options.
func (o MaskOptions) Validate() error {
	switch {
	case len(o.Paths) == 0:
		return errors.New("paths: at least one is needed")
	case o.With != Redact && o.With != SHA256 && o.With != HMAC:
		return fmt.Errorf("with: unknown %q", string(o.With))
	case o.With == HMAC && o.Secret == "":
		return errors.New("secret: hmac-sha256 needs one")
	case o.With != HMAC && o.Secret != "":
		return errors.New("secret: only hmac-sha256 takes one")
	}
	for _, path := range o.Paths {
		if err := CheckPath(path); err != nil {
			return fmt.Errorf("path %q: %w", path, err)
		}
	}
	return nil
}

// mask replaces parts of JSON values.
type mask struct {
	paths [][]step
	hash  hash.Hash // nil: redact
	doc   document.Document
	spans []span
	alive []progress
	out   []byte
}

// span is a value to be replaced.
type span struct {
	value    document.Value
	from, to int
}

// progress is a path and how many of its steps have been gone.
type progress struct{ path, step int }

func newMask(_ *compiler, o MaskOptions) (*mask, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m := &mask{}
	switch o.With {
	case Redact:
	case SHA256:
		m.hash = sha256.New()
	case HMAC:
		m.hash = hmac.New(sha256.New, []byte(o.Secret))
	}
	for _, path := range o.Paths {
		steps, err := parsePath(path)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
		m.paths = append(m.paths, steps)
	}
	return m, nil
}

// Map implements bridge.Map.
func (m *mask) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	if r.Value == nil {
		return emit(r)
	}
	root, err := document.Of(r, &m.doc)
	if err != nil {
		return err
	}
	m.spans, m.alive = m.spans[:0], m.alive[:0]
	for i := range m.paths {
		m.alive = append(m.alive, progress{path: i})
	}
	m.find(root, m.alive)
	if len(m.spans) == 0 {
		return emit(r)
	}
	r.Value, r.Parsed = m.replace(r.Value), nil
	return emit(r)
}

// find notes all values below v to which a path leads; paths are those that have led to v. It goes no deeper than the paths do.
func (m *mask) find(v document.Value, paths []progress) {
	index := 0
	for w := v.Walk(); w.Next(); index++ {
		first := len(m.alive)
		reached := false
		for _, p := range paths {
			steps := m.paths[p.path]
			if s := steps[p.step]; !leads(s, v, &w, index) {
				continue
			}
			reached = reached || p.step+1 == len(steps)
			m.alive = append(m.alive, progress{p.path, p.step + 1})
		}
		switch child := w.Value(); {
		case reached && child.Kind() != document.Null:
			from, to := child.Span()
			m.spans = append(m.spans, span{child, from, to})
		case !reached && len(m.alive) > first:
			m.find(child, m.alive[first:])
		}
		m.alive = m.alive[:first]
	}
}

func leads(s step, v document.Value, w *document.Walk, index int) bool {
	if s.element {
		return v.Kind() == document.Array && (s.index == allElements || s.index == index)
	}
	return v.Kind() == document.Object && w.Named(s.name)
}

// replace is the value with the spans replaced, in the map's own memory, which the next record is written to.
func (m *mask) replace(value []byte) []byte {
	m.out = m.out[:0]
	at := 0
	for _, s := range m.spans {
		m.out = append(m.out, value[at:s.from]...)
		m.out = m.append(m.out, s.value)
		at = s.to
	}
	return append(m.out, value[at:]...)
}

func (m *mask) append(out []byte, v document.Value) []byte {
	if m.hash == nil {
		return append(out, `"***"`...)
	}
	m.hash.Reset()
	if v.Kind() == document.String {
		m.hash.Write([]byte(v.Text()))
	} else {
		m.hash.Write(v.Raw())
	}
	var sum [sha256.Size]byte
	out = append(out, '"')
	out = hex.AppendEncode(out, m.hash.Sum(sum[:0]))
	return append(out, '"')
}
