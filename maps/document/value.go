package document

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Value is one value of a document, valid until the document is Reset.
type Value struct {
	d *Document
	i int32
}

// Kind is the value's kind.
func (v Value) Kind() Kind { return v.d.nodes[v.i].kind }

// Span is where the value is in the text: text[from:to].
func (v Value) Span() (from, to int) {
	n := v.d.nodes[v.i]
	return int(n.from), int(n.to)
}

// Raw is the value as it was written, a view of the text.
func (v Value) Raw() []byte {
	n := v.d.nodes[v.i]
	return v.d.text[n.from:n.to:n.to]
}

// Text is what a string says. It is a view of the text where that is written without escapes: clone what must live longer.
func (v Value) Text() string { return unquoted(v.Raw()) }

func unquoted(raw []byte) string {
	if inner := raw[1 : len(raw)-1]; plain(inner) {
		return unsafe.String(unsafe.SliceData(inner), len(inner))
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil { // the scanner has accepted it: both have the same grammar
		return string(raw)
	}
	return s
}

// plain says whether a string means its own bytes.
func plain(inner []byte) bool {
	ascii := byte(0)
	for _, c := range inner {
		if c == '\\' {
			return false
		}
		ascii |= c
	}
	return ascii < 0x80 || utf8.Valid(inner)
}

// Len is the number of elements or members, those with a name that comes again later included.
func (v Value) Len() int {
	n := 0
	for w := v.Walk(); w.Next(); {
		n++
	}
	return n
}

// Get is the last member of an object with that name.
func (v Value) Get(name string) (found Value, ok bool) {
	if v.Kind() != Object {
		return Value{}, false
	}
	for w := v.Walk(); w.Next(); {
		if w.Named(name) {
			found, ok = w.Value(), true
		}
	}
	return found, ok
}

// Walk goes through the elements of an array, or the members of an object in the order of the text.
func (v Value) Walk() Walk {
	n := v.d.nodes[v.i]
	w := Walk{d: v.d, next: v.i + 1, end: n.next, named: n.kind == Object}
	if n.kind != Object && n.kind != Array {
		w.end = w.next
	}
	return w
}

// Walk is a walk through an array or object.
type Walk struct {
	d         *Document
	at        int32 // of the value
	next, end int32
	named     bool
}

// Next goes on to the next element or member and says whether there is one.
func (w *Walk) Next() bool {
	if w.next >= w.end {
		return false
	}
	w.at = w.next
	if w.named {
		w.at++
	}
	w.next = w.d.nodes[w.at].next
	return true
}

// Value is the element, or the member's value.
func (w *Walk) Value() Value { return Value{d: w.d, i: w.at} }

// Name is the member's name; like [Value.Text].
func (w *Walk) Name() string { return unquoted(w.raw()) }

// Named says whether the member has that name, however it is escaped.
func (w *Walk) Named(name string) bool {
	raw := w.raw()
	if len(raw)-2 == len(name) && strings.IndexByte(name, '\\') < 0 && string(raw[1:len(raw)-1]) == name {
		return true // without an escape that is what it says
	}
	return !plain(raw[1:len(raw)-1]) && unquoted(raw) == name
}

func (w *Walk) raw() []byte {
	n := w.d.nodes[w.at-1]
	return w.d.text[n.from:n.to]
}

// String describes the value without showing it.
func (v Value) String() string { return fmt.Sprintf("JSON value of %d bytes", len(v.Raw())) }
