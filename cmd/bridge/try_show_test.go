package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
)

// TestSideBySideOfAnything: the columns stay columns whatever a record holds, and nothing of it reaches the terminal as a command.
func TestSideBySideOfAnything(t *testing.T) {
	text := func(s string) *string { return &s }
	partition, offset := int32(0), int64(1)
	for _, value := range []string{strings.Repeat("日本語", 40), strings.Repeat("e\u0301", 100), "\x1b[2J\x1b]0;title\a\r\n\b", "\u009b31m\u202eevil\u200b", strings.Repeat("ａ", 99), ""} {
		var out bytes.Buffer
		p := &sideBySide{w: &out, width: 61}
		before := shownRecord{Topic: "t", Partition: &partition, Offset: &offset, Key: text("k"), Value: text(value), Headers: []shownHeader{{Key: value, Value: text(value)}}}
		after := before
		after.Value = text(value + "!")
		if err := p.show(shownResult{Before: before, After: []shownRecord{after}}); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimRight(out.String(), "\n"), "\n") {
			if i > 0 {
				left, _, found := strings.Cut(line, "│")
				if columns := shownColumns(left); !found || columns != 30 {
					t.Errorf("%.20q: the right column of %q begins at %d", value, line, columns)
				}
			}
			if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q is not printable", line)
			}
		}
	}
}

// shownColumns counts as a terminal does, for the characters of the test.
func shownColumns(s string) (n int) {
	for _, r := range s {
		switch {
		case r == '\u0301':
		case strings.ContainsRune("日本語ａ", r):
			n += 2
		default:
			n++
		}
	}
	return n
}
