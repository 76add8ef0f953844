package maps

import (
	"fmt"
	"strconv"
	"strings"
)

// step is one step of a path into a JSON value.
type step struct {
	name    string // of a member
	index   int    // of an element, or allElements; only when name is not used
	element bool   // index counts, not name
}

const allElements = -1

// PathError is what is wrong with a path.
type PathError struct {
	Column  int // from 1, in bytes
	Message string
}

// Error is the message with its place in the path.
func (e *PathError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

// CheckPath says what is wrong with a path of [MaskOptions]: nil, or a [*PathError].
func CheckPath(path string) error {
	_, err := parsePath(path)
	return err
}

// parsePath reads names separated by dots, each followed by any number of [n] and []; the first may be an element as well.
func parsePath(path string) ([]step, error) {
	p := pathParser{text: path}
	for {
		if err := p.step(); err != nil {
			return nil, err
		}
		if p.at == len(path) {
			return p.steps, nil
		}
	}
}

type pathParser struct {
	text  string
	at    int
	steps []step
}

func (p *pathParser) wrong(at int, format string, args ...any) error {
	return &PathError{at + 1, fmt.Sprintf(format, args...)}
}

// step reads one step and the dot before it.
func (p *pathParser) step() error {
	rest := p.text[p.at:]
	if rest != "" && rest[0] == '[' {
		return p.element()
	}
	if len(p.steps) > 0 {
		if rest[0] != '.' {
			return p.wrong(p.at, "a dot or [ must stand before the next step")
		}
		p.at++
	}
	if p.at == len(p.text) {
		return p.wrong(p.at, "a name is missing")
	}
	if c := p.text[p.at]; c == '"' || c == '\'' {
		return p.quoted(c)
	}
	from := p.at
	if n := strings.IndexAny(p.text[from:], ".[]\"'"); n >= 0 {
		p.at += n
	} else {
		p.at = len(p.text)
	}
	if p.at == from {
		return p.wrong(p.at, "a name is missing; put one with special characters in quotes: 'a.b'.c")
	}
	p.steps = append(p.steps, step{name: p.text[from:p.at]})
	return nil
}

// quoted reads a name in quotes, in which \ takes the next character as it is.
func (p *pathParser) quoted(quote byte) error {
	from := p.at
	var name []byte
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case quote:
			p.at++
			p.steps = append(p.steps, step{name: string(name)})
			return nil
		case '\\':
			if p.at++; p.at < len(p.text) {
				name = append(name, p.text[p.at])
			}
		default:
			name = append(name, c)
		}
	}
	return p.wrong(from, "this quote is not closed")
}

// element reads [] or [n].
func (p *pathParser) element() error {
	end := strings.IndexByte(p.text[p.at:], ']')
	if end < 0 {
		return p.wrong(p.at, "this bracket is not closed")
	}
	inner := p.text[p.at+1 : p.at+end]
	s := step{element: true, index: allElements}
	if inner != "" {
		n, err := strconv.ParseUint(inner, 10, 31)
		if err != nil {
			return p.wrong(p.at+1, "only a number may stand in brackets; [] means all elements")
		}
		s.index = int(n)
	}
	p.steps = append(p.steps, s)
	p.at += end + 1
	return nil
}
