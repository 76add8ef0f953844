package jq

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"

	"github.com/itchyny/gojq"
)

// Bounds of one value. Steps do not bound them: one instruction of gojq copies a text two thousand million times, makes an array
// of 8 GiB for one element, or writes out a small value that holds itself twice, forty times over. A record whose numbers a
// program uses for that would end the process, which nothing in Go can catch, and again after every restart.
const (
	maxBytes    = 64 << 20 // of a text
	maxElements = 4 << 20  // of an array or object
	maxPosition = 8 << 20  // of an element; MaxSteps allows no array to be so long
	maxBits     = 1 << 20  // of a whole number
	maxDepth    = 10_000   // of arrays and objects in each other, as in records
)

// prelude stands before every program: what can make large values at once comes with a bound. The functions with _ are those
// of bounds, and what a name means before it is defined anew. The operators + and * become calls of _add and _multiply
// ([rewrite]), which gojq itself calls for += and *=.
const prelude = `
def _add(l; r): l + r;
def _multiply(l; r): _product(l; r) | .[0] * .[1];
def _add0: add;                 def add: _addable | _add0;
def add(f): [f] | add;
def _join(s): join(s);          def join(s): s as $s | _joinable($s) | _join($s);
def _transpose: transpose;      def transpose: _transposable | _transpose;
def _tojson: tojson;            def tojson: _writable | _tojson;
def _tostring: tostring;        def tostring: _writable | _tostring;
def _flatten: flatten;          def flatten: _writable | _flatten;
def _flatten(n): flatten(n);    def flatten(n): n as $n | _writable | _flatten($n);
def _setpath(p; v): setpath(p; v);  def setpath(p; v): _setpath(p | _path; v);
def _getpath(p): getpath(p);    def getpath(p): _getpath(p | _path);
def _fromstream(f): fromstream(f);  def fromstream(f): _fromstream(f | _event);
.`

// bounds are the functions of the prelude.
func bounds() []gojq.CompilerOption {
	same := func(name string, check func(v any) error) gojq.CompilerOption {
		return gojq.WithFunction(name, 0, 0, func(v any, _ []any) any {
			if err := check(v); err != nil {
				return err
			}
			return v
		})
	}
	return []gojq.CompilerOption{
		same("_bounded", sized), same("_addable", addable), same("_transposable", transposable), same("_writable", writable),
		same("_position", reachable), same("_path", positions), same("_event", event),
		gojq.WithFunction("_joinable", 1, 1, func(v any, args []any) any {
			if err := joinable(v, args[0]); err != nil {
				return err
			}
			return v
		}),
		gojq.WithFunction("_product", 2, 2, func(_ any, args []any) any {
			if err := product(args[0], args[1]); err != nil {
				return err
			}
			return []any{args[0], args[1]}
		}),
	}
}

// guard rewrites a program and puts the prelude before it.
func guard(query *gojq.Query) error {
	defs, err := gojq.Parse(prelude)
	if err != nil {
		return fmt.Errorf("parse the prelude: %w", err)
	}
	for _, def := range defs.FuncDefs {
		if def.Name != "_multiply" { // it is what * becomes
			rewrite(reflect.ValueOf(def))
		}
	}
	rewrite(reflect.ValueOf(query))
	query.FuncDefs = append(defs.FuncDefs, query.FuncDefs...)
	return nil
}

// rewrite puts the bounds into a part of the syntax tree.
func rewrite(v reflect.Value) {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer && !v.IsNil():
		rewrite(v.Elem())
		switch node := v.Interface().(type) {
		case *gojq.Query:
			operator(node)
		case *gojq.Index:
			node.Start = checked(node.Start, "_position")
		}
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				rewrite(v.Field(i))
			}
		}
	case kind == reflect.Slice:
		for i := range v.Len() {
			rewrite(v.Index(i))
		}
	}
}

// operator bounds sums, texts with values in them, which are sums as well, and products.
func operator(q *gojq.Query) {
	text := q.Term != nil && q.Term.Str != nil && q.Term.Str.Queries != nil
	switch {
	case q.Op == gojq.OpAdd || text:
		q.Left, q.Op, q.Right = &gojq.Query{Term: q.Term, Left: q.Left, Op: q.Op, Right: q.Right}, gojq.OpPipe, call("_bounded")
		q.Term = nil
	case q.Op == gojq.OpMul:
		q.Term = call("_multiply", q.Left, q.Right).Term
		q.Left, q.Op, q.Right = nil, 0, nil
	}
}

func call(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

// checked is q with a check of what it gives; short literals need none.
func checked(q *gojq.Query, name string) *gojq.Query {
	if q == nil || q.Term != nil && len(q.Term.SuffixList) == 0 && (q.Term.Str != nil || q.Term.Number != "" && len(q.Term.Number) < 7) {
		return q
	}
	return &gojq.Query{Left: q, Op: gojq.OpPipe, Right: call(name)}
}

var errTooMuch = errors.New("the program makes a value that is too large here")

// sized checks the value itself, not what is in it.
func sized(v any) error {
	switch v := v.(type) {
	case string:
		if len(v) > maxBytes {
			return fmt.Errorf("%w: a text of more than %d bytes", errTooMuch, maxBytes)
		}
	case []any:
		return elements(len(v))
	case map[string]any:
		return elements(len(v))
	case *big.Int:
		if v.BitLen() > maxBits {
			return fmt.Errorf("%w: a number of more than %d bits", errTooMuch, maxBits)
		}
	}
	return nil
}

func elements(n int) error {
	if n > maxElements {
		return fmt.Errorf("%w: more than %d elements", errTooMuch, maxElements)
	}
	return nil
}

// product checks what is to be multiplied.
func product(l, r any) error {
	text, times := l, r
	if _, ok := l.(string); !ok {
		text, times = r, l
	}
	if s, ok := text.(string); ok {
		if n, ok := gojq.ToFloat64(times); ok && float64(len(s))*n > maxBytes {
			return fmt.Errorf("%w: a text of more than %d bytes", errTooMuch, maxBytes)
		}
		return nil
	}
	if bits(l)+bits(r) > maxBits {
		return fmt.Errorf("%w: a number of more than %d bits", errTooMuch, maxBits)
	}
	return nil
}

func bits(v any) int {
	switch v := v.(type) {
	case *big.Int:
		return v.BitLen()
	case json.Number:
		return 4 * len(v)
	}
	return 0
}

// addable checks the elements of which add makes one.
func addable(v any) error {
	bytes, count := 0, 0
	each(v, func(v any) {
		switch v := v.(type) {
		case string:
			bytes += len(v)
		case []any:
			count += len(v)
		}
	})
	if bytes > maxBytes {
		return fmt.Errorf("%w: a text of more than %d bytes", errTooMuch, maxBytes)
	}
	return elements(count)
}

func each(v any, f func(any)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			f(e)
		}
	case map[string]any:
		for _, e := range v {
			f(e)
		}
	}
}

func joinable(v, separator any) error {
	s, _ := separator.(string)
	bytes := 0
	each(v, func(v any) {
		text, _ := v.(string)
		bytes += len(s) + len(text)
	})
	if bytes > maxBytes {
		return fmt.Errorf("%w: a text of more than %d bytes", errTooMuch, maxBytes)
	}
	return nil
}

func transposable(v any) error {
	rows, longest := 0, 0
	each(v, func(v any) {
		row, _ := v.([]any)
		rows, longest = rows+1, max(longest, len(row))
	})
	return elements(rows * longest)
}

// reachable checks the position of an element.
func reachable(v any) error {
	if n, ok := gojq.ToFloat64(v); ok && n >= maxPosition {
		return fmt.Errorf("%w: an array with more than %d elements", errTooMuch, maxPosition)
	}
	return nil
}

// positions checks a path.
func positions(v any) error {
	path, _ := v.([]any)
	for _, step := range path {
		if err := reachable(step); err != nil {
			return err
		}
	}
	return nil
}

// event checks what tostream makes: a path, or a path and a value.
func event(v any) error {
	if e, ok := v.([]any); ok && len(e) > 0 {
		return positions(e[0])
	}
	return nil
}

// writable checks all that is in a value, before it is written as JSON: as often as it is in there.
func writable(v any) error {
	left := maxBytes
	if !measure(v, &left, maxDepth) {
		return fmt.Errorf("%w: JSON of more than %d bytes, or nested deeper than %d", errTooMuch, maxBytes, maxDepth)
	}
	return nil
}

// measure takes what v is at least as JSON from left, and ends when there is nothing left, of it or of depth.
func measure(v any, left *int, depth int) bool {
	*left--
	switch v := v.(type) {
	case string:
		*left -= len(v)
	case json.Number:
		*left -= len(v)
	case *big.Int:
		*left -= v.BitLen() / 4
	case []any:
		*left--
		for _, e := range v {
			if !measure(e, left, depth-1) {
				return false
			}
		}
	case map[string]any:
		*left--
		for name, e := range v {
			if *left -= len(name); !measure(e, left, depth-1) {
				return false
			}
		}
	}
	return *left >= 0 && depth >= 0
}
