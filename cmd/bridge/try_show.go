package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// sideBySide shows records before and after the maps in two columns.
type sideBySide struct {
	w      io.Writer
	width  int // of both columns and what is between them, in characters
	colour bool
}

// terminalWidth is the width of the terminal behind w, or one that fits most screens.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= 40 {
			return width
		}
	}
	return 120
}

// The colours of a terminal.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	dim    = "\x1b[2m"
	normal = "\x1b[0m"
)

func (p *sideBySide) paint(colour, s string) string {
	if !p.colour || s == "" {
		return s
	}
	return colour + s + normal
}

func (p *sideBySide) show(r shownResult) error {
	title := fmt.Sprintf("%s/%d offset %d", r.Before.Topic, *r.Before.Partition, *r.Before.Offset)
	var note, colour string
	switch {
	case r.Error != "":
		note, colour = fmt.Sprintf("failed in map %s (on_error = %q): %s", r.Failed, r.OnError, r.Error), red
	case len(r.After) == 0:
		note, colour = "dropped by map "+r.Dropped, yellow
	case len(r.After) > 1:
		note = fmt.Sprintf("%d records", len(r.After))
	}
	if note != "" {
		note = "  " + p.paint(colour, printable(note))
	}
	if _, err := fmt.Fprintln(p.w, p.paint(dim, "── "+printable(title))+note); err != nil {
		return err
	}
	before := fields(r.Before)
	if len(r.After) == 0 {
		return p.columns(before, nil)
	}
	for i, after := range r.After {
		if i > 0 {
			before = nil
			if _, err := fmt.Fprintln(p.w); err != nil {
				return err
			}
		}
		if err := p.columns(before, fields(after)); err != nil {
			return err
		}
	}
	return nil
}

// field is one line of a record: a name and what it holds.
type field struct{ name, text string }

func fields(r shownRecord) []field {
	out := []field{{"topic", r.Topic}, {"key", textOf(r.Key, r.KeyBase64)}, {"value", textOf(r.Value, r.ValueBase64)},
		{"timestamp", time.UnixMilli(r.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z")}}
	for _, h := range r.Headers {
		out = append(out, field{"header", h.Key + "=" + textOf(h.Value, h.ValueBase64)})
	}
	return out
}

func textOf(text *string, raw []byte) string {
	switch {
	case text != nil && *text == "":
		return `""`
	case text != nil:
		return *text
	case raw != nil:
		return "base64:" + base64.StdEncoding.EncodeToString(raw)
	}
	return "null"
}

// columns writes the fields of both records, wrapped, side by side. What differs is coloured.
func (p *sideBySide) columns(before, after []field) error {
	column := (p.width - 3) / 2
	for i := range max(len(before), len(after)) {
		var left, right []string
		changed := true
		if i < len(before) {
			left = wrap(before[i], column)
		}
		if i < len(after) {
			right = wrap(after[i], column)
			changed = i >= len(before) || before[i] != after[i]
		}
		for line := range max(len(left), len(right)) {
			l, r := lineOf(left, line), lineOf(right, line)
			pad := strings.Repeat(" ", max(0, column-widthOf(l)))
			if changed {
				r = p.paint(green, r)
			}
			text := l
			if len(after) > 0 {
				text = l + pad + " │ " + r
			}
			if _, err := fmt.Fprintln(p.w, strings.TrimRight(text, " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// nameWidth is the column of the fields' names.
const nameWidth = 10

// maxLines bounds what is shown of one field.
const maxLines = 12

func wrap(f field, width int) (lines []string) {
	text := []rune(printable(f.text))
	room := max(width-nameWidth, 10)
	name := f.name
	for first := true; first || len(text) > 0; first = false {
		if len(lines) == maxLines {
			return append(lines, strings.Repeat(" ", nameWidth)+fmt.Sprintf("… %d more", len(text)))
		}
		n := fitting(text, room)
		lines = append(lines, fmt.Sprintf("%-*s%s", nameWidth, name, string(text[:n])))
		text, name = text[n:], ""
	}
	return lines
}

// fitting is how many characters fit into so many columns, at least one.
func fitting(text []rune, columns int) (n int) {
	for ; n < len(text); n++ {
		if columns -= columnsOf(text[n]); columns < 0 {
			break
		}
	}
	return max(n, min(1, len(text)))
}

func widthOf(s string) (columns int) {
	for _, r := range s {
		columns += columnsOf(r)
	}
	return columns
}

// columnsOf is how wide a terminal shows a character: an accent stands above the one before it, and an ideogram takes two columns.
func columnsOf(r rune) int {
	if unicode.Is(unicode.Mn, r) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	case width.Neutral, width.EastAsianAmbiguous, width.EastAsianNarrow, width.EastAsianHalfwidth:
	}
	return 1
}

// printable keeps what a record holds from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, s)
}
