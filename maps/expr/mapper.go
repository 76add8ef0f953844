package expr

import (
	"cmp"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// What headers, JSON objects and map literals have in common.

func get(m traits.Mapper, key ref.Val) ref.Val {
	v, found := m.Find(key)
	switch {
	case found:
		return v
	case v != nil:
		return v // an error
	}
	return types.NewErr("no such key: %v", key)
}

func contains(m traits.Mapper, key ref.Val) ref.Val {
	v, found := m.Find(key)
	if v != nil && types.IsError(v) {
		return v
	}
	return types.Bool(found)
}

func convertMap(m traits.Mapper, t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from 'map' to '%s'", t)
}

// nativeMap is a copy of m as CEL's own map.
func nativeMap(m traits.Mapper) traits.Mapper {
	entries := map[ref.Val]ref.Val{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		entries[key] = m.Get(key)
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, entries)
}

// iterator goes through values in order.
type iterator struct {
	ref.Val // never asked: CEL uses an iterator as nothing else
	values  []ref.Val
}

// HasNext implements traits.Iterator.
func (it *iterator) HasNext() ref.Val { return types.Bool(len(it.values) > 0) }

// Next implements traits.Iterator.
func (it *iterator) Next() ref.Val {
	if len(it.values) == 0 {
		return nil
	}
	v := it.values[0]
	it.values = it.values[1:]
	return v
}

// inOrder makes map literals ordered: CEL goes through them in the random order of a Go map, and the output of a replay
// would not be that of the first time.
func inOrder(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if c, ok := i.(interpreter.InterpretableConstructor); ok && c.Type() == types.MapType {
		return &orderedLiteral{i}, nil
	}
	return i, nil
}

type orderedLiteral struct{ interpreter.InterpretableV2 }

// Exec implements interpreter.InterpretableV2.
func (l *orderedLiteral) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return ordered(l.InterpretableV2.Exec(frame))
}

// Eval implements interpreter.Interpretable.
func (l *orderedLiteral) Eval(vars interpreter.Activation) ref.Val {
	return ordered(l.InterpretableV2.Eval(vars))
}

func ordered(v ref.Val) ref.Val {
	if m, ok := v.(traits.Mapper); ok {
		return orderedMap{m}
	}
	return v
}

// orderedMap is a map whose keys are gone through in ascending order. It hides the other ways of going through a map.
type orderedMap struct{ traits.Mapper }

// Iterator implements traits.Iterable.
func (m orderedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		if c := cmp.Compare(a.Type().TypeName(), b.Type().TypeName()); c != 0 {
			return c
		}
		if comparer, ok := a.(traits.Comparer); ok {
			if c, ok := comparer.Compare(b).(types.Int); ok {
				return int(c)
			}
		}
		return 0
	})
	return &iterator{values: keys}
}

// ConvertToType implements ref.Val.
func (m orderedMap) ConvertToType(t ref.Type) ref.Val { return convertMap(m, t) }
