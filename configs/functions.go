package configs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// origin is the cty mark of what env() and file() return. Marks follow a value through templates, so a message can tell
// that it must not show it. raw is kept because cty normalises strings (Unicode NFC): a password must arrive byte for byte.
// file is the absolute path, when the text is that of a file.
type origin struct{ raw, file string }

// outside reads the environment and files for one configuration. Each is read once: sink.topic is evaluated again for
// new topics at run time, when the file may be gone. Safe for concurrent use.
type outside struct {
	dir string // relative paths count from here

	mu      sync.Mutex
	files   map[string]string
	secrets []string // everything handed out, to be kept out of messages
}

func newOutside(dir string) *outside { return &outside{dir: dir, files: map[string]string{}} }

// hide keeps s out of messages from now on.
func (o *outside) hide(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s != "" && !slices.Contains(o.secrets, s) {
		o.secrets = append(o.secrets, s)
	}
}

// path makes a path of the configuration absolute.
func (o *outside) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(o.dir, p)
}

func (o *outside) mark(raw, file string) cty.Value {
	o.hide(raw)
	o.hide(cty.NormalizeString(raw)) // HCL's texts have it in this form
	return cty.StringVal(raw).Mark(&origin{raw: raw, file: file})
}

func (o *outside) functions() map[string]function.Function {
	arg := func(name string) function.Parameter {
		return function.Parameter{Name: name, Type: cty.String, AllowMarked: true}
	}
	rest := arg("default")
	return map[string]function.Function{
		"env": function.New(&function.Spec{
			Params:   []function.Parameter{arg("name")},
			VarParam: &rest,
			Type:     function.StaticReturnType(cty.String),
			Impl:     func(args []cty.Value, _ cty.Type) (cty.Value, error) { return o.env(args) },
		}),
		"file": function.New(&function.Spec{
			Params: []function.Parameter{arg("path")},
			Type:   function.StaticReturnType(cty.String),
			Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return o.file(args[0]) },
		}),
	}
}

// functionError is a message of env() or file() that is fit to be shown.
type functionError struct{ text string }

// Error is the message.
func (e functionError) Error() string { return e.text }

func functionErrorf(format string, args ...any) error {
	return functionError{fmt.Sprintf(format, args...)}
}

// env is env("NAME") and env("NAME", "default"). A variable that is set to nothing is set: the default is for unset ones.
func (o *outside) env(args []cty.Value) (cty.Value, error) {
	if len(args) > 2 {
		return cty.NilVal, functionErrorf(`env takes a name and perhaps a default: env("NAME") or env("NAME", "default")`)
	}
	name := rawString(args[0])
	if v, ok := os.LookupEnv(name); ok {
		return o.mark(v, ""), nil
	}
	if len(args) == 2 {
		return o.mark(rawString(args[1]), ""), nil
	}
	return cty.NilVal, functionErrorf("environment variable %s is not set, and there is no default", show(args[0]))
}

// file is file("path"): the text of the file without one newline at its end, because editors and most secret stores add one.
func (o *outside) file(arg cty.Value) (cty.Value, error) {
	path := o.path(rawString(arg))
	o.mu.Lock()
	text, ok := o.files[path]
	o.mu.Unlock()
	if !ok {
		var err error
		if text, err = readText(path); err != nil {
			return cty.NilVal, functionErrorf("cannot read file %s: %v", show(arg), err)
		}
		o.mu.Lock()
		o.files[path] = text
		o.mu.Unlock()
	}
	return o.mark(text, path), nil
}

// readText does not name the path in its errors: it may have come from env().
func readText(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", pathless(err)
	}
	if !info.Mode().IsRegular() { // a pipe or a device could block for ever
		return "", errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", pathless(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return "", pathless(err)
	}
	if len(b) > maxFileBytes {
		return "", fmt.Errorf("larger than %d bytes", maxFileBytes)
	}
	if text, ok := strings.CutSuffix(string(b), "\r\n"); ok {
		return text, nil
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

func pathless(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// rawString is the text of a string value, byte for byte as it came from outside.
func rawString(v cty.Value) string {
	if from := wholly(v); from != nil {
		return from.raw
	}
	plain, _ := v.Unmark()
	return plain.AsString()
}

// wholly is where the whole of a string value came from; nil when it was written, or put together.
func wholly(v cty.Value) *origin {
	plain, marks := v.Unmark()
	if len(marks) != 1 {
		return nil
	}
	for m := range marks {
		if from, ok := m.(*origin); ok && cty.NormalizeString(from.raw) == plain.AsString() {
			return from
		}
	}
	return nil
}

// show quotes v for a message, unless it came from outside.
func show(v cty.Value) string {
	if v.ContainsMarked() {
		return "(from env or file, not shown)"
	}
	return fmt.Sprintf("%q", v.AsString())
}
