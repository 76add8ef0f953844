package configs

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"kafkabridge/maps"
	"kafkabridge/maps/expr"
	"kafkabridge/maps/jq"
)

// expression is a required CEL expression, checked.
func (d *decoder) expression(a *hcl.Attribute, m *mapGrammar, name string, want expr.Result) string {
	if !d.required(a, m.DefRange, name) {
		return ""
	}
	text, ok := d.optText(a)
	if ok {
		d.checkExpr(a, a.Expr, text, want)
	}
	return text
}

// checkExpr reports what is wrong with the CEL expression text, which at stands for: a's expression, or a part of it.
func (d *decoder) checkExpr(a *hcl.Attribute, at hcl.Expression, text string, want expr.Result) {
	_, err := expr.Compile(text, want)
	var e *expr.Error
	switch {
	case errors.As(err, &e):
		d.inText(a, at, text, "CEL", e.Line, e.Column, e.Message)
	case err != nil:
		d.bad(a, "%s.", err)
	}
}

// jqProgram is a jq program, checked; "" when it is not written.
func (d *decoder) jqProgram(a *hcl.Attribute) string {
	text := d.filled(a)
	if text == "" {
		return ""
	}
	_, err := jq.Compile(text)
	var e *jq.Error
	switch {
	case errors.As(err, &e):
		d.inText(a, a.Expr, text, "jq", e.Line, e.Column, e.Message)
	case err != nil:
		d.bad(a, "%s.", err)
	}
	return text
}

func (d *decoder) checkPath(a *hcl.Attribute, i int, path string) {
	var e *maps.PathError
	if !errors.As(maps.CheckPath(path), &e) {
		return
	}
	d.inText(a, elementOf(a.Expr, i), path, "path", 1, utf8.RuneCountInString(path[:min(e.Column-1, len(path))])+1, e.Message)
}

// inText reports what is wrong at a line and column of a text in some language, at its place in the file if that can be told.
func (d *decoder) inText(a *hcl.Attribute, at hcl.Expression, text, language string, line, column int, message string) {
	if usesOutside(at) {
		d.errorAt(at.Range(), "Unsuitable value for "+a.Name, "This is no %s: line %d, column %d. It comes from env or file, so more is not shown.", language, line, column)
		return
	}
	place, ok := d.place(at, offsetOf(text, line, column))
	if !ok {
		d.errorAt(at.Range(), "Unsuitable value for "+a.Name, "This is no %s: line %d, column %d of the text: %s.", language, line, column, message)
		return
	}
	d.errorAt(place, "Unsuitable value for "+a.Name, "This is no %s: %s.", language, message)
}

// offsetOf is the byte at a line and a column in characters, both from 1.
func offsetOf(text string, line, column int) int {
	offset := 0
	for ; line > 1; line-- {
		n := strings.IndexByte(text[offset:], '\n')
		if n < 0 {
			return len(text)
		}
		offset += n + 1
	}
	for ; column > 1 && offset < len(text); column-- {
		_, size := utf8.DecodeRuneInString(text[offset:])
		offset += size
	}
	return offset
}

// place is where a byte of a text stands in the file; ok is false unless the text is written out in one piece, in quotes or
// as a heredoc.
func (d *decoder) place(e hcl.Expression, offset int) (hcl.Range, bool) {
	template, ok := e.(*hclsyntax.TemplateExpr)
	if !ok {
		return hcl.Range{}, false
	}
	heredoc := d.src[template.Range().Start.Byte] == '<'
	for i, part := range template.Parts {
		literal, ok := part.(*hclsyntax.LiteralValueExpr)
		if !ok || literal.Val.Type() != cty.String {
			return hcl.Range{}, false
		}
		text := literal.Val.AsString()
		if offset > len(text) || offset == len(text) && i < len(template.Parts)-1 {
			offset -= len(text)
			continue
		}
		r := literal.Range()
		begin := r.Start
		source := d.src[begin.Byte:r.End.Byte]
		indent := -1
		if heredoc {
			indent = begin.Column - 1
		}
		return hcl.Range{Filename: r.Filename, Start: advance(begin, source, sourceOffset(source, text, offset, indent)), End: r.End}, true
	}
	return hcl.Range{}, false
}

// sourceOffset is the byte of source that became the given one of text: escapes are longer in the source. indent is how much
// <<- has cut from each line of a heredoc, which has no escapes with \, and negative in quotes. source begins behind the
// first line's.
func sourceOffset(source []byte, text string, offset int, indent int) int {
	heredoc := indent >= 0
	i := 0
	for j := 0; j < offset && i < len(source); {
		rest := source[i:]
		switch {
		case !heredoc && rest[0] == '\\' && len(rest) > 1 && rest[1] == 'u':
			_, size := utf8.DecodeRuneInString(text[j:])
			i, j = i+6, j+size
		case !heredoc && rest[0] == '\\' && len(rest) > 1 && rest[1] == 'U':
			_, size := utf8.DecodeRuneInString(text[j:])
			i, j = i+10, j+size
		case !heredoc && rest[0] == '\\':
			i, j = i+2, j+1
		case heredoc && rest[0] == '\n':
			i, j = i+1+min(indent, indentation(string(rest[1:]))), j+1
		case len(rest) > 2 && (string(rest[:3]) == "$${" || string(rest[:3]) == "%%{"):
			i, j = i+2, j+1
		default:
			i, j = i+1, j+1
		}
	}
	return min(max(i, 0), len(source))
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// advance is pos after n bytes of source.
func advance(pos hcl.Pos, source []byte, n int) hcl.Pos {
	for _, r := range string(source[:n]) {
		if pos.Column++; r == '\n' {
			pos.Line, pos.Column = pos.Line+1, 1
		}
	}
	pos.Byte += n
	return pos
}

// elementOf is the expression of an element of a list that is written out, otherwise that of the whole.
func elementOf(e hcl.Expression, i int) hcl.Expression {
	if list, ok := e.(*hclsyntax.TupleConsExpr); ok && i < len(list.Exprs) {
		return list.Exprs[i]
	}
	return e
}

// member is the expression of a member of an object that is written out, otherwise that of the whole.
func member(e hcl.Expression, key string) hcl.Expression {
	object, ok := e.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return e
	}
	for _, item := range object.Items {
		if v, diags := item.KeyExpr.Value(nil); !diags.HasErrors() && v.Type() == cty.String && v.IsKnown() && !v.IsNull() && rawString(v) == key {
			return item.ValueExpr
		}
	}
	return e
}
