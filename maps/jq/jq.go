// Package jq is jq over a record's JSON value, with gojq.
//
// A program sees the value as its input, and the variables $key (a string, or null), $headers (an object, the last value of a
// name), $source, $topic, $partition, $offset and $timestamp (milliseconds since 1970).
//
// It is closed to everything that is not the record: functions that read the clock, the time zone, the environment, other
// inputs or files are refused when it is compiled, and so is what stops or prints. It ends after [MaxSteps] instructions, which
// are counted and not timed, so that a replay ends at the same one. A text that it makes has at most 64 MiB, an array 4 million
// elements, and JSON is nested at most 10,000 deep, also on the way: so no record can make a program use up the memory at once.
// A program that keeps very many large values, or that compares values made to hold themselves a thousand million times over, is
// not kept from it: programs are the configuration's, and trusted.
//
// How it differs from jq 1.8: members of objects come out in the order of their names; whole numbers of any size are exact
// also when they are computed with; numbers that are not touched come out as they were written (1.10 stays 1.10, 1e1000 stays 1e1000);
// what follows the value, such as a second one, is an error. gojq's README has the rest.
package jq

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// Limits of one run of a program. The values that it makes on the way have bounds of their own: see [maxBytes].
const (
	MaxSteps       = 10_000_000 // instructions, about a second
	MaxOutputs     = 10_000
	MaxOutputBytes = 64 << 20 // of all outputs together
)

// maxText bounds the text of a program, in bytes.
const maxText = 256 << 10

// closed are the functions that do not depend on the record alone, or that are not for a program without terminal.
var closed = []string{"$ENV", "debug", "env", "get_search_list", "halt", "halt_error", "input", "input_filename", "input_line_number", "inputs",
	"localtime", "modulemeta", "now", "stderr", "strflocaltime"}

// Error is what is wrong with the text of a program.
type Error struct {
	Line, Column int // from 1; the column in characters
	Message      string
}

// Error is the message with its place in the text.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Program is a compiled program. Safe for concurrent use, each caller with an [Input] of its own.
type Program struct {
	code    *gojq.Code
	key     bool // reads $key
	headers bool // reads $headers
}

// variables are the names that every program knows, in the order of Input.variables.
var variables = []string{"$key", "$headers", "$source", "$topic", "$partition", "$offset", "$timestamp"}

// Compile parses and checks text. It answers an [*Error] for the first thing that is wrong with it.
func Compile(text string) (*Program, error) {
	if len(text) > maxText {
		return nil, &Error{1, 1, fmt.Sprintf("the program is longer than %d bytes", maxText)}
	}
	query, err := gojq.Parse(text)
	var parse *gojq.ParseError
	switch {
	case errors.As(err, &parse):
		return nil, at(text, parse.Offset-len(parse.Token), err.Error())
	case err != nil:
		return nil, at(text, 0, err.Error())
	}
	if err := open(text, query); err != nil {
		return nil, err
	}
	if err := guard(query); err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query, append(bounds(), gojq.WithVariables(variables))...)
	if err != nil {
		name := ""
		if m := undefined.FindStringSubmatch(err.Error()); m != nil {
			name = m[1]
		}
		return nil, at(text, position(text, name), err.Error())
	}
	return &Program{code: code, key: strings.Contains(text, "$key"), headers: strings.Contains(text, "$headers")}, nil
}

var undefined = regexp.MustCompile(`not defined: (@?\$?[A-Za-z0-9_:]+)`)

// open says what the program reads that is not the record.
func open(text string, query *gojq.Query) error {
	if len(query.Imports) > 0 {
		return at(text, position(text, "import", "include"), "modules cannot be read here")
	}
	used := map[string]bool{}
	names(reflect.ValueOf(query), used)
	for _, name := range closed {
		if used[name] {
			return at(text, position(text, name), name+" is closed here: a replay must produce the same output, so a program sees nothing but its record")
		}
	}
	if used["strptime"] && strings.Contains(text, "%Z") {
		return at(text, strings.Index(text, "%Z"), "%Z of strptime is closed here: it reads the machine's time zone; %z reads an offset")
	}
	return nil
}

// names collects the names of all functions and variables in a part of the syntax tree.
func names(v reflect.Value, used map[string]bool) {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer && !v.IsNil():
		if f, ok := v.Interface().(*gojq.Func); ok {
			used[f.Name] = true
		}
		names(v.Elem(), used)
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				names(v.Field(i), used)
			}
		}
	case kind == reflect.Slice:
		for i := range v.Len() {
			names(v.Index(i), used)
		}
	}
}

// position is where the first of the names stands as a word of its own. The syntax tree has no positions, so that one inside a
// comment or text before it is taken for it.
func position(text string, words ...string) int {
	for _, word := range words {
		for from := 0; word != ""; {
			n := strings.Index(text[from:], word)
			if n < 0 {
				break
			}
			begin, end := from+n, from+n+len(word)
			if (begin == 0 || !partOfWord(text[begin-1])) && (end == len(text) || text[end] == '.' || !partOfWord(text[end])) {
				return begin
			}
			from = end
		}
	}
	return 0
}

func partOfWord(c byte) bool {
	return c == '_' || c == '$' || c == '.' || c == ':' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// at makes an error at a byte of the text.
func at(text string, offset int, message string) *Error {
	before := text[:min(max(offset, 0), len(text))]
	line := strings.Count(before, "\n")
	before = before[strings.LastIndexByte(before, '\n')+1:]
	return &Error{line + 1, utf8.RuneCountInString(before) + 1, bounded(message)}
}

// longestMessage bounds what an error may show of a record, in bytes.
const longestMessage = 200

func bounded(s string) string {
	if len(s) > longestMessage {
		s = s[:longestMessage] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// steps is the context that a program runs under. gojq asks it before every instruction whether it is done: that is what
// counts them. A deadline would end a replay somewhere else than the first time.
type steps struct{ left int }

var ended = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done counts a step.
func (s *steps) Done() <-chan struct{} {
	if s.left--; s.left < 0 {
		return ended
	}
	return nil
}

// Err is not nil when the steps are used up.
func (s *steps) Err() error {
	if s.left < 0 {
		return fmt.Errorf("the program does not end within %d steps", MaxSteps)
	}
	return nil
}

// Deadline is none.
func (s *steps) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value is nothing.
func (s *steps) Value(any) any { return nil }

var _ context.Context = (*steps)(nil)
