package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	progressWidth = 40
	progressEvery = 200 * time.Millisecond
)

// progress draws a bar on a terminal. A nil one draws nothing.
type progress struct {
	w     io.Writer
	name  string
	total int64
	done  int64
	drawn time.Time
}

func newProgress(w io.Writer, name string, total int64) *progress {
	return &progress{w: w, name: name, total: total}
}

// add counts offsets that were read. Looking for the begin, or reading twice, can make it more than all.
func (p *progress) add(n int64) {
	if p == nil {
		return
	}
	p.done += n
	if now := time.Now(); now.Sub(p.drawn) >= progressEvery {
		p.drawn = now
		p.draw()
	}
}

func (p *progress) draw() {
	share := 1.0
	if p.total > 0 {
		share = min(1, float64(p.done)/float64(p.total))
	}
	full := int(share * progressWidth)
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s [%s%s] %3.0f%%  %d of %d offsets", p.name, strings.Repeat("#", full), strings.Repeat(".", progressWidth-full), 100*share, min(p.done, p.total), p.total)
}

// end clears the line for what follows.
func (p *progress) end() {
	if p != nil {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}
