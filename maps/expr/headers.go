package expr

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// headerMap is the variable headers: looked up in the record's own bytes, so that nothing is built of them.
type headerMap struct{ in *Input }

// Find implements traits.Mapper: the last value of a name.
func (h *headerMap) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	var value []byte
	found := false
	walk := h.in.record.Headers.Walk()
	for header, ok := walk.Next(); ok; header, ok = walk.Next() {
		if string(header.Key) == string(name) {
			value, found = header.Value, true
		}
	}
	if !found {
		return nil, false
	}
	return h.in.text(value), true
}

// names are the different names in the order of their first appearance.
func (h *headerMap) names() []ref.Val {
	var out []ref.Val
	seen := map[string]bool{}
	walk := h.in.record.Headers.Walk()
	for header, ok := walk.Next(); ok; header, ok = walk.Next() {
		if name := string(header.Key); !seen[name] {
			seen[name] = true
			out = append(out, types.String(name))
		}
	}
	return out
}

// native is the same map as CEL's own, for what is asked rarely.
func (h *headerMap) native() traits.Mapper { return nativeMap(h) }

// Get implements traits.Indexer.
func (h *headerMap) Get(key ref.Val) ref.Val { return get(h, key) }

// Contains implements traits.Container.
func (h *headerMap) Contains(key ref.Val) ref.Val { return contains(h, key) }

// Iterator implements traits.Iterable: the names.
func (h *headerMap) Iterator() traits.Iterator { return &iterator{values: h.names()} }

// Size implements traits.Sizer.
func (h *headerMap) Size() ref.Val { return types.Int(len(h.names())) }

// Equal implements ref.Val.
func (h *headerMap) Equal(other ref.Val) ref.Val { return h.native().Equal(other) }

// ConvertToNative implements ref.Val.
func (h *headerMap) ConvertToNative(t reflect.Type) (any, error) {
	return h.native().ConvertToNative(t)
}

// ConvertToType implements ref.Val.
func (h *headerMap) ConvertToType(t ref.Type) ref.Val { return convertMap(h, t) }

// Type implements ref.Val.
func (h *headerMap) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (h *headerMap) Value() any { return h.native().Value() }
