// Package document is the JSON value of a record as the maps see it: an index of where each value begins and ends, made in
// one pass when somebody asks first, and nothing else. No tree is built, no string is decoded and no number is parsed before
// somebody reads it, and a value that is not read costs no memory but its entry in the index.
//
// The scanner is ours, 170 lines. Masking needs where each value begins and ends, in every member of an object and not only in
// the first of a name, and all of the text must be known to be JSON: readers that look up one path (such as gjson) take
// broken values for whole ones. jsontext, the tokenizer of the next encoding/json, gives both and needs nearly twice the time
// (0.7 µs against 0.4 for 180 bytes), on the path of every record. Strings with escapes are left to encoding/json, against
// which all of it is fuzzed.
//
// What JSON leaves open is as jq has it: of members with the same name the last counts ([Value.Walk] still yields all of
// them), and bytes that are no UTF-8, or half of a surrogate pair, inside a string read as U+FFFD.
package document

import (
	"errors"
	"fmt"
	"math"
)

// MaxDepth is how deep arrays and objects may be nested, as in encoding/json.
const MaxDepth = 10_000

// retainNodes is how much of the index is kept from record to record, in nodes of 16 bytes: one rare big value must not
// stay in memory for ever.
const retainNodes = 64 << 10

// Kind is the kind of a JSON value, its first byte; '0' for all numbers.
type Kind byte

// The kinds.
const (
	Null   Kind = 'n'
	False  Kind = 'f'
	True   Kind = 't'
	Number Kind = '0'
	String Kind = '"'
	Object Kind = '{'
	Array  Kind = '['
)

// node is one value, or the name of a member, which stands before its value. What a node contains follows it.
type node struct {
	from, to int32 // where it is in the text
	next     int32 // index of the first node that is not in it
	kind     Kind
}

// Document is one JSON text. The zero value has none: Reset it. It is used again for the next record, so that it
// allocates nothing in the long run. One goroutine owns it.
type Document struct {
	text    []byte
	nodes   []node
	open    []int32 // the arrays and objects that are not closed yet, while indexing
	err     error
	indexed bool
}

// Reset takes text for the next one; it is read when Root is called, and must not change while the document is in use.
// Values of the text before are not valid any more.
func (d *Document) Reset(text []byte) {
	d.text, d.indexed, d.err = text, false, nil
	if cap(d.nodes) > retainNodes {
		d.nodes = nil
	}
}

// Root is the whole value. Its error says at which byte the text is no JSON; it shows nothing of the text, which may be one
// that is about to be masked.
func (d *Document) Root() (Value, error) {
	if !d.indexed {
		d.indexed = true
		d.err = d.index()
	}
	if d.err != nil {
		return Value{}, d.err
	}
	return Value{d: d}, nil
}

func (d *Document) index() error {
	switch {
	case len(d.text) > math.MaxInt32:
		return fmt.Errorf("a JSON value of %d bytes is too large", len(d.text))
	case len(d.text) == 0:
		return errors.New("the value is empty, which is no JSON")
	}
	d.nodes, d.open = d.nodes[:0], d.open[:0]
	at, ok := d.values()
	switch {
	case ok:
		return nil
	case len(d.open) >= MaxDepth:
		return fmt.Errorf("the value is nested deeper than %d", MaxDepth)
	case at >= len(d.text):
		return fmt.Errorf("the value is no JSON: it ends too early, after %d bytes", len(d.text))
	}
	return fmt.Errorf("the value is no JSON: byte %d cannot stand there", at)
}
