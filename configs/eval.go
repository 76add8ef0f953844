package configs

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"kafkabridge/semantics"
)

// decoder turns grammar into Options and collects what is wrong. Its methods return a usable value also after an error,
// so that the rest of the file is still checked.
type decoder struct {
	src      []byte
	filename string
	kinds    []string // of maps, beside the built-in ones
	out      *outside
	ctx      *hcl.EvalContext
	files    map[string]*hcl.File // with secrets blanked; what messages quote
	hidden   []hcl.Range          // where secrets are written in the file
	diags    hcl.Diagnostics
}

func newDecoder(src []byte, filename, dir string) *decoder {
	out := newOutside(dir)
	return &decoder{src: src, filename: filename, out: out, ctx: &hcl.EvalContext{Functions: out.functions()}}
}

// value evaluates a; ok is false when it is not written, null, or wrong (then that is reported). What came
// from env() or file() is marked.
func (d *decoder) value(a *hcl.Attribute) (v cty.Value, ok bool) {
	if a == nil {
		return cty.NilVal, false
	}
	v, diags := a.Expr.Value(d.ctx)
	d.evaluated(a.Expr, diags)
	if diags.HasErrors() || v.IsNull() {
		return cty.NilVal, false
	}
	if !v.IsWhollyKnown() {
		d.bad(a, "The value is not known.")
		return cty.NilVal, false
	}
	return v, true
}

func written(a *hcl.Attribute) bool { return a != nil }

// wrongType never shows the value: what was written at the wrong place may be a password.
func (d *decoder) wrongType(a *hcl.Attribute, want string, v cty.Value) {
	if v.Type() == cty.Number && want == "a whole number" {
		d.bad(a, "%s takes a whole number.", a.Name)
		return
	}
	hint := ""
	if v.Type() == cty.Number && strings.Contains(want, "string") {
		hint = " Put it in quotes if it is meant."
	}
	d.bad(a, "%s takes %s, not %s.%s", a.Name, want, article(v.Type().FriendlyName()), hint)
}

func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

// optText is a string attribute; ok is false when it has no value.
func (d *decoder) optText(a *hcl.Attribute) (s string, ok bool) {
	v, ok := d.value(a)
	if !ok {
		return "", false
	}
	if v.Type() != cty.String {
		d.wrongType(a, "a string", v)
		return "", false
	}
	return rawString(v), true
}

func (d *decoder) text(a *hcl.Attribute, def string) string {
	if s, ok := d.optText(a); ok {
		return s
	}
	return def
}

// given says whether an attribute is written and not null. Wrong values are reported where they are evaluated.
func (d *decoder) given(a *hcl.Attribute) bool {
	if a == nil {
		return false
	}
	v, diags := a.Expr.Value(d.ctx)
	return diags.HasErrors() || !v.IsNull()
}

// required reports a missing attribute of the block at def.
func (d *decoder) required(a *hcl.Attribute, def hcl.Range, name string) bool {
	if d.given(a) {
		return true
	}
	d.errorAt(def, "Missing required argument", "The argument %q is required.", name)
	return false
}

// word is one of a closed set; nothing but the exact words is accepted, so that a slip never selects something else.
func (d *decoder) word(a *hcl.Attribute, def string, words ...string) string {
	s, ok := d.optText(a)
	if !ok {
		return def
	}
	if !slices.Contains(words, s) {
		d.bad(a, "%s must be one of %s%s.%s", a.Name, quoted(words), d.not(a, s), nearest(s, words))
		return def
	}
	return s
}

// not quotes a wrong value, unless it came from outside.
func (d *decoder) not(a *hcl.Attribute, s string) string {
	if v, diags := a.Expr.Value(d.ctx); diags.HasErrors() || v.ContainsMarked() {
		return ""
	}
	return fmt.Sprintf(", not %q", s)
}

func quoted(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(q, ", ")
}

// nearest suggests the word that differs in case and punctuation only, or of which s is the beginning.
func nearest(s string, words []string) string {
	letters := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '-' || r == '_' || r == ' ' || r == '.' {
				return -1
			}
			return r
		}, strings.ToLower(s))
	}
	given := letters(s)
	for _, w := range words {
		l := letters(w)
		if l == given || len(given) > 2 && (strings.HasPrefix(l, given) || strings.HasPrefix(given, l)) {
			return fmt.Sprintf(" Did you mean %q?", w)
		}
	}
	return ""
}

func (d *decoder) semantic(a *hcl.Attribute, def semantics.Semantic) semantics.Semantic {
	words := []string{semantics.None.String(), semantics.AtLeastOnce.String(), semantics.ExactlyOnce.String()}
	s, err := semantics.ParseSemantic(d.word(a, def.String(), words...))
	if err != nil {
		d.bad(a, "semantic must be one of %s.", quoted(words))
		return def
	}
	return s
}

func (d *decoder) boolean(a *hcl.Attribute, def bool) bool {
	v, ok := d.value(a)
	if !ok {
		return def
	}
	b, err := convert.Convert(v, cty.Bool) // a string too: env() has nothing else
	if err != nil {
		d.wrongType(a, "true or false", v)
		return def
	}
	b, _ = b.Unmark()
	return b.True()
}

// integer is a whole number from low to high. Strings are taken too, because env() has nothing else.
func (d *decoder) integer(a *hcl.Attribute, def, low, high int64) int64 {
	v, ok := d.value(a)
	if !ok {
		return def
	}
	n, ok := toInt(v)
	switch {
	case !ok:
		d.wrongType(a, "a whole number", v)
	case n < low || n > high:
		d.bad(a, "%s must be %s.", a.Name, between(low, high))
	default:
		return n
	}
	return def
}

func between(low, high int64) string {
	if high == math.MaxInt64 {
		return fmt.Sprintf("at least %d", low)
	}
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("from %d to %d", low, high)
}

func toInt(v cty.Value) (int64, bool) {
	n, err := convert.Convert(v, cty.Number)
	if err != nil {
		return 0, false
	}
	n, _ = n.Unmark()
	if n.IsNull() || !n.AsBigFloat().IsInt() {
		return 0, false
	}
	i, acc := n.AsBigFloat().Int64()
	return i, acc == 0
}

// duration is a Go duration with its unit. A bare number is refused: whether it means seconds or milliseconds is a
// matter of taste, and a wrong guess would be a timeout a thousand times off.
func (d *decoder) duration(a *hcl.Attribute, def, low time.Duration) time.Duration {
	v, ok := d.value(a)
	if !ok {
		return def
	}
	if v.Type() == cty.Number {
		d.bad(a, `%s is a duration and needs a unit: "5s", "500ms", "1h30m".`, a.Name)
		return def
	}
	if v.Type() != cty.String {
		d.wrongType(a, `a duration as a string, such as "5s"`, v)
		return def
	}
	t, err := time.ParseDuration(rawString(v))
	switch {
	case err != nil:
		d.bad(a, `%s is a duration with its unit, such as "5s", "500ms" or "1h30m" (units: ms, s, m, h)%s.`, a.Name, d.not(a, rawString(v)))
	case t < low:
		d.bad(a, "%s must be at least %v%s.", a.Name, low, d.not(a, rawString(v)))
	default:
		return t
	}
	return def
}

// size is a number of bytes: "50MiB", or a whole number.
func (d *decoder) size(a *hcl.Attribute, def, low, high int64) int64 {
	v, ok := d.value(a)
	if !ok {
		return def
	}
	n, ok := toInt(v)
	if !ok && v.Type() == cty.String {
		n, ok = parseSize(rawString(v))
	}
	switch {
	case !ok && v.Type() == cty.String:
		d.bad(a, `%s is a number of bytes with its unit, such as "1MiB" (units: B, KiB, MiB, GiB)%s.`, a.Name, d.not(a, rawString(v)))
	case !ok:
		d.wrongType(a, `a size, such as "1MiB"`, v)
	case n < low || n > high:
		d.bad(a, "%s must be %s bytes.", a.Name, between(low, high))
	default:
		return n
	}
	return def
}

func parseSize(s string) (int64, bool) {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}} {
		digits, ok := strings.CutSuffix(s, unit.name)
		if !ok {
			continue
		}
		n, ok := parseDigits(strings.TrimSpace(digits))
		if !ok || n > math.MaxInt64/unit.bytes {
			return 0, false
		}
		return n * unit.bytes, true
	}
	return 0, false
}

func parseDigits(s string) (n int64, ok bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
