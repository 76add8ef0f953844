package configs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Error is everything that is wrong with a configuration. Its text has, for each problem, file, line and column, the
// source line, and what to do. Secrets are in none of it.
type Error struct {
	Diagnostics hcl.Diagnostics // in the order of the file
	files       map[string]*hcl.File
}

// Bounds of an error's text: nobody reads more, and logs have limits of their own.
const (
	maxShown      = 50
	maxShownBytes = 64 << 10
)

// Error is the problems, ready for a terminal.
func (e *Error) Error() string {
	var b bytes.Buffer
	b.WriteString(plural(len(e.Diagnostics), "problem") + "\n\n")
	w := hcl.NewDiagnosticTextWriter(&b, e.files, 0, false)
	for i, diag := range e.Diagnostics {
		if i == maxShown || b.Len() > maxShownBytes {
			fmt.Fprintf(&b, "… and %s", plural(len(e.Diagnostics)-i, "more problem"))
			break
		}
		shown := *diag
		if s := diag.Subject; s != nil { // HCL's writer names the line but not the column
			shown.Summary = fmt.Sprintf("%s:%d:%d: %s", s.Filename, s.Start.Line, s.Start.Column, diag.Summary)
		}
		if err := w.WriteDiagnostic(&shown); err != nil {
			return fmt.Sprintf("%s (cannot show it: %v)", diag.Summary, err)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// ours marks a diagnostic whose text was made here, and so shows no secret by construction.
type ours struct{}

func (d *decoder) errorAt(at hcl.Range, summary, format string, args ...any) {
	d.diags = append(d.diags, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: &at, Extra: ours{},
	})
}

// bad reports a value at its place in the file.
func (d *decoder) bad(a *hcl.Attribute, format string, args ...any) {
	d.errorAt(a.Expr.Range(), "Unsuitable value for "+a.Name, format, args...)
}

// evaluated notes what went wrong in the evaluation of expr.
func (d *decoder) evaluated(expr hcl.Expression, diags hcl.Diagnostics) {
	d.diags = append(d.diags, discreet(expr, diags)...)
}

// discreet takes HCL's own words out of diagnostics on an expression that uses env() or file(): they quote keys and
// names that may have come from there.
func discreet(expr hcl.Expression, diags hcl.Diagnostics) hcl.Diagnostics {
	if !usesOutside(expr) {
		return diags
	}
	out := make(hcl.Diagnostics, len(diags))
	for i, diag := range diags {
		c := *diag
		if !isOurs(diag) {
			c.Detail = "This cannot be evaluated. It uses env or file, so more is not shown."
		}
		out[i] = &c
	}
	return out
}

func usesOutside(expr hcl.Expression) bool {
	node, ok := expr.(hclsyntax.Node)
	if !ok {
		return true
	}
	found := false
	diags := hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && (call.Name == "env" || call.Name == "file") {
			found = true
		}
		return nil
	})
	return found || diags.HasErrors()
}

// parsed notes the parsed file (nil-safe) for quoting, and the syntax errors.
func (d *decoder) parsed(file *hcl.File, diags hcl.Diagnostics) {
	blanked, hidden := blankSecrets(d.src, d.filename)
	quoted := &hcl.File{Bytes: blanked}
	if file != nil {
		quoted.Nav = file.Nav // names the block in messages
	}
	d.hidden = hidden
	d.files = map[string]*hcl.File{d.filename: quoted}
	d.diags = append(d.diags, diags...)
}

// err is nil, or all problems in the order of the file, without secrets.
func (d *decoder) err() error {
	if !d.diags.HasErrors() {
		return nil
	}
	clean := make(hcl.Diagnostics, 0, len(d.diags))
	for _, diag := range d.diags {
		clean = append(clean, d.clean(diag))
	}
	slices.SortStableFunc(clean, func(a, b *hcl.Diagnostic) int {
		return cmp.Compare(startByte(a), startByte(b))
	})
	clean = slices.CompactFunc(clean, func(a, b *hcl.Diagnostic) bool {
		return a.Summary == b.Summary && a.Detail == b.Detail && startByte(a) == startByte(b)
	})
	return &Error{Diagnostics: clean, files: d.files}
}

func startByte(diag *hcl.Diagnostic) int {
	if diag.Subject == nil {
		return 0
	}
	return diag.Subject.Start.Byte
}

// clean keeps secrets out of a diagnostic. HCL's own texts quote names and parts of values (an undefined variable, a
// missing object attribute), and its writer would print the values that an expression refers to.
func (d *decoder) clean(diag *hcl.Diagnostic) *hcl.Diagnostic {
	c := *diag
	c.Expression, c.EvalContext, c.Extra, c.Context = nil, nil, nil, nil
	if !isOurs(diag) && d.inSecret(diag.Subject) {
		c.Summary = "Unsuitable value for a secret"
		c.Detail = `This cannot be read; it is not shown because it may be a secret. Write env("NAME"), file("path"), or a string ` +
			`in quotes in which ${ is written $${, %{ is written %%{, and \ and " follow a \.`
	}
	shortest := scrubAnywhere
	if isOurs(diag) { // quotes what it shows, so a short value is only looked for in quotes
		shortest = scrubOurs
	}
	c.Summary, c.Detail = d.out.scrub(c.Summary, shortest), d.out.scrub(c.Detail, shortest)
	return &c
}

func isOurs(diag *hcl.Diagnostic) bool {
	if _, ok := diag.Extra.(ours); ok {
		return true
	}
	call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](diag)
	var own functionError
	return ok && errors.As(call.FunctionCallError(), &own)
}

func (d *decoder) inSecret(at *hcl.Range) bool {
	return at != nil && slices.ContainsFunc(d.hidden, func(r hcl.Range) bool {
		return at.Start.Byte < r.End.Byte && r.Start.Byte < max(at.End.Byte, at.Start.Byte+1)
	})
}

// The shortest secrets that are replaced wherever they occur; a shorter one is replaced in quotes only, because it may
// occur in any text.
const (
	scrubAnywhere = 4
	scrubOurs     = 8
)

// scrub is the second line of defence: no message should hold a secret in the first place.
func (o *outside) scrub(text string, shortest int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.secrets {
		quoted := strconv.Quote(s)
		text = strings.ReplaceAll(text, quoted, `"(not shown)"`)
		if len(s) >= shortest {
			text = strings.ReplaceAll(text, s, "(not shown)")
			text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], "(not shown)")
		}
	}
	return text
}
