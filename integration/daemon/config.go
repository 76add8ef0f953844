package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Attrs are attributes of a block: name → string, bool, int, []string, or Raw HCL.
type Attrs map[string]any

// Raw is HCL text that goes into the file as it is.
type Raw string

// Nested is the HCL text of a block without a label inside a block, such as sasl: the name is the attribute's.
type Nested string

// Block is a block with a label.
type Block struct {
	Label string
	Attrs Attrs
}

// Config is a configuration file with one bridge.
type Config struct {
	Name    string
	Attrs   Attrs // of the bridge block itself: semantic, workers
	Sources []Block
	Maps    []Block
	Sink    Block
	// Checkpoint is left out when it is nil.
	Checkpoint Attrs
	Restart    Attrs
	// Listen is server.listen.
	Listen string
}

// Clone copies the configuration so deep that the copy's attributes can be changed.
func (c Config) Clone() Config {
	c.Attrs, c.Checkpoint, c.Restart = maps.Clone(c.Attrs), maps.Clone(c.Checkpoint), maps.Clone(c.Restart)
	c.Sources, c.Maps = slices.Clone(c.Sources), slices.Clone(c.Maps)
	for i := range c.Sources {
		c.Sources[i].Attrs = maps.Clone(c.Sources[i].Attrs)
	}
	for i := range c.Maps {
		c.Maps[i].Attrs = maps.Clone(c.Maps[i].Attrs)
	}
	c.Sink.Attrs = maps.Clone(c.Sink.Attrs)
	return c
}

// HCL renders the file.
func (c Config) HCL() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bridge %q {\n", c.Name)
	attributes(&b, "  ", c.Attrs)
	for _, s := range c.Sources {
		block(&b, "source", s)
	}
	for _, m := range c.Maps {
		block(&b, "map", m)
	}
	block(&b, "sink", c.Sink)
	if c.Checkpoint != nil {
		block(&b, "checkpoint", Block{Attrs: c.Checkpoint})
	}
	if c.Restart != nil {
		block(&b, "restart", Block{Attrs: c.Restart})
	}
	fmt.Fprintf(&b, "}\nserver {\n  listen = %q\n}\nlog {\n  level = \"debug\"\n}\n", c.Listen)
	return b.String()
}

func block(b *strings.Builder, kind string, bl Block) {
	label := ""
	if bl.Label != "" {
		label = fmt.Sprintf(" %q", bl.Label)
	}
	fmt.Fprintf(b, "  %s%s {\n", kind, label)
	attributes(b, "    ", bl.Attrs)
	b.WriteString("  }\n")
}

func attributes(b *strings.Builder, indent string, attrs Attrs) {
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if nested, ok := attrs[name].(Nested); ok {
			fmt.Fprintf(b, "%s%s {\n%s\n%s}\n", indent, name, string(nested), indent)
			continue
		}
		fmt.Fprintf(b, "%s%s = %s\n", indent, name, expression(attrs[name]))
	}
}

func expression(v any) string {
	switch v := v.(type) {
	case Raw:
		return string(v)
	case string:
		return fmt.Sprintf("%q", v)
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = fmt.Sprintf("%q", s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	default: // bool and integers are written as Go writes them
		return fmt.Sprint(v)
	}
}
