package expr

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"kafkabridge/maps/document"
)

// value is a JSON value as CEL has it. Objects and arrays stay where they are in the text.
func (in *Input) value(v document.Value) ref.Val {
	switch v.Kind() {
	case document.Null:
		return types.NullValue
	case document.True:
		return types.True
	case document.False:
		return types.False
	case document.Number:
		return in.number(v.Raw())
	case document.String:
		return in.texts.put(types.String(v.Text()))
	case document.Object:
		o := in.object()
		o.v = v
		return o
	case document.Array:
		return &array{in, v}
	}
	return types.NewErr("no JSON value")
}

// object gives a place for an object that is used again for the next record.
func (in *Input) object() *object {
	if in.used >= keptCells {
		return &object{in: in}
	}
	if in.used == len(in.objects) {
		in.objects = append(in.objects, &object{in: in})
	}
	in.used++
	return in.objects[in.used-1]
}

// object is a JSON object. Of members with the same name the last counts.
type object struct {
	in *Input
	v  document.Value
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	v, found := o.v.Get(string(name))
	if !found {
		return nil, false
	}
	return o.in.value(v), true
}

// names are the different names in the order of their first appearance.
func (o *object) names() []ref.Val {
	var out []ref.Val
	seen := map[string]bool{}
	for w := o.v.Walk(); w.Next(); {
		if name := w.Name(); !seen[name] {
			seen[name] = true
			out = append(out, types.String(name))
		}
	}
	return out
}

func (o *object) native() traits.Mapper { return nativeMap(o) }

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val { return get(o, key) }

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val { return contains(o, key) }

// Iterator implements traits.Iterable: the names.
func (o *object) Iterator() traits.Iterator { return &iterator{values: o.names()} }

// Size implements traits.Sizer.
func (o *object) Size() ref.Val { return types.Int(len(o.names())) }

// Equal implements ref.Val. A value that CEL cannot have, such as a number of 70 bits, is an error and not unequal.
func (o *object) Equal(other ref.Val) ref.Val {
	m, ok := other.(traits.Mapper)
	if !ok {
		return types.False
	}
	names := o.names()
	if m.Size() != types.Int(len(names)) {
		return types.False
	}
	for _, name := range names {
		v, found := m.Find(name)
		if !found {
			return types.False
		}
		if eq := same(o.Get(name), v); eq != types.True {
			return eq
		}
	}
	return types.True
}

func same(a, b ref.Val) ref.Val {
	for _, v := range []ref.Val{a, b} {
		if types.IsError(v) {
			return v
		}
	}
	return types.Equal(a, b)
}

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(t reflect.Type) (any, error) { return o.native().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val { return convertMap(o, t) }

// Type implements ref.Val.
func (o *object) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (o *object) Value() any { return o.native().Value() }

// array is a JSON array.
type array struct {
	in *Input
	v  document.Value
}

func (a *array) values() []ref.Val {
	var out []ref.Val
	for w := a.v.Walk(); w.Next(); {
		out = append(out, a.in.value(w.Value()))
	}
	return out
}

func (a *array) native() traits.Lister {
	return types.NewRefValList(types.DefaultTypeAdapter, a.values())
}

// Get implements traits.Indexer.
func (a *array) Get(index ref.Val) ref.Val {
	i, err := types.GetOrError(index)
	if err != nil {
		return types.WrapErr(err)
	}
	w := a.v.Walk()
	for n := 0; w.Next(); n++ {
		if n == i {
			return a.in.value(w.Value())
		}
	}
	return types.NewErr("index out of bounds: %d", i)
}

// Add implements traits.Adder.
func (a *array) Add(other ref.Val) ref.Val { return a.native().Add(other) }

// Contains implements traits.Container.
func (a *array) Contains(v ref.Val) ref.Val {
	for w := a.v.Walk(); w.Next(); {
		if eq := same(a.in.value(w.Value()), v); eq != types.False {
			return eq
		}
	}
	return types.False
}

// Iterator implements traits.Iterable.
func (a *array) Iterator() traits.Iterator {
	return &arrayIterator{in: a.in, w: a.v.Walk(), left: a.v.Len()}
}

// Size implements traits.Sizer.
func (a *array) Size() ref.Val { return types.Int(a.v.Len()) }

// Equal implements ref.Val.
func (a *array) Equal(other ref.Val) ref.Val {
	l, ok := other.(traits.Lister)
	if !ok || l.Size() != a.Size() {
		return types.False
	}
	n := types.Int(0)
	for w := a.v.Walk(); w.Next(); n++ {
		if eq := same(a.in.value(w.Value()), l.Get(n)); eq != types.True {
			return eq
		}
	}
	return types.True
}

// ConvertToNative implements ref.Val.
func (a *array) ConvertToNative(t reflect.Type) (any, error) { return a.native().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (a *array) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.ListType:
		return a
	case types.TypeType:
		return types.ListType
	}
	return types.NewErr("type conversion error from 'list' to '%s'", t)
}

// Type implements ref.Val.
func (a *array) Type() ref.Type { return types.ListType }

// Value implements ref.Val.
func (a *array) Value() any { return a.native().Value() }

// arrayIterator makes each element when it is asked for.
type arrayIterator struct {
	ref.Val // never asked
	in      *Input
	w       document.Walk
	left    int
}

// HasNext implements traits.Iterator.
func (it *arrayIterator) HasNext() ref.Val { return types.Bool(it.left > 0) }

// Next implements traits.Iterator.
func (it *arrayIterator) Next() ref.Val {
	if it.left--; !it.w.Next() {
		return nil
	}
	return it.in.value(it.w.Value())
}
