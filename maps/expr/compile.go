// Package expr is CEL over a record: the language of filter, route, key, timestamp, headers.set_expr and dedupe.by.
//
// Variables, and what they are when a record is not as simple as it could be:
//
//	key, value         text, or null for Kafka's null. Bytes that are no UTF-8 stay as they are inside the text: equality and
//	                   startsWith are byte for byte, what counts characters takes each such byte for one.
//	json               the parsed value, null for a null value. It is parsed when an expression reads it, once for a chain of
//	                   maps. A value that is no JSON is an error of the expression.
//	headers            map from name to text, the last value of a name; null for a header whose value is null
//	source             the source block's name
//	topic, partition   of the source
//	offset             of the source record
//	timestamp          of the record; -1 (none) is the millisecond before 1970
//
// Numbers in json: whole ones are int or, above 2^63-1, uint; one beyond 64 bits is an error. Those with a fraction or an
// exponent are doubles, and one that no double is, is an error. Where the result of the expression is written or
// remembered (all but filter), a number whose decimals a double cannot hold (0.1 is fine, 21 digits are not) is an error, too:
// it would be rounded in silence.
//
// Expressions are deterministic: they see nothing but the record, maps are gone through in the order of their text, or of
// their keys, and there is no clock; functions of a timestamp take every time zone but the machine's own. What they may cost is bounded when the estimate of their cost is not: see [CostLimit].
package expr

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// CostLimit is what one evaluation may cost, in CEL's units of about 100 ns: one or two tenths of a second. An expression that
// could cost more by its text and the largest record is watched while it runs, and fails beyond the limit. One that always
// costs more is refused when the configuration is read.
const CostLimit = 1_000_000

// largestField is what the estimate of the cost takes for the largest text in a record, in bytes: Kafka's default limit.
const largestField = 1 << 20

// maxText bounds the text of an expression, in bytes.
const maxText = 32 << 10

// Result is what an expression must come out as.
type Result int

// The results. Unless the type is known when the configuration is read (a part of json has none), each record is checked.
const (
	Bool  Result = iota // true or false
	Text                // text, not null
	Bytes               // text, bytes or null
	Time                // a timestamp, or Unix milliseconds as int
	Any                 // anything that identifies: see [Program.Identity]
)

// String says what it is, for messages.
func (w Result) String() string {
	switch w {
	case Bool:
		return "true or false"
	case Text:
		return "text"
	case Bytes:
		return "text, bytes or null"
	case Time:
		return "a timestamp or milliseconds since 1970 as int"
	case Any:
		return "a value"
	}
	return "nothing"
}

// takes says whether the type that the checker found may come out as w.
func (w Result) takes(t *cel.Type) bool {
	kind := t.Kind()
	is := func(kinds ...types.Kind) bool { return slices.Contains(kinds, kind) }
	if is(types.DynKind, types.AnyKind) {
		return true
	}
	switch {
	case is(types.OpaqueKind, types.TypeKind, types.ErrorKind):
		return false
	case is(types.BoolKind) && w == Bool, is(types.StringKind) && w == Text, is(types.TimestampKind, types.IntKind) && w == Time:
		return true
	case is(types.StringKind, types.BytesKind, types.NullTypeKind) && w == Bytes:
		return true
	}
	return w == Any
}

// Error is what is wrong with the text of an expression.
type Error struct {
	Line, Column int // from 1; the column in characters
	Message      string
}

// Error is the message with its place in the text.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// environment is the same for all expressions and costs about as much as a hundred of them.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	text := cel.NullableType(cel.StringType)
	return cel.NewEnv(
		cel.Variable("key", text), cel.Variable("value", text), cel.Variable("json", cel.DynType),
		cel.Variable("headers", cel.MapType(cel.StringType, text)),
		cel.Variable("source", cel.StringType), cel.Variable("topic", cel.StringType),
		cel.Variable("partition", cel.IntType), cel.Variable("offset", cel.IntType),
		cel.Variable("timestamp", cel.TimestampType),
		cel.OptionalTypes(), ext.Strings(), ext.Encoders(), ext.Math(),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	)
})

// Program is a compiled expression. Safe for concurrent use, each caller with an [Input] of its own.
type Program struct {
	program cel.Program
	want    Result
	reads   map[string]bool // variables by name
}

// Compile parses and checks text. It answers an [*Error] for the first thing that is wrong with it.
func Compile(text string, want Result) (*Program, error) {
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("make CEL: %w", err)
	}
	if strings.TrimSpace(text) == "" {
		return nil, &Error{1, 1, "the expression is empty"}
	}
	if len(text) > maxText {
		return nil, &Error{1, 1, fmt.Sprintf("the expression is longer than %d bytes", maxText)}
	}
	checked, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, &Error{first.Location.Line(), first.Location.Column() + 1, oneLine(first.Message)}
	}
	if !want.takes(checked.OutputType()) {
		return nil, &Error{1, 1, fmt.Sprintf("the expression gives %s, and must give %s", checked.OutputType(), want)}
	}
	if at, name := zoneLiteral(checked.NativeRep().Expr()); at != nil {
		place := checked.NativeRep().SourceInfo().GetStartLocation(at.ID())
		return nil, &Error{place.Line(), place.Column() + 1, fmt.Sprintf(closedZone, name)}
	}
	options, err := limits(env, checked)
	if err != nil {
		return nil, err
	}
	program, err := env.Program(checked, options...)
	if err != nil {
		return nil, &Error{1, 1, oneLine(err.Error())}
	}
	return &Program{program: program, want: want, reads: variables(checked)}, nil
}

// limits decides by the estimate whether the cost has to be watched, which allocates for every record.
func limits(env *cel.Env, checked *cel.Ast) ([]cel.ProgramOption, error) {
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(inOrder), cel.CustomDecoratorV2(checkZones)}
	estimate, err := env.EstimateCost(checked, sizes{})
	switch {
	case err != nil:
		return nil, &Error{1, 1, oneLine(err.Error())}
	case estimate.Min > CostLimit:
		return nil, &Error{1, 1, fmt.Sprintf("the expression costs at least %d for every record, and may cost %d", estimate.Min, CostLimit)}
	case estimate.Max > CostLimit:
		options = append(options, cel.CostLimit(CostLimit))
	}
	return options, nil
}

// sizes is the estimate of what a record holds.
type sizes struct{}

// EstimateSize bounds what comes from the record by the largest record.
func (sizes) EstimateSize(element cost.AstNode) *cost.SizeEstimate {
	if len(element.Path()) == 0 {
		return nil
	}
	return &cost.SizeEstimate{Min: 0, Max: largestField}
}

// EstimateCallCost leaves calls to CEL.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// variables are the names that the expression mentions; a local one of a macro counts as well, which at worst takes a
// record for needed.
func variables(checked *cel.Ast) map[string]bool {
	reads := map[string]bool{}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			reads[strings.TrimPrefix(e.AsIdent(), ".")] = true
		}
	}))
	return reads
}

// Only says whether the expression reads no other variables than these.
func (p *Program) Only(names ...string) bool {
	n := 0
	for _, name := range names {
		if p.reads[name] {
			n++
		}
	}
	for name := range p.reads {
		switch name {
		case "key", "value", "json", "headers", "source", "topic", "partition", "offset", "timestamp":
		default:
			n++ // local to a macro
		}
	}
	return n == len(p.reads)
}

// longestMessage bounds what an error may show of a record, in bytes.
const longestMessage = 200

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > longestMessage {
		s = strings.ToValidUTF8(s[:longestMessage], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
