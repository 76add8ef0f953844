package txn

import (
	"context"
	"sync"
)

// budget bounds the bytes of batches that are queued or sent and not acknowledged (I10). First come, first served: so
// that a stream of small batches does not starve a large one.
type budget struct {
	max int64

	mu      sync.Mutex
	used    int64
	waiters []*waiter
}

type waiter struct {
	n     int64
	admit chan struct{} // closed when admitted
}

// fits says whether n more bytes may pass; one batch that is larger than the whole budget passes alone.
func (b *budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.max }

// acquire takes n bytes. It returns false without them when ctx or failed end the wait.
func (b *budget) acquire(ctx context.Context, failed <-chan struct{}, n int64) bool {
	b.mu.Lock()
	if len(b.waiters) == 0 && b.fits(n) {
		b.used += n
		b.mu.Unlock()
		return true
	}
	w := &waiter{n: n, admit: make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	select {
	case <-w.admit:
		return true
	case <-ctx.Done():
	case <-failed:
	}
	b.leave(w)
	return false
}

// leave gives up a place in the line, or the bytes if they were granted in the same moment.
func (b *budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.waiters {
		if o == w {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			b.admit() // the one behind may fit
			return
		}
	}
	b.used -= w.n
	b.admit()
}

// release gives n bytes back.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.admit()
}

func (b *budget) admit() {
	for len(b.waiters) > 0 && b.fits(b.waiters[0].n) {
		w := b.waiters[0]
		b.waiters[0] = nil
		b.waiters = b.waiters[1:]
		b.used += w.n
		close(w.admit)
	}
}
