package configs

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// texts is a list of strings; nil when it has no elements.
func (d *decoder) texts(a *hcl.Attribute) []string {
	list, _ := d.optTexts(a)
	return list
}

// someTexts is a list of strings that must not be empty when it is written.
func (d *decoder) someTexts(a *hcl.Attribute) []string {
	list, ok := d.optTexts(a)
	if ok && len(list) == 0 {
		d.bad(a, "%s must not be empty.", a.Name)
	}
	return list
}

// optTexts is a list of strings; ok is false when it has no value.
func (d *decoder) optTexts(a *hcl.Attribute) (list []string, ok bool) {
	v, ok := d.value(a)
	if !ok {
		return nil, false
	}
	t := v.Type()
	if !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
		d.wrongType(a, `a list of strings, such as ["a", "b"]`, v)
		return nil, false
	}
	for _, e := range elements(v) {
		if e.value.IsNull() || e.value.Type() != cty.String {
			d.bad(a, `%s takes a list of strings, such as ["a", "b"]; its element %d is none.`, a.Name, len(list)+1)
			return nil, false
		}
		list = append(list, rawString(e.value))
	}
	return list, true
}

// textMap is a map of strings; nil when it has no elements.
func (d *decoder) textMap(a *hcl.Attribute) map[string]string {
	out := map[string]string{}
	ok := d.mapping(a, `a map of strings, such as { "a" = "b" }`, func(key string, v cty.Value) bool {
		if v.Type() != cty.String {
			return false
		}
		out[key] = rawString(v)
		return true
	})
	if !ok || len(out) == 0 {
		return nil
	}
	return out
}

// numberMap is a map of whole numbers; nil when it has no elements.
func (d *decoder) numberMap(a *hcl.Attribute) map[string]int64 {
	out := map[string]int64{}
	ok := d.mapping(a, `a map of whole numbers, such as { "orders/0" = 42 }`, func(key string, v cty.Value) bool {
		n, ok := toInt(v)
		out[key] = n
		return ok
	})
	if !ok || len(out) == 0 {
		return nil
	}
	return out
}

func (d *decoder) mapping(a *hcl.Attribute, want string, set func(key string, v cty.Value) bool) bool {
	v, ok := d.value(a)
	if !ok {
		return false
	}
	if t := v.Type(); !t.IsObjectType() && !t.IsMapType() {
		d.wrongType(a, want, v)
		return false
	}
	hidden := v.ContainsMarked()
	for _, e := range elements(v) {
		if !e.value.IsNull() && set(e.key, e.value) {
			continue
		}
		which := "an element"
		if !hidden {
			which = "the element \"" + e.key + "\""
		}
		d.bad(a, "%s takes %s; %s does not fit.", a.Name, want, which)
		return false
	}
	return true
}

type element struct {
	key   string
	value cty.Value
}

// elements are the elements of a list, map or object in cty's order. Marks of the whole are passed on to each.
func elements(v cty.Value) []element {
	plain, marks := v.Unmark()
	var out []element
	for it := plain.ElementIterator(); it.Next(); {
		k, e := it.Element()
		key := ""
		if k, _ = k.Unmark(); k.Type() == cty.String {
			key = k.AsString()
		}
		if len(marks) > 0 {
			e = e.WithMarks(marks)
		}
		out = append(out, element{key: key, value: e})
	}
	return out
}
