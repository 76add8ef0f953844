package bridge

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// window is how many bytes and batches may be in flight now, at most MaxInFlight. Everything in flight lies before the next barrier, so
// with a sink that needs longer for it than checkpoint.timeout, or than the transaction lives, every epoch would fail,
// and the same bytes would be read again for ever. So the window follows what the sink manages: it shrinks when an epoch fails
// or takes half of its time, and grows while there is time to spare. Safe from any goroutine.
type window struct {
	most  int64 // bytes
	least int64 // bytes
	limit time.Duration
	now   atomic.Int64 // bytes
	count atomic.Int64 // batches: with small ones it is their number that takes the time
}

// leastWindow is where the window stops shrinking: a batch or two. One that is larger passes alone.
const leastWindow = 256 << 10

// The bounds of the number of batches on their way to the Writer.
const (
	leastCount = 4
	mostCount  = 1 << 16
)

// newWindow makes a window for barriers that have to be flushed within checkpoint.timeout and the transaction timeout.
func newWindow(o Options) *window {
	w := &window{most: o.MaxInFlight, least: min(leastWindow, o.MaxInFlight), limit: o.Checkpoint.Timeout}
	if o.Semantic == semantics.ExactlyOnce && o.TransactionTimeout > 0 {
		w.limit = min(w.limit, o.TransactionTimeout)
	}
	w.now.Store(o.MaxInFlight)
	w.count.Store(mostCount)
	return w
}

// bytes is the window now.
func (w *window) bytes() int64 { return w.now.Load() }

// failed shrinks the window after a run in which no epoch was decided; changed says that it did.
func (w *window) failed() (changed bool) { return w.scale(1, 4) }

// flushed adapts the window to how long the barrier of a decided epoch took until everything was flushed.
func (w *window) flushed(took time.Duration) (changed bool) {
	switch {
	case took > w.limit/2:
		return w.scale(1, 2)
	case took < w.limit/8:
		return w.scale(2, 1)
	default:
		return false
	}
}

func (w *window) scale(by, over int64) (changed bool) {
	n := min(max(w.bytes()*by/over, w.least), w.most)
	c := min(max(w.count.Load()*by/over, leastCount), mostCount)
	changed = w.now.Swap(n) != n
	return w.count.Swap(c) != c || changed
}

// windowWriter holds back what would exceed the window on its way to the Writer.
type windowWriter struct {
	Writer
	window *window

	mu    sync.Mutex
	used  int64         // bytes that the Writer has not released
	count int64         // batches that it has not released
	freed chan struct{} // closed and made anew whenever used becomes less
}

func newWindowWriter(w Writer, size *window) *windowWriter {
	return &windowWriter{Writer: w, window: size, freed: make(chan struct{})}
}

// Write waits for room, then hands b on. A batch larger than the window passes alone.
func (w *windowWriter) Write(ctx context.Context, b batch.Outbound) error {
	n := int64(len(b.Raw))
	if err := w.acquire(ctx, n); err != nil {
		b.Release()
		return err
	}
	release := b.Release
	b.Release = func() {
		release()
		w.release(n)
	}
	return w.Writer.Write(ctx, b)
}

func (w *windowWriter) acquire(ctx context.Context, n int64) error {
	for {
		w.mu.Lock()
		if w.used == 0 || w.used+n <= w.window.bytes() && w.count < w.window.count.Load() {
			w.used += n
			w.count++
			w.mu.Unlock()
			return nil
		}
		freed := w.freed
		w.mu.Unlock()
		select {
		case <-freed:
		case <-w.Failed(): // nothing will be released any more: let the Writer say why
			return w.fail(ctx)
		case <-ctx.Done():
			return w.fail(ctx)
		}
	}
}

// fail is why there will be no room. A batch that was not written must not be missing from an epoch that is called
// flushed: whoever gave up ends the run with this error.
func (w *windowWriter) fail(ctx context.Context) error {
	if ctx.Err() == nil {
		if _, err := w.Flush(ctx); err != nil {
			return err
		}
	}
	return &semantics.Error{Class: semantics.Unknown, Op: "write a batch", Err: context.Cause(ctx)}
}

func (w *windowWriter) release(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used -= n
	w.count--
	close(w.freed)
	w.freed = make(chan struct{})
}
