package bridge

import (
	"math/bits"
	"sync"
)

// buffer holds one finished batch. It has one owner at a time: the map task until Write, then the Writer until it calls
// release, then the pool.
type buffer struct {
	raw     []byte
	release func() // made once, so that no batch costs an allocation for it
}

// The pool keeps buffers by the power of two that they hold at least.
const (
	smallestBuffer = 12 // 4 KiB
	buffersClasses = 14 // up to 32 MiB

	// freeBuffersLimit is how many bytes of buffers that nobody uses one map task keeps.
	freeBuffersLimit = 8 << 20
)

// buffers is a map task's pool of buffers. Safe for concurrent use: Writers release from their own goroutines.
type buffers struct {
	mu    sync.Mutex
	free  [buffersClasses][]*buffer
	bytes int // in free
}

// get lends a buffer of at least size bytes, empty.
func (p *buffers) get(size int) *buffer {
	class := max(bits.Len(uint(max(size, 1)-1)), smallestBuffer) - smallestBuffer
	if class < buffersClasses {
		p.mu.Lock()
		if n := len(p.free[class]); n > 0 {
			b := p.free[class][n-1]
			p.free[class][n-1] = nil
			p.free[class] = p.free[class][:n-1]
			p.bytes -= cap(b.raw)
			p.mu.Unlock()
			return b
		}
		p.mu.Unlock()
		size = 1 << (class + smallestBuffer)
	}
	b := &buffer{raw: make([]byte, 0, size)}
	b.release = func() { p.put(b) }
	return b
}

// put takes a buffer back. What it held is gone from now on.
func (p *buffers) put(b *buffer) {
	class := bits.Len(uint(cap(b.raw))) - 1 - smallestBuffer
	if class < 0 || class >= buffersClasses {
		return
	}
	b.raw = b.raw[:0]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes+cap(b.raw) > freeBuffersLimit {
		return
	}
	p.bytes += cap(b.raw)
	p.free[class] = append(p.free[class], b)
}
