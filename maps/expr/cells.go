package expr

import (
	"unsafe"

	"cel.dev/cel-go/common/types/ref"
)

// cell is a CEL value whose content is written again for the next record. Putting a text, number or time into an interface
// allocates each time; a chain that reads no JSON would allocate for every record because of it.
//
// A value of an interface is a pair of type and pointer. val is made with the type of T and a pointer to content, which Go
// itself does not offer. CEL keeps no value from one evaluation to the next, and what an evaluation returns is used before
// the next one.
type cell[T ref.Val] struct {
	val     ref.Val
	content *T
}

// newCell makes a cell. T must be a type that does not fit into a pointer itself: not a pointer, map, channel or function.
func newCell[T ref.Val]() cell[T] {
	content := new(T)
	var val ref.Val = *content
	(*[2]unsafe.Pointer)(unsafe.Pointer(&val))[1] = unsafe.Pointer(content)
	return cell[T]{val, content}
}

func (c cell[T]) set(v T) ref.Val {
	*c.content = v
	return c.val
}

// keptCells is how many cells of a kind are kept from record to record.
const keptCells = 64

// cells are the cells of one evaluation.
type cells[T ref.Val] struct {
	all  []cell[T]
	used int
}

func (c *cells[T]) put(v T) ref.Val {
	if c.used == len(c.all) {
		if c.used >= keptCells {
			return v
		}
		c.all = append(c.all, newCell[T]())
	}
	c.used++
	return c.all[c.used-1].set(v)
}

func (c *cells[T]) reset() { c.used = 0 }

// view is b as a string, without a copy: valid as long as b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
