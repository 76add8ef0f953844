package configs

import "github.com/hashicorp/hcl/v2"

// The bodies of the map blocks, by kind. on_error is not in them: every kind has it, see mapGrammar.

type dedupeGrammar struct {
	By      *hcl.Attribute `hcl:"by,optional"`
	Window  *hcl.Attribute `hcl:"window,optional"`
	Records *hcl.Attribute `hcl:"records,optional"`
	Limit   *hcl.Attribute `hcl:"limit,optional"`
}

type filterGrammar struct {
	When *hcl.Attribute `hcl:"when,optional"`
}

type headersGrammar struct {
	Set     *hcl.Attribute `hcl:"set,optional"`
	SetExpr *hcl.Attribute `hcl:"set_expr,optional"`
	Remove  *hcl.Attribute `hcl:"remove,optional"`
	Rename  *hcl.Attribute `hcl:"rename,optional"`
}

type jqGrammar struct {
	Value   *hcl.Attribute `hcl:"value,optional"`
	Key     *hcl.Attribute `hcl:"key,optional"`
	Headers *hcl.Attribute `hcl:"headers,optional"`
}

type keyGrammar struct {
	From *hcl.Attribute `hcl:"from,optional"`
}

type maskGrammar struct {
	Paths  *hcl.Attribute `hcl:"paths,optional"`
	With   *hcl.Attribute `hcl:"with,optional"`
	Secret *hcl.Attribute `hcl:"secret,optional"`
}

type routeGrammar struct {
	Topic *hcl.Attribute `hcl:"topic,optional"`
}

type timestampGrammar struct {
	From *hcl.Attribute `hcl:"from,optional"`
}
