package configs

import (
	stdmaps "maps"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"kafkabridge/bridge"
	"kafkabridge/maps"
	"kafkabridge/maps/expr"
)

// mapKinds are the built-in kinds of map blocks. Each turns the body into the kind's own options type.
func mapKinds() map[string]func(d *decoder, m *mapGrammar) any {
	return map[string]func(d *decoder, m *mapGrammar) any{
		"dedupe":    dedupeBlock,
		"filter":    filterBlock,
		"headers":   headersBlock,
		"jq":        jqBlock,
		"key":       keyBlock,
		"mask":      maskBlock,
		"route":     routeBlock,
		"timestamp": timestampBlock,
	}
}

func (d *decoder) mapBlock(g *mapGrammar) bridge.MapOptions {
	kinds := mapKinds()
	if kind, ok := kinds[g.Kind]; ok {
		return bridge.MapOptions{Kind: g.Kind, Settings: kind(d, g)}
	}
	if slices.Contains(d.kinds, g.Kind) {
		return bridge.MapOptions{Kind: g.Kind, Settings: d.freeBlock(g)}
	}
	known := slices.Sorted(slices.Values(slices.Concat(slices.Collect(stdmaps.Keys(kinds)), d.kinds)))
	d.errorAt(g.KindRange, "Unknown kind of map", "There is no map %q. The kinds are: %s.%s", g.Kind, quoted(known), nearest(g.Kind, known))
	return bridge.MapOptions{Kind: g.Kind}
}

func (d *decoder) body(m *mapGrammar, g any) {
	d.diags = append(d.diags, gohcl.DecodeBody(m.Body, nil, g)...)
}

func headersBlock(d *decoder, m *mapGrammar) any {
	var g headersGrammar
	d.body(m, &g)
	if g.Set == nil && g.Remove == nil && g.Rename == nil && g.SetExpr == nil {
		d.errorAt(m.DefRange, "Map without effect", `A map "headers" needs at least one of set, set_expr, remove and rename.`)
	}
	o := maps.HeadersOptions{Set: d.textMap(g.Set), Remove: d.texts(g.Remove), Rename: d.textMap(g.Rename), SetExpr: d.textMap(g.SetExpr)}
	for _, key := range o.Remove {
		if _, both := o.Rename[key]; both {
			d.bad(g.Remove, "The header %q is in both remove and rename.", key)
		}
	}
	for _, key := range slices.Sorted(stdmaps.Keys(o.SetExpr)) {
		if _, both := o.Set[key]; both {
			d.bad(g.SetExpr, "The header %q is in both set and set_expr.", key)
		}
		d.checkExpr(g.SetExpr, member(g.SetExpr.Expr, key), o.SetExpr[key], expr.Bytes)
	}
	d.noEmptyKey(g.Set, slices.Collect(stdmaps.Keys(o.Set)))
	d.noEmptyKey(g.SetExpr, slices.Collect(stdmaps.Keys(o.SetExpr)))
	d.noEmptyKey(g.Remove, o.Remove)
	d.noEmptyKey(g.Rename, slices.Concat(slices.Collect(stdmaps.Keys(o.Rename)), slices.Collect(stdmaps.Values(o.Rename))))
	return o
}

func (d *decoder) noEmptyKey(a *hcl.Attribute, keys []string) {
	if slices.Contains(keys, "") {
		d.bad(a, "A header's key must not be empty.")
	}
}

func filterBlock(d *decoder, m *mapGrammar) any {
	var g filterGrammar
	d.body(m, &g)
	return maps.FilterOptions{When: d.expression(g.When, m, "when", expr.Bool)}
}

func routeBlock(d *decoder, m *mapGrammar) any {
	var g routeGrammar
	d.body(m, &g)
	return maps.RouteOptions{Topic: d.expression(g.Topic, m, "topic", expr.Text)}
}

func keyBlock(d *decoder, m *mapGrammar) any {
	var g keyGrammar
	d.body(m, &g)
	return maps.KeyOptions{From: d.expression(g.From, m, "from", expr.Bytes)}
}

func timestampBlock(d *decoder, m *mapGrammar) any {
	var g timestampGrammar
	d.body(m, &g)
	return maps.TimestampOptions{From: d.expression(g.From, m, "from", expr.Time)}
}

func dedupeBlock(d *decoder, m *mapGrammar) any {
	var g dedupeGrammar
	d.body(m, &g)
	o := maps.DedupeOptions{
		By:      d.expression(g.By, m, "by", expr.Any),
		Window:  d.duration(g.Window, 0, time.Millisecond),
		Records: int(d.integer(g.Records, 0, 1, maps.MaxDedupe)),
		Limit:   int(d.integer(g.Limit, maps.DefaultDedupeLimit, 1, maps.MaxDedupe)),
	}
	switch {
	case d.given(g.Window) && d.given(g.Records):
		d.errorAt(g.Records.NameRange, "Conflicting arguments", "window and records exclude each other.")
	case !d.given(g.Window) && !d.given(g.Records):
		d.errorAt(m.DefRange, "Missing required argument", "Either window or records is required.")
	case d.given(g.Limit) && d.given(g.Records):
		d.errorAt(g.Limit.NameRange, "Conflicting arguments", "limit goes with window; with records there are never more than those.")
	case o.Window%time.Millisecond != 0:
		d.bad(g.Window, "window must be whole milliseconds, which timestamps are.")
	}
	return o
}

func jqBlock(d *decoder, m *mapGrammar) any {
	var g jqGrammar
	d.body(m, &g)
	if !d.given(g.Value) && !d.given(g.Key) && !d.given(g.Headers) {
		d.errorAt(m.DefRange, "Map without effect", `One of value, key and headers is required.`)
	}
	return maps.JQOptions{Value: d.jqProgram(g.Value), Key: d.jqProgram(g.Key), Headers: d.jqProgram(g.Headers)}
}

func maskBlock(d *decoder, m *mapGrammar) any {
	var g maskGrammar
	d.body(m, &g)
	o := maps.MaskOptions{Secret: maps.Secret(d.filled(g.Secret))}
	if d.required(g.Paths, m.DefRange, "paths") {
		o.Paths = d.someTexts(g.Paths)
	}
	for i, path := range o.Paths {
		d.checkPath(g.Paths, i, path)
	}
	if d.required(g.With, m.DefRange, "with") {
		o.With = maps.MaskWith(d.word(g.With, string(maps.Redact), maps.MaskWays()...))
	}
	switch {
	case o.With == maps.HMAC && !d.given(g.Secret):
		d.errorAt(m.DefRange, "Missing required argument", `The argument "secret" is required with with = "hmac-sha256"; write env("NAME") or file("path").`)
	case o.With != maps.HMAC && d.given(g.Secret):
		d.errorAt(g.Secret.NameRange, "Conflicting arguments", `secret goes with with = "hmac-sha256".`)
	}
	return o
}
