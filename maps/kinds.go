// Package maps holds the built-in map kinds: what happens to records between source and sink. Each kind has its Options and
// reads nothing but the record, its settings and, for dedupe, its own state: no clock, no environment, no randomness. So a
// replay produces the same output.
//
// The languages are in packages of their own: expr is CEL over a record, jq is jq, document is the JSON that all of them
// read. A record's value is parsed by the first map that needs it, and handed on in Record.Parsed.
package maps

import (
	"fmt"
	"sync"

	"kafkabridge/bridge"
	"kafkabridge/maps/expr"
	"kafkabridge/maps/jq"
)

// Kinds are the built-in map kinds. Every call makes a new Registry, which the caller may add to before a bridge is made of it.
// Each factory takes the Options of its kind, such as [FilterOptions] for "filter".
func Kinds() bridge.Registry {
	c := &compiler{exprs: map[exprKey]*expr.Program{}, jqs: map[string]*jq.Program{}}
	return bridge.Registry{
		"dedupe":    factory(c, newDedupe),
		"filter":    factory(c, newFilter),
		"headers":   factory(c, newHeaders),
		"jq":        factory(c, newJQ),
		"key":       factory(c, newKey),
		"mask":      factory(c, newMask),
		"route":     factory(c, newRoute),
		"timestamp": factory(c, newTimestamp),
	}
}

func factory[O any, M bridge.Map](c *compiler, make func(*compiler, O) (M, error)) bridge.Factory {
	return func(settings any) (bridge.Map, error) {
		o, ok := settings.(O)
		if !ok {
			return nil, fmt.Errorf("settings are %T, not %T", settings, o)
		}
		m, err := make(c, o)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
}

// compiler compiles each program of a registry once, not once for each source partition. Safe for concurrent use.
type compiler struct {
	mu    sync.Mutex
	exprs map[exprKey]*expr.Program
	jqs   map[string]*jq.Program
}

type exprKey struct {
	text string
	want expr.Result
}

// expr compiles CEL; name says in errors which setting it is.
func (c *compiler) expr(name, text string, want expr.Result) (*expr.Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return compiled(c.exprs, exprKey{text, want}, name, func() (*expr.Program, error) { return expr.Compile(text, want) })
}

// jq compiles a jq program.
func (c *compiler) jq(name, text string) (*jq.Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return compiled(c.jqs, text, name, func() (*jq.Program, error) { return jq.Compile(text) })
}

func compiled[K comparable, P any](known map[K]*P, key K, name string, compile func() (*P, error)) (*P, error) {
	if p := known[key]; p != nil {
		return p, nil
	}
	p, err := compile()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	known[key] = p
	return p, nil
}
