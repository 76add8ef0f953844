package configs

import (
	"github.com/zclconf/go-cty/cty"
)

// freeBlock is the body of a kind that the caller has registered: all attributes by name, as Go values. The kind's factory
// says what is wrong with them.
func (d *decoder) freeBlock(m *mapGrammar) any {
	attributes, diags := m.Body.JustAttributes()
	d.diags = append(d.diags, diags...)
	settings := map[string]any{}
	for name, a := range attributes {
		if v, ok := d.value(a); ok {
			settings[name] = goValue(v)
		}
	}
	return settings
}

// goValue is a value of the configuration as string, bool, int64, float64, []any, map[string]any or nil.
func goValue(v cty.Value) any {
	plain, _ := v.Unmark()
	t := plain.Type()
	switch {
	case plain.IsNull():
		return nil
	case t == cty.String:
		return rawString(v)
	case t == cty.Bool:
		return plain.True()
	case t == cty.Number:
		if i, ok := toInt(plain); ok {
			return i
		}
		f, _ := plain.AsBigFloat().Float64()
		return f
	case t.IsObjectType() || t.IsMapType():
		out := map[string]any{}
		for _, e := range elements(v) {
			out[e.key] = goValue(e.value)
		}
		return out
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		out := []any{}
		for _, e := range elements(v) {
			out = append(out, goValue(e.value))
		}
		return out
	}
	return nil
}
