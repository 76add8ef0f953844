package expr

import (
	"strings"
	_ "time/tzdata" // where the machine has no zones, as in an image of nothing but the binary

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// zoned are CEL's functions of a timestamp that take a time zone as their argument.
var zoned = map[string]bool{"getFullYear": true, "getMonth": true, "getDate": true, "getDayOfMonth": true, "getDayOfWeek": true,
	"getDayOfYear": true, "getHours": true, "getMinutes": true, "getSeconds": true, "getMilliseconds": true}

// machineZone says whether a time zone is the one that this machine is set to, or a file that only some machines have.
func machineZone(name string) bool {
	return name == "Local" || name == "localtime" || name == "posixrules" || strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/")
}

const closedZone = "the time zone %q is closed here: it is the machine's, and a replay must produce the same output; name one such as Europe/Berlin or +02:00"

// zoneLiteral is the first such zone that the text of an expression names.
func zoneLiteral(root ast.Expr) (at ast.Expr, name string) {
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !zoned[e.AsCall().FunctionName()] || len(e.AsCall().Args()) != 1 || at != nil {
			return
		}
		if arg := e.AsCall().Args()[0]; arg.Kind() == ast.LiteralKind {
			if zone, ok := arg.AsLiteral().(types.String); ok && machineZone(string(zone)) {
				at, name = arg, string(zone)
			}
		}
	}))
	return at, name
}

// checkZones makes calls with such a zone, which may come out of the record, an error.
func checkZones(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if c, ok := i.(interpreter.InterpretableCall); ok && zoned[c.Function()] && len(c.Args()) == 2 {
		return &zonedCall{c}, nil
	}
	return i, nil
}

type zonedCall struct{ interpreter.InterpretableCall }

// Exec implements interpreter.InterpretableV2.
func (c *zonedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if wrong := zoneError(c.Args()[1].Exec(frame)); wrong != nil {
		return wrong
	}
	return c.InterpretableCall.Exec(frame)
}

// Eval implements interpreter.Interpretable.
func (c *zonedCall) Eval(vars interpreter.Activation) ref.Val {
	if wrong := zoneError(c.Args()[1].Eval(vars)); wrong != nil {
		return wrong
	}
	return c.InterpretableCall.Eval(vars)
}

func zoneError(zone ref.Val) ref.Val {
	if name, ok := zone.(types.String); ok && machineZone(string(name)) {
		return types.NewErr(closedZone, string(name))
	}
	return nil
}
