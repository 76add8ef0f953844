// Package configs reads the configuration file: HCL blocks, which it translates to the Options of the packages that
// own the settings. The file's grammar is in grammar.go, an annotated sample of all of it in reference.hcl.
//
// Nothing here connects to anything; Load reads the configuration file, what file() names, and the environment. All
// problems are reported at once, with file, line, column and the source line. What came from env() or file(), and
// passwords written into the file, never appear in an error.
package configs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"kafkabridge/bridge"
	"kafkabridge/connect"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
	"kafkabridge/txn"
)

// File is a whole configuration file: one daemon.
type File struct {
	Bridges []Bridge // in the order of the file; at least one
	Server  ServerOptions
	Log     LogOptions
	Tests   []Test // of this file; see [File.LoadTests]
}

// Bridge is one bridge block, translated. Defaults are filled in and the Options are valid. The caller adds what
// belongs to the run: incarnation, loggers, --adopt, --until-end.
type Bridge struct {
	Options           bridge.Options
	Sink              txn.Options
	Store             *snapshot.Options // nil without a checkpoint block
	SourceConnections []connect.Options // same order as Options.Sources
	SinkConnection    connect.Options
}

// ServerOptions are the server block.
type ServerOptions struct {
	Listen string             // host:port of the HTTP surface; empty: none
	Token  *connect.Secret    // bearer token of everything that holds data; nil: none
	TLS    *connect.ServerTLS // nil: plain text
}

// LogOptions are the log block.
type LogOptions struct {
	Level  string // trace | debug | info | warn | error
	Format string // text | json
}

// Defaults of the settings that no other package owns.
const (
	DefaultListen    = "127.0.0.1:8080"
	DefaultLogLevel  = "info"
	DefaultLogFormat = "text"
	DefaultStateRoot = "/var/lib/bridge" // checkpoint.path is the bridge's directory in it
	DefaultKafkaPort = "9092"            // of a broker that is written without a port
)

// maxFileBytes bounds the configuration file and each file that file() reads: a path that names something else by
// mistake must not fill the memory.
const maxFileBytes = 1 << 20

// Load reads and translates the configuration file at path. kinds are the kinds of maps that the caller has registered beside
// the built-in ones: their blocks may have any attributes, and Settings is a map[string]any of them (string, bool,
// int64, float64, []any, map[string]any, nil). Its error is a Fatal [semantics.Error] with exit code 2. It wraps an
// [*Error] unless the file itself could not be read.
func Load(path string, kinds ...string) (*File, error) {
	src, err := readBounded(path)
	if err != nil {
		return nil, semantics.Misconfigured("read the configuration", "%w", err)
	}
	return Parse(src, path, kinds...)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(src) > maxFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFileBytes)
	}
	return src, err
}

// Parse translates the configuration in src. filename stands in messages; relative paths in the configuration count
// from its directory. kinds and errors are those of [Load].
func Parse(src []byte, filename string, kinds ...string) (*File, error) {
	if len(src) > maxFileBytes {
		return nil, semantics.Misconfigured("read the configuration", "%s is larger than %d bytes", filename, maxFileBytes)
	}
	abs, err := filepath.Abs(filename)
	if err != nil {
		return nil, semantics.Misconfigured("read the configuration", "%w", err)
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff")) // Windows editors write it; HCL refuses it
	d := newDecoder(src, filename, filepath.Dir(abs))
	d.kinds = kinds
	file := d.file()
	if err := d.err(); err != nil {
		return nil, semantics.Misconfigured("configuration", "%w", err)
	}
	return file, nil
}

// file parses and translates everything; what is wrong is in d.diags afterwards, and then the result is worthless.
func (d *decoder) file() *File {
	if pos, ok := tooDeep(d.src, d.filename); ok {
		d.errorAt(pos, "Nested too deeply", "Brackets and blocks may be nested %d deep, for expressions %d.", maxDepth, maxLoops)
		return nil
	}
	parsed, diags := hclsyntax.ParseConfig(d.src, d.filename, hcl.InitialPos)
	d.parsed(parsed, diags)
	if diags.HasErrors() {
		return nil // what could be read of a broken file would only give misleading errors
	}
	var g fileGrammar
	d.diags = append(d.diags, gohcl.DecodeBody(parsed.Body, nil, &g)...)
	out := &File{Server: d.server(g.Server), Log: d.log(g.Log)}
	if len(g.Bridges) == 0 && len(d.diags) == 0 {
		d.errorAt(parsed.Body.MissingItemRange(), "Missing bridge block", `At least one bridge "NAME" block is required.`)
	}
	var blocks []bridgeInfo
	for i := range g.Bridges {
		b, info := d.bridge(&g.Bridges[i])
		out.Bridges, blocks = append(out.Bridges, b), append(blocks, info)
	}
	d.crossCheck(out.Bridges, blocks)
	out.Tests = d.tests(g.Tests, out.Bridges)
	for i := range out.Bridges {
		if len(d.diags) == 0 {
			d.owners(&g.Bridges[i], &out.Bridges[i])
		}
	}
	return out
}

func (d *decoder) log(g *logGrammar) LogOptions {
	if g == nil {
		g = &logGrammar{}
	}
	return LogOptions{
		Level:  d.word(g.Level, DefaultLogLevel, "trace", "debug", "info", "warn", "error"),
		Format: d.word(g.Format, DefaultLogFormat, "text", "json"),
	}
}
