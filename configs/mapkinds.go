package configs

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"kafkabridge/bridge"
)

// mapKinds are the grammars of the map blocks by kind. Each turns the body into the kind's own options type.
func mapKinds() map[string]func(d *decoder, g *mapGrammar) any {
	return map[string]func(d *decoder, g *mapGrammar) any{
		"headers": headersBlock,
	}
}

func (d *decoder) mapBlock(g *mapGrammar) bridge.MapOptions {
	kinds := mapKinds()
	kind, ok := kinds[g.Kind]
	if !ok {
		known := slices.Sorted(maps.Keys(kinds))
		d.errorAt(g.KindRange, "Unknown kind of map", "There is no map %q. The kinds are: %s.%s", g.Kind, quoted(known), nearest(g.Kind, known))
		return bridge.MapOptions{Kind: g.Kind}
	}
	return bridge.MapOptions{Kind: g.Kind, Settings: kind(d, g)}
}

func headersBlock(d *decoder, m *mapGrammar) any {
	var g headersGrammar
	d.diags = append(d.diags, gohcl.DecodeBody(m.Body, nil, &g)...)
	if g.Set == nil && g.Remove == nil && g.Rename == nil {
		d.errorAt(m.DefRange, "Map without effect", `A map "headers" needs at least one of set, remove and rename.`)
	}
	o := bridge.HeadersOptions{Set: d.textMap(g.Set), Remove: d.texts(g.Remove), Rename: d.textMap(g.Rename)}
	for _, key := range o.Remove {
		if _, both := o.Rename[key]; both {
			d.bad(g.Remove, "The header %q is in both remove and rename.", key)
		}
	}
	d.noEmptyKey(g.Set, slices.Collect(maps.Keys(o.Set)))
	d.noEmptyKey(g.Remove, o.Remove)
	d.noEmptyKey(g.Rename, slices.Concat(slices.Collect(maps.Keys(o.Rename)), slices.Collect(maps.Values(o.Rename))))
	return o
}

func (d *decoder) noEmptyKey(a *hcl.Attribute, keys []string) {
	if slices.Contains(keys, "") {
		d.bad(a, "A header's key must not be empty.")
	}
}
