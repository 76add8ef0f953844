package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"kafkabridge/configs"
)

// completeWord is the hidden command that the completion scripts call: bridge __complete -- WORD ... with the words after bridge
// up to the cursor. It prints what can stand for the last one, a line each: the word, a tab, a few words of help.
const completeWord = "__complete"

// choice is one thing that can follow.
type choice struct{ word, help string }

func complete(app *kong.Node, words []string, env environment) error {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	for _, c := range choices(app, words) {
		if _, err := fmt.Fprintf(env.stdout, "%s\t%s\n", c.word, strings.ReplaceAll(c.help, "\n", " ")); err != nil {
			return fmt.Errorf("complete: %w", err)
		}
	}
	return nil
}

// typed is a command line up to its last word.
type typed struct {
	node      *kong.Node // the command
	arguments int        // positional ones that it has
	flag      *kong.Flag // whose value comes next; nil: none
	config    string     // value of -c
}

func choices(app *kong.Node, words []string) []choice {
	t := typed{node: app, config: "bridge.hcl"}
	for _, w := range words[:len(words)-1] {
		t.take(w)
	}
	word, before := words[len(words)-1], ""
	if word == "=" { // bash makes a word of it
		word = ""
	}
	name, value, assigned := strings.Cut(word, "=")
	switch {
	case t.flag == nil && assigned && strings.HasPrefix(word, "-"):
		if t.flag = findFlag(t.node, name); t.flag == nil {
			return nil
		}
		word, before = value, name+"="
		fallthrough
	case t.flag != nil:
		return matching(t.values(t.flag.Value, word), word, before)
	case strings.HasPrefix(word, "-"):
		return matching(flags(t.node), word, "")
	}
	var out []choice
	for _, c := range t.node.Children {
		if !c.Hidden {
			out = append(out, choice{c.Name, c.Help})
		}
	}
	if t.arguments < len(t.node.Positional) {
		out = append(out, t.values(t.node.Positional[t.arguments], word)...)
	}
	return matching(out, word, "")
}

// take moves on over a word that is complete.
func (t *typed) take(w string) {
	name, value, assigned := strings.Cut(w, "=")
	switch {
	case w == "=":
	case t.flag != nil:
		t.note(t.flag, w)
		t.flag = nil
	case strings.HasPrefix(w, "-"):
		f := findFlag(t.node, name)
		switch {
		case f == nil || f.IsBool():
		case assigned:
			t.note(f, value)
		default:
			t.flag = f
		}
	default:
		i := slices.IndexFunc(t.node.Children, func(c *kong.Node) bool { return c.Name == w })
		if i < 0 {
			t.arguments++
			return
		}
		t.node, t.arguments = t.node.Children[i], 0
	}
}

func (t *typed) note(f *kong.Flag, value string) {
	if f.Name == "config" {
		t.config = value
	}
}

// findFlag is the flag of that name of a command or of what it belongs to.
func findFlag(n *kong.Node, name string) *kong.Flag {
	for ; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if name == "--"+f.Name || f.Short != 0 && name == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

func flags(n *kong.Node) (out []choice) {
	for ; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if f.Hidden {
				continue
			}
			out = append(out, choice{"--" + f.Name, f.Help})
			if f.Short != 0 {
				out = append(out, choice{"-" + string(f.Short), f.Help})
			}
		}
	}
	return out
}

// values are those of a flag or an argument that are known, or can be looked up in the configuration file, its state directories
// and the file system. Nothing is asked over the network, and what cannot be read is nothing to choose from.
func (t *typed) values(v *kong.Value, word string) []choice {
	if v.Enum != "" {
		var out []choice
		for _, w := range v.EnumSlice() {
			out = append(out, choice{word: w})
		}
		return out
	}
	switch t.node.Name + " " + v.Name {
	case "show epoch":
		return t.epochs()
	case "abort id":
		return t.names(func(b configs.Bridge) []string { return b.Options.TransactionalIDs })
	}
	switch v.Name {
	case "config":
		return paths(word, ".hcl")
	case "input":
		return paths(word, "")
	case "bridge":
		return t.names(func(b configs.Bridge) []string { return []string{b.Options.Name} })
	case "source":
		return t.names(func(b configs.Bridge) (out []string) {
			for _, s := range b.Options.Sources {
				out = append(out, s.Name)
			}
			return out
		})
	}
	return nil
}

// names are some of every bridge of the file.
func (t *typed) names(of func(configs.Bridge) []string) (out []choice) {
	file, err := configs.Load(t.config)
	if err != nil {
		return nil
	}
	for _, b := range file.Bridges {
		for _, name := range of(b) {
			out = append(out, choice{word: name})
		}
	}
	return out
}

func (t *typed) epochs() (out []choice) {
	file, err := configs.Load(t.config)
	if err != nil {
		return nil
	}
	all, err := readDirectories(file)
	if err != nil {
		return nil // a daemon holds it, most likely, and then checkpoints show cannot read it either
	}
	for _, d := range all {
		for _, e := range d.Checkpoints {
			out = append(out, choice{strconv.FormatInt(int64(e.Epoch), 10), d.Bridge + ", " + e.Status})
		}
	}
	return out
}

// paths are the files that end in suffix, and the directories, that continue word.
func paths(word, suffix string) (out []choice) {
	dir, _ := filepath.Split(word)
	entries, err := os.ReadDir(filepath.Join(".", dir))
	if filepath.IsAbs(dir) {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return nil
	}
	for _, e := range entries {
		switch name := dir + e.Name(); {
		case strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(word, name[:len(dir)+1]):
		case e.IsDir():
			out = append(out, choice{word: name + "/"})
		case strings.HasSuffix(name, suffix):
			out = append(out, choice{word: name})
		}
	}
	return out
}

// matching are those that begin with word, each once, with before in front.
func matching(all []choice, word, before string) (out []choice) {
	for _, c := range all {
		c.word = before + c.word
		fits := strings.HasPrefix(c.word, before+word) && !strings.ContainsAny(c.word, "\t\n\r")
		if fits && !slices.ContainsFunc(out, func(o choice) bool { return o.word == c.word }) {
			out = append(out, c)
		}
	}
	return out
}
