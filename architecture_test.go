// Package kafkabridge_test holds the rules that the compiler does not check.
package kafkabridge_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "kafkabridge"

// franz are the parts of franz-go by their import paths.
const franz = "github.com/twmb/franz-go/pkg/"

const hclog = "github.com/hashicorp/go-hclog"

// arrows are all the imports that a package may have beyond the standard library: a path allows itself and what is below
// it. A package that is not listed may import nothing. "*" allows everything, except integration.
var arrows = map[string][]string{
	"semantics": {},
	// kgo's Decompressor bounds a batch at 2 GiB and allocates per batch: batch uses the same libraries with a bound of its own.
	"batch":       {franz + "kgo", franz + "kmsg", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4"},
	"snapshot":    {module + "/semantics", "github.com/cockroachdb/pebble/v2", hclog},
	"txn":         {module + "/semantics", module + "/batch", franz + "kgo", franz + "kmsg", franz + "kerr", franz + "kadm", hclog},
	"bridge":      {module + "/semantics", module + "/batch", franz + "kgo", franz + "kmsg", franz + "kerr", franz + "kadm", hclog},
	"maps":        {module + "/semantics", module + "/batch", module + "/bridge", "cel.dev/cel-go", "github.com/itchyny/gojq"},
	"connect":     {franz + "kgo", franz + "kerr", franz + "sasl", hclog, "github.com/aws/aws-sdk-go-v2"}, // AWS: who we are in AWS_MSK_IAM
	"server":      {module + "/bridge", module + "/semantics", "github.com/prometheus/client_golang", franz + "kgo", "github.com/twmb/franz-go/plugin/kprom", "golang.org/x/net/netutil", hclog},
	"tracing":     {module + "/bridge", module + "/semantics", "go.opentelemetry.io/otel", "github.com/go-logr/logr", hclog},
	"configs":     {module + "/semantics", module + "/snapshot", module + "/txn", module + "/bridge", module + "/connect", module + "/maps", "github.com/hashicorp/hcl/v2", "github.com/zclconf/go-cty"}, // go-cty: the values of hcl
	".":           {"*"},
	"cmd":         {"*"},
	"integration": {"*"},
}

// source is one parsed file that is not a test.
type source struct {
	path string // slash-separated, from the module's root
	file *ast.File
}

func (s source) folder() string {
	top, _, below := strings.Cut(s.path, "/")
	if !below {
		return "." // the library
	}
	return top
}

func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	set := token.NewFileSet()
	var out []source
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		out = append(out, source{filepath.ToSlash(path), f})
	})
	return set, out
}

// walk visits every file of the repository.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" && d.Name() != ".github":
			return filepath.SkipDir
		case d.Type().IsRegular():
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk: %v", err)
	}
}

// TestArrows fails on an import that the design does not have.
func TestArrows(t *testing.T) {
	_, files := sources(t)
	for _, s := range files {
		for _, i := range s.file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatalf("%s: import %s: %v", s.path, i.Path.Value, err)
			}
			if why := forbidden(s.folder(), path); why != "" {
				t.Errorf("%s imports %s: %s", s.path, path, why)
			}
		}
	}
}

func forbidden(from, path string) string {
	within := func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	if within(module + "/integration") {
		if from == "integration" {
			return ""
		}
		return "nobody imports integration"
	}
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") && first != module {
		return "" // standard library
	}
	if within(module + "/" + from) {
		return ""
	}
	allowed, known := arrows[from]
	switch {
	case !known:
		return "the folder " + from + " is not in the table of arrows"
	case slices.Contains(allowed, "*") || slices.ContainsFunc(allowed, within):
		return ""
	}
	return "there is no such arrow"
}

// TestSemanticsIsPure: the machine is a value. Time, goroutines and logs belong to its driver.
func TestSemanticsIsPure(t *testing.T) {
	set, files := sources(t)
	for _, s := range files {
		if s.folder() != "semantics" {
			continue
		}
		for _, i := range s.file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if slices.Contains([]string{"time", "context", "sync", "log", "os", "net", "io", "math/rand", "math/rand/v2"}, path) ||
				strings.HasPrefix(path, "log/") || strings.HasPrefix(path, "sync/") || strings.HasPrefix(path, "net/") {
				t.Errorf("%s imports %s", s.path, path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s: goroutines and channels have no place here", set.Position(n.Pos()))
			}
			return true
		})
	}
}

// errorName are names that hold an error in this repository.
var errorName = regexp.MustCompile(`^(err|cause|failure|fatal)$|^err[A-Z0-9]|Err$`)

// TestErrorsAreWrapped fails on fmt.Errorf with an error among its arguments and no %w: whoever asks for the class of such an
// error gets Unknown, and a refusal loses its exit code.
func TestErrorsAreWrapped(t *testing.T) {
	set, files := sources(t)
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isSelector(call.Fun, "fmt", "Errorf") || len(call.Args) < 2 {
				return true
			}
			format, ok := call.Args[0].(*ast.BasicLit)
			if ok && !strings.Contains(format.Value, "%w") && slices.ContainsFunc(call.Args[1:], isError) {
				t.Errorf("%s: fmt.Errorf with an error, but without %%w", set.Position(call.Pos()))
			}
			return true
		})
	}
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func isError(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return errorName.MatchString(e.Name)
	case *ast.SelectorExpr:
		return errorName.MatchString(e.Sel.Name)
	case *ast.CallExpr:
		return isSelector(e.Fun, "errors", "New") || isSelector(e.Fun, "errors", "Join") || isSelector(e.Fun, "fmt", "Errorf") ||
			isSelector(e.Fun, "kerr", "ErrorForCode")
	}
	return false
}

// TestExportedIsDocumented fails on an exported identifier without a doc comment. A comment on the line, or on the group of
// constants, will do.
func TestExportedIsDocumented(t *testing.T) {
	set, files := sources(t)
	for _, s := range files {
		missing := func(id *ast.Ident) {
			if id.IsExported() {
				t.Errorf("%s: %s has no doc comment", set.Position(id.Pos()), id.Name)
			}
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && receiverIsExported(d) {
					missing(d.Name)
				}
			case *ast.GenDecl:
				undocumented(d, missing)
			}
		}
	}
}

func receiverIsExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func undocumented(d *ast.GenDecl, missing func(*ast.Ident)) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				missing(spec.Name)
			}
		case *ast.ValueSpec:
			if d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				for _, n := range spec.Names {
					missing(n)
				}
			}
		}
	}
}

// machinePath finds paths that exist on somebody's machine only. It is put together here so that this file does not contain one.
var machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_.~-])/` + `(work|root|home/[a-z]+|Users/[A-Za-z]+)/[A-Za-z0-9._]`)

// TestNoMachinePaths fails on a file that names a path of the machine it was written on.
func TestNoMachinePaths(t *testing.T) {
	walk(t, func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 {
			return // not text
		}
		for n, line := range bytes.Split(b, []byte("\n")) {
			if m := machinePath.Find(line); m != nil {
				t.Errorf("%s:%d: names %q", path, n+1, bytes.TrimSpace(m))
			}
		}
	})
}
