package document

// values indexes the whole text. at is where it is wrong when ok is false.
func (d *Document) values() (at int, ok bool) {
	i := space(d.text, 0)
	for {
		if i, ok = d.value(i); !ok {
			return i, false
		}
		for more := false; !more; {
			if i = space(d.text, i); len(d.open) == 0 {
				return i, i == len(d.text)
			}
			if i, more, ok = d.after(i); !ok {
				return i, false
			}
		}
	}
}

// value indexes the value that begins at i: all of it, or the beginning of an array or object that is not empty, up to where
// its first value begins.
func (d *Document) value(i int) (at int, ok bool) {
	if i >= len(d.text) {
		return i, false
	}
	from := i
	kind := Kind(d.text[i])
	switch kind {
	case Object, Array:
		if len(d.open) >= MaxDepth {
			return i, false
		}
		d.open = append(d.open, int32(len(d.nodes)))
		d.add(kind, i, i)
		if i = space(d.text, i+1); i < len(d.text) && d.text[i] == byte(kind)+2 { // ']' and '}' are two behind '[' and '{'
			return d.close(i), true
		}
		if kind == Object {
			if i, ok = d.name(i); !ok {
				return i, false
			}
		}
		return d.value(i)
	case String:
		i, ok = str(d.text, i)
	case True:
		i, ok = literal(d.text, i, "true")
	case False:
		i, ok = literal(d.text, i, "false")
	case Null:
		i, ok = literal(d.text, i, "null")
	default:
		kind = Number
		i, ok = number(d.text, i)
	}
	d.add(kind, from, i)
	return i, ok
}

func (d *Document) add(kind Kind, from, to int) {
	d.nodes = append(d.nodes, node{from: int32(from), to: int32(to), next: int32(len(d.nodes)) + 1, kind: kind})
}

// name indexes a member's name and goes on to where its value begins.
func (d *Document) name(i int) (at int, ok bool) {
	from := i
	if i >= len(d.text) || d.text[i] != '"' {
		return i, false
	}
	if i, ok = str(d.text, i); !ok {
		return i, false
	}
	d.add(String, from, i)
	if i = space(d.text, i); i >= len(d.text) || d.text[i] != ':' {
		return i, false
	}
	return space(d.text, i+1), true
}

// after is what stands behind a value in the innermost array or object: its end, or a comma and the beginning of more.
func (d *Document) after(i int) (at int, more, ok bool) {
	if i >= len(d.text) {
		return i, false, false
	}
	kind := d.nodes[d.open[len(d.open)-1]].kind
	switch d.text[i] {
	case ',':
		i = space(d.text, i+1)
		if kind == Object {
			i, ok = d.name(i)
			return i, true, ok
		}
		return i, true, true
	case byte(kind) + 2:
		return d.close(i), false, true
	}
	return i, false, false
}

func (d *Document) close(i int) int {
	last := len(d.open) - 1
	n := &d.nodes[d.open[last]]
	n.to, n.next = int32(i)+1, int32(len(d.nodes))
	d.open = d.open[:last]
	return i + 1
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func literal(b []byte, i int, word string) (int, bool) {
	for j := range len(word) {
		if i+j >= len(b) || b[i+j] != word[j] {
			return i + j, false
		}
	}
	return i + len(word), true
}

// str goes behind the string that begins at i.
func str(b []byte, i int) (int, bool) {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c == '\\':
			i++
			if i >= len(b) {
				return i, false
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i >= len(b) || !hex(b[i]) {
						return i, false
					}
				}
			default:
				return i, false
			}
		case c < ' ':
			return i, false
		}
	}
	return i, false
}

func hex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// number goes behind the number that begins at i.
func number(b []byte, i int) (int, bool) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	var ok bool
	if i < len(b) && b[i] == '0' {
		i++
	} else if i, ok = digits(b, i); !ok {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		if i, ok = digits(b, i+1); !ok {
			return i, false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i, true
}

// digits goes behind at least one digit.
func digits(b []byte, i int) (int, bool) {
	from := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i, i > from
}
