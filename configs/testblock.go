package configs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"kafkabridge/semantics"
)

// Test is one test block: what the maps of a bridge are to make of some records. Tests stand in tests blocks of the
// configuration, or of files beside it whose names end in "_test.hcl".
type Test struct {
	Name    string
	Place   string // "file:line"
	Bridge  string
	Inputs  []TestInput // in order; at least one
	Outputs []TestOutput
}

// TestInput is one source record.
type TestInput struct {
	TestRecord
	Source    string
	Partition int32
	Offset    int64
	Fails     string // text of the error that a map is to answer; "": none
}

// TestOutput is one record that is to come out. Only what is Given is compared.
type TestOutput struct {
	TestRecord
	JSON  bool // Value is compared as JSON: order of members and white space do not matter
	Given struct{ Topic, Timestamp, Key, Value, Headers bool }
}

// TestRecord is what a test says of a record. A nil Key or Value is null.
type TestRecord struct {
	Topic     string
	Timestamp int64 // Unix milliseconds
	Key       []byte
	Value     []byte
	Headers   []TestHeader // in ascending order of their keys
}

// TestHeader is one header.
type TestHeader struct {
	Key   string
	Value []byte
}

type testFileGrammar struct {
	Tests []testsGrammar `hcl:"tests,block"`
}

type testsGrammar struct {
	Tests []testGrammar `hcl:"test,block"`
}

type testGrammar struct {
	Name     string    `hcl:"name,label"`
	DefRange hcl.Range `hcl:",def_range"`

	Bridge  *hcl.Attribute      `hcl:"bridge,optional"`
	Inputs  []testRecordGrammar `hcl:"input,block"`
	Outputs []testOutputGrammar `hcl:"output,block"`
}

type testRecordGrammar struct {
	DefRange hcl.Range `hcl:",def_range"`

	Source    *hcl.Attribute `hcl:"source,optional"`
	Topic     *hcl.Attribute `hcl:"topic,optional"`
	Partition *hcl.Attribute `hcl:"partition,optional"`
	Offset    *hcl.Attribute `hcl:"offset,optional"`
	Timestamp *hcl.Attribute `hcl:"timestamp,optional"`
	Key       *hcl.Attribute `hcl:"key,optional"`
	Value     *hcl.Attribute `hcl:"value,optional"`
	Headers   *hcl.Attribute `hcl:"headers,optional"`
	Fails     *hcl.Attribute `hcl:"fails,optional"`
}

type testOutputGrammar struct {
	Topic     *hcl.Attribute `hcl:"topic,optional"`
	Timestamp *hcl.Attribute `hcl:"timestamp,optional"`
	Key       *hcl.Attribute `hcl:"key,optional"`
	Value     *hcl.Attribute `hcl:"value,optional"`
	Headers   *hcl.Attribute `hcl:"headers,optional"`
}

// testSuffix is how the names of files with tests end.
const testSuffix = "_test.hcl"

// LoadTests reads the test files beside the configuration at path, in the order of their names: all that end in "_test.hcl",
// but for those that are named after another configuration there (a_test.hcl beside a.hcl). Errors are those of [Load].
func (f *File) LoadTests(path string) ([]Test, error) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, semantics.Misconfigured("read the tests", "%w", err)
	}
	all := slices.Clone(f.Tests)
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, testSuffix) || name == filepath.Base(path) || ofAnother(entries, name, filepath.Base(path)) {
			continue
		}
		tests, err := f.loadTests(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, tests...)
	}
	return all, nil
}

func ofAnother(entries []fs.DirEntry, test, config string) bool {
	owner := strings.TrimSuffix(test, testSuffix) + ".hcl"
	return owner != config && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == owner })
}

func (f *File) loadTests(path string) ([]Test, error) {
	src, err := readBounded(path)
	if err != nil {
		return nil, semantics.Misconfigured("read the tests", "%w", err)
	}
	d := newDecoder(src, path, filepath.Dir(path))
	parsed, diags := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	d.parsed(parsed, diags)
	var tests []Test
	if !diags.HasErrors() {
		var g testFileGrammar
		d.diags = append(d.diags, gohcl.DecodeBody(parsed.Body, nil, &g)...)
		tests = d.tests(g.Tests, f.Bridges)
	}
	if err := d.err(); err != nil {
		return nil, semantics.Misconfigured("tests", "%w", err)
	}
	return tests, nil
}

func (d *decoder) tests(blocks []testsGrammar, bridges []Bridge) (out []Test) {
	for _, b := range blocks {
		for i := range b.Tests {
			out = append(out, d.test(&b.Tests[i], bridges))
		}
	}
	return out
}

func (d *decoder) test(g *testGrammar, bridges []Bridge) Test {
	t := Test{Name: g.Name, Place: fmt.Sprintf("%s:%d", g.DefRange.Filename, g.DefRange.Start.Line), Bridge: d.text(g.Bridge, "")}
	b := d.testedBridge(g, bridges)
	if b == nil {
		return t
	}
	t.Bridge = b.Options.Name
	if len(g.Inputs) == 0 {
		d.errorAt(g.DefRange, "Test without input", "A test needs at least one input block.")
	}
	next := map[string]int64{}
	for i := range g.Inputs {
		t.Inputs = append(t.Inputs, d.testInput(&g.Inputs[i], b, next))
	}
	for i := range g.Outputs {
		t.Outputs = append(t.Outputs, d.testOutput(&g.Outputs[i]))
	}
	return t
}

func (d *decoder) testedBridge(g *testGrammar, bridges []Bridge) *Bridge {
	if len(bridges) == 0 {
		return nil // reported already
	}
	if !d.given(g.Bridge) {
		if len(bridges) > 1 {
			d.errorAt(g.DefRange, "Missing required argument", "bridge says which of the file's %d bridges is tested.", len(bridges))
			return nil
		}
		return &bridges[0]
	}
	var names []string
	for i := range bridges {
		names = append(names, bridges[i].Options.Name)
	}
	name := d.word(g.Bridge, names[0], names...)
	return &bridges[slices.Index(names, name)]
}

// testInput fills in what a test need not say: the bridge's first source, its first topic, partition 0, the offset after the one before.
func (d *decoder) testInput(g *testRecordGrammar, b *Bridge, next map[string]int64) TestInput {
	var names []string
	for _, s := range b.Options.Sources {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return TestInput{} // reported already
	}
	in := TestInput{Source: d.word(g.Source, names[0], names...), Fails: d.text(g.Fails, ""), Partition: int32(d.integer(g.Partition, 0, 0, 1<<31-1))}
	topic := "topic"
	if s := b.Options.Sources[slices.Index(names, in.Source)]; len(s.Topics) > 0 {
		topic = s.Topics[0]
	}
	in.Topic = d.text(g.Topic, topic)
	in.Timestamp, _ = d.testTime(g.Timestamp)
	in.Key, _ = d.testBytes(g.Key)
	in.Value, _ = d.testBytes(g.Value)
	in.Headers = d.testHeaders(g.Headers)
	of := fmt.Sprintf("%s/%s/%d", in.Source, in.Topic, in.Partition)
	in.Offset = d.integer(g.Offset, next[of], 0, 1<<62)
	next[of] = in.Offset + 1
	return in
}

func (d *decoder) testOutput(g *testOutputGrammar) TestOutput {
	var out TestOutput
	out.Topic = d.text(g.Topic, "")
	out.Timestamp, _ = d.testTime(g.Timestamp)
	out.Key, _ = d.testBytes(g.Key)
	out.Value, out.JSON = d.testBytes(g.Value)
	out.Headers = d.testHeaders(g.Headers)
	out.Given.Topic, out.Given.Timestamp, out.Given.Key = written(g.Topic), written(g.Timestamp), written(g.Key)
	out.Given.Value, out.Given.Headers = written(g.Value), written(g.Headers)
	return out
}

// testTime is an RFC 3339 time or Unix milliseconds.
func (d *decoder) testTime(a *hcl.Attribute) (int64, bool) {
	v, ok := d.value(a)
	if !ok {
		return 0, false
	}
	if v.Type() == cty.Number {
		return d.integer(a, 0, -1, 1<<62), true
	}
	t, err := time.Parse(time.RFC3339Nano, d.text(a, ""))
	if err != nil {
		d.bad(a, `%s is a time such as "2026-01-02T15:04:05Z", or a number of milliseconds since 1970.`, a.Name)
		return 0, false
	}
	return t.UnixMilli(), true
}

// testBytes is a key or a value: a string as it is, null, or anything else as the JSON that it is.
func (d *decoder) testBytes(a *hcl.Attribute) (b []byte, isJSON bool) {
	v, ok := d.value(a)
	switch {
	case !ok:
		return nil, false
	case v.Type() == cty.String:
		return []byte(rawString(v)), false
	}
	plain, _ := v.UnmarkDeep()
	b, err := ctyjson.Marshal(plain, plain.Type())
	if err != nil {
		d.bad(a, "%s cannot be written as JSON: %v", a.Name, err)
	}
	return b, true
}

func (d *decoder) testHeaders(a *hcl.Attribute) (out []TestHeader) {
	if a == nil {
		return nil
	}
	d.mapping(a, `a map of strings, such as { "a" = "b" }`, func(key string, v cty.Value) bool {
		if v.Type() != cty.String {
			return false
		}
		out = append(out, TestHeader{Key: key, Value: []byte(rawString(v))})
		return true
	})
	slices.SortStableFunc(out, func(a, b TestHeader) int { return strings.Compare(a.Key, b.Key) })
	return out
}
