package bridge

import (
	"context"
	"sync"
	"sync/atomic"
)

// budget bounds the bytes in flight of one run: answers that are being fetched (by what they may hold) and answers whose
// batches are not all released (by what they do hold). Safe from any goroutine.
type budget struct {
	limit    func() int64 // may change while the run is on
	mu       sync.Mutex
	used     int64
	reserved int64         // the part of used that has not arrived
	waiting  int           // fetch loops that are paused
	freed    chan struct{} // closed and made anew whenever used becomes less
}

func newBudget(limit func() int64) *budget {
	return &budget{limit: limit, freed: make(chan struct{})}
}

// reserve waits until n bytes are free, or until nothing at all is in flight: what is larger than the limit passes
// alone, or it would never pass.
func (b *budget) reserve(ctx context.Context, n int64) error {
	paused := false
	for {
		b.mu.Lock()
		if b.used == 0 || b.used+n <= b.limit() {
			b.used += n
			b.reserved += n
			if paused {
				b.waiting--
			}
			b.mu.Unlock()
			return nil
		}
		if !paused {
			paused = true
			b.waiting++
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			b.mu.Lock()
			b.waiting--
			b.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

// adjust adds n to the bytes in flight; negative n frees.
func (b *budget) adjust(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.used += n
	if n < 0 {
		close(b.freed)
		b.freed = make(chan struct{})
	}
	b.mu.Unlock()
}

// arrived turns a reservation of n bytes into the bytes that did arrive, 0 when nothing did.
func (b *budget) arrived(n, bytes int64) {
	b.mu.Lock()
	b.reserved -= n
	b.mu.Unlock()
	b.adjust(bytes - n)
}

// state is the bytes that arrived and are not released, and whether a fetch loop is paused.
func (b *budget) state() (bytes int64, paused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used - b.reserved, b.waiting > 0
}

// answerHold counts the holders of one fetch answer's bytes: its batches all are views of one buffer, which stays in
// memory until the last is released.
type answerHold struct {
	budget *budget
	bytes  int64
	refs   atomic.Int32
}

// release is called once by each holder.
func (h *answerHold) release() {
	if h.refs.Add(-1) == 0 {
		h.budget.adjust(-h.bytes)
	}
}
