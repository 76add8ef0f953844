package configs

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"kafkabridge/semantics"
)

func sample(t *testing.T, name string) []byte {
	t.Helper()
	b, err := Samples.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSamplesParse(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "west-password", "pw\n")
	t.Setenv("EAST_PASSWORD", "e")
	t.Setenv("WEST_USER", "w")
	entries, err := Samples.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if _, err := Parse(sample(t, e.Name()), dir+"/"+e.Name()); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
	if want := []string{"minimal.hcl", "quickstart.hcl", "reference.hcl", "two-clusters.hcl"}; !slices.Equal(names, want) {
		t.Errorf("samples %v, want %v", names, want)
	}
}

var commented = regexp.MustCompile(`(?m)^(\s*)# ((?:tls|sasl|dead_letter) \{|\}|  [a-z_]+ += .*|topics_[a-z]+ += .*)`)

// uncommented is reference.hcl with its commented blocks and attributes in force.
func uncommented(t *testing.T) []byte {
	return commented.ReplaceAll(sample(t, "reference.hcl"), []byte("$1$2"))
}

// paths lists the attributes and blocks of a file as "bridge/source/topics".
func paths(t *testing.T, src []byte) map[string]*hclsyntax.Attribute {
	t.Helper()
	f, diags := hclsyntax.ParseConfig(src, "reference.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	out := map[string]*hclsyntax.Attribute{}
	var walk func(prefix string, b *hclsyntax.Body)
	walk = func(prefix string, b *hclsyntax.Body) {
		for name, a := range b.Attributes {
			out[prefix+name] = a
		}
		for _, block := range b.Blocks {
			name := block.Type
			if name == "map" { // its kind says which attributes it has
				name += " " + block.Labels[0]
			}
			out[prefix+name] = nil
			walk(prefix+name+"/", block.Body)
		}
	}
	walk("", f.Body.(*hclsyntax.Body))
	return out
}

// grammarPaths lists the same from the grammar's types.
func grammarPaths(prefix string, t reflect.Type, out map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, kind, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		switch kind {
		case "optional":
			out[prefix+name] = true
		case "block":
			out[prefix+name] = true
			e := f.Type
			for e.Kind() == reflect.Slice || e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			grammarPaths(prefix+name+"/", e, out)
		}
	}
}

func TestReferenceIsComplete(t *testing.T) {
	want := map[string]bool{}
	grammarPaths("", reflect.TypeFor[fileGrammar](), want)
	delete(want, "bridge/map")
	delete(want, "bridge/map/on_error")
	want["bridge/map filter/on_error"] = true // of every kind, and written once
	bodies := map[string]reflect.Type{
		"dedupe": reflect.TypeFor[dedupeGrammar](), "filter": reflect.TypeFor[filterGrammar](), "headers": reflect.TypeFor[headersGrammar](),
		"jq": reflect.TypeFor[jqGrammar](), "key": reflect.TypeFor[keyGrammar](), "mask": reflect.TypeFor[maskGrammar](),
		"route": reflect.TypeFor[routeGrammar](), "timestamp": reflect.TypeFor[timestampGrammar](),
	}
	for kind := range mapKinds() {
		if bodies[kind] == nil {
			t.Errorf("a new map kind %s: add its grammar here and to reference.hcl", kind)
			continue
		}
		want["bridge/map "+kind] = true
		grammarPaths("bridge/map "+kind+"/", bodies[kind], want)
	}
	maps.DeleteFunc(want, func(p string, _ bool) bool { // written out for the source only
		return strings.HasPrefix(p, "bridge/sink/tls/") || strings.HasPrefix(p, "bridge/sink/sasl/")
	})
	got := paths(t, uncommented(t))
	for p := range want {
		if _, ok := got[p]; !ok {
			t.Errorf("%s is in the grammar and not in reference.hcl", p)
		}
	}
	for p := range got {
		if !want[p] {
			t.Errorf("%s is in reference.hcl and not in the grammar", p)
		}
	}
}

// withoutFunctions makes files comparable: functions never are equal.
func withoutFunctions(f *File) *File {
	for i := range f.Bridges {
		f.Bridges[i].Options.Sink.Topic = nil
	}
	for i := range f.Tests {
		f.Tests[i].Place = "" // lines move
	}
	return f
}

// TestReferenceDefaults takes one attribute after the other out of reference.hcl: what is left must mean the same. The
// exceptions are those that the sample marks.
func TestReferenceDefaults(t *testing.T) {
	src := sample(t, "reference.hcl")
	full, err := Parse(src, "/etc/bridge.hcl")
	if err != nil {
		t.Fatal(err)
	}
	withoutFunctions(full)
	tested := 0
	for path, a := range paths(t, src) {
		if a == nil || strings.HasPrefix(path, "tests/test/output/") || slices.Contains([]string{"tests/test/input/timestamp", "tests/test/input/key", "tests/test/input/value"}, path) {
			continue // a test says there what it is about
		}
		line, _, _ := strings.Cut(string(src[a.NameRange.Start.Byte:]), "\n")
		cut := slices.Concat(src[:a.SrcRange.Start.Byte], src[a.SrcRange.End.Byte:])
		got, err := Parse(cut, "/etc/bridge.hcl")
		switch {
		case strings.Contains(line, "# required"):
			if err == nil || !strings.Contains(err.Error(), "required") {
				t.Errorf("%s is said to be required, but: %v", path, err)
			}
		case err != nil:
			t.Errorf("%s: %v", path, err)
		case path == "bridge/semantic":
			if s := got.Bridges[0].Options.Semantic; s != semantics.AtLeastOnce {
				t.Errorf("semantic defaults to %v", s)
			}
		case path == "bridge/map headers/set":
		case !reflect.DeepEqual(withoutFunctions(got), full):
			t.Errorf("%s: another default than the one written", path)
		}
		tested++
	}
	if tested < 40 {
		t.Errorf("only %d attributes tested", tested)
	}
}

func TestReferenceBlocksHaveDefaults(t *testing.T) {
	src := string(sample(t, "reference.hcl"))
	full, err := Parse([]byte(src), "/etc/bridge.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range []string{"server", "log", "  restart"} {
		i := strings.Index(src, "\n"+block+" {")
		j := i + strings.Index(src[i:], "\n"+strings.Repeat(" ", len(block)-len(strings.TrimLeft(block, " ")))+"}") + 1
		j += strings.Index(src[j:], "}") + 1
		got, err := Parse([]byte(src[:i]+src[j:]), "/etc/bridge.hcl")
		if err != nil {
			t.Errorf("without %s: %v", block, err)
			continue
		}
		if !reflect.DeepEqual(withoutFunctions(got), withoutFunctions(full)) {
			t.Errorf("leaving out %s changes something", block)
		}
	}
}
