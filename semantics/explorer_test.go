package semantics

import (
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"testing"
	"time"
)

// explorer walks, breadth first, through every state that one configuration can reach.
type explorer struct {
	cfg    *xConfig
	mutant mutant
	deep   bool
}

type result struct {
	states, edges, depth int
	capped               bool
	violation            string // its first word is the kind
	trace                []string
	took                 time.Duration
}

func (r *result) kind() string {
	k, _, _ := strings.Cut(r.violation, ":")
	return k
}

func (x *explorer) initial() *world {
	w := &world{faults: x.cfg.Faults, stops: x.cfg.Stops, resets: x.cfg.Resets, nextPID: 1}
	w.proc[1].state = procNever
	return w
}

type graph struct {
	seen   map[uint64]uint32
	parent []uint32
	label  []string
	from   []uint32 // edges without a fault
	to     []uint32
	good   []uint32
}

var hashSeed = maphash.MakeSeed()

// run explores and, unless the configuration says otherwise, proves that from every state a good one can be reached
// without any further fault.
func (x *explorer) run() result {
	began := time.Now()
	g := &graph{seen: map[uint64]uint32{}, parent: []uint32{0}, label: []string{"start"}}
	var c canon
	var r result
	cur, idx := []*world{x.initial()}, []uint32{0}
	g.seen[maphash.Bytes(hashSeed, c.bytes(cur[0]))] = 0
	limit := x.cfg.Max
	if limit == 0 {
		limit = 3_000_000
	}
	for len(cur) > 0 && r.violation == "" && !r.capped {
		var next []*world
		var nextIdx []uint32
		r.depth++
		for q, w := range cur {
			if x.cfg.Visit != nil {
				x.cfg.Visit(x, w)
			}
			if x.good(w) {
				g.good = append(g.good, idx[q])
			}
			x.successors(w, func(n *world, fault bool, label func() string) {
				if r.violation != "" {
					return
				}
				r.edges++
				h := maphash.Bytes(hashSeed, c.bytes(n))
				j, old := g.seen[h]
				if !old {
					j = uint32(len(g.parent))
					g.seen[h] = j
					g.parent, g.label = append(g.parent, idx[q]), append(g.label, label())
					next, nextIdx = append(next, n), append(nextIdx, j)
				}
				if !fault && j != idx[q] {
					g.from, g.to = append(g.from, idx[q]), append(g.to, j)
				}
				if v := x.check(n); v != "" {
					r.violation, r.trace = v, g.trace(j)
					if old { // a violation that the state does not carry
						r.trace = append(g.trace(idx[q]), label())
					}
				}
			})
			if r.violation != "" {
				break
			}
		}
		cur, idx = next, nextIdx
		r.capped = len(g.parent) > limit
	}
	r.states = len(g.parent)
	if r.violation == "" && !r.capped && !x.cfg.NoLive {
		if j, ok := g.stuck(); ok {
			r.violation, r.trace = "stuck: no good end can be reached", g.trace(j)
		}
	}
	r.took = time.Since(began)
	return r
}

func (g *graph) trace(j uint32) []string {
	var t []string
	for ; j != 0; j = g.parent[j] {
		t = append([]string{g.label[j]}, t...)
	}
	return t
}

// stuck finds the first state from which no good one can be reached.
func (g *graph) stuck() (uint32, bool) {
	back := make([][]uint32, len(g.parent))
	for k, to := range g.to {
		back[to] = append(back[to], g.from[k])
	}
	can := make([]bool, len(g.parent))
	todo := g.good
	for _, j := range todo {
		can[j] = true
	}
	for len(todo) > 0 {
		j := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, b := range back[j] {
			if !can[b] {
				can[b] = true
				todo = append(todo, b)
			}
		}
	}
	for j := range can {
		if !can[j] {
			return uint32(j), true
		}
	}
	return 0, false
}

// check looks at what a reader sees.
func (x *explorer) check(w *world) string {
	if w.bad != "" {
		return w.bad
	}
	for i := range w.proc {
		if p := &w.proc[i]; p.state == procUp && len(p.dir) > 3 {
			return fmt.Sprintf("I10: %d checkpoints are kept", len(p.dir))
		}
	}
	if x.cfg.Lossy {
		return ""
	}
	want, twice := uint8(0), map[uint8]bool{}
	var seen []uint8
	for _, e := range w.visible() {
		seen = append(seen, e.rec)
		if e.rec&resetMark != 0 {
			want, twice = e.rec&^resetMark, map[uint8]bool{}
			continue
		}
		for want < x.cfg.N && x.cfg.filtered(want) {
			want++
		}
		switch {
		case x.cfg.LossOnly && e.semantic == ExactlyOnce && twice[e.rec]:
			return fmt.Sprintf("doubled: record %d twice under EXACTLY_ONCE", e.rec)
		case x.cfg.LossOnly:
			twice[e.rec] = twice[e.rec] || e.semantic == ExactlyOnce
		case e.rec < want && e.rec == seen[max(0, len(seen)-2)] || e.rec < want && twice[e.rec]:
			return fmt.Sprintf("doubled: a reader sees %v", seen)
		case e.rec < want:
			return fmt.Sprintf("reordered: a reader sees %v", seen)
		case e.rec > want:
			return skipped(w, seen, want)
		default:
			twice[e.rec] = true
			want++
		}
	}
	return ""
}

// skipped: the record that is missing comes later, or not at all.
func skipped(w *world, seen []uint8, missing uint8) string {
	for _, e := range w.sink {
		if e.rec == missing {
			return fmt.Sprintf("reordered: a reader sees %v before %d", seen, missing)
		}
	}
	return fmt.Sprintf("lost: a reader sees %v without %d", seen, missing)
}

// good: everything is delivered and decided, nothing is open, exactly one incarnation runs and the others are gone.
func (x *explorer) good(w *world) bool {
	running, refused := 0, 0
	for i := range w.proc {
		p := &w.proc[i]
		switch p.state {
		case procNever:
		case procExited:
			if p.exit == ExitRefused || x.cfg.Allow4 {
				refused++
			}
		case procDown:
			return false
		case procUp:
			m := p.m
			if m.state != StateRunning || m.open.phase != PhaseFlowing || m.commit != nil || len(p.acts) > 0 || p.pending != nil || p.stopped ||
				p.reset || p.pos != x.cfg.N || offsetOf(m.open.start) != int64(x.cfg.N) {
				return false
			}
			running++
		}
	}
	if running == 0 && refused > 0 {
		return x.cfg.Allow3
	}
	if running != 1 {
		return false
	}
	for _, c := range w.co { // after a change of semantic an unfinished first claim is left to its timeout
		if len(x.cfg.Variants) == 1 && (c.state == coOngoing || c.state == coPrepareCommit || c.state == coPrepareAbort) {
			return false
		}
	}
	return x.cfg.Lossy || x.complete(w)
}

func (x *explorer) complete(w *world) bool {
	have := map[uint8]bool{}
	from := uint8(0)
	for _, e := range w.visible() {
		if e.rec&resetMark != 0 {
			from = e.rec &^ resetMark
			clear(have)
		}
		have[e.rec] = true
	}
	for n := from; n < x.cfg.N; n++ {
		if !have[n] && !x.cfg.filtered(n) {
			return false
		}
	}
	return true
}

// TestExplorer explores the machine as it is. EXPLORE=deep takes larger bounds.
func TestExplorer(t *testing.T) {
	deep := os.Getenv("EXPLORE") == "deep"
	for _, c := range explorations(deep) {
		t.Run(strings.ReplaceAll(c.Name, " ", "-"), func(t *testing.T) {
			if raceEnabled || testing.Short() {
				c.Max = 5_000
			}
			x := &explorer{cfg: &c, deep: deep}
			r := x.run()
			t.Logf("%d states, %d transitions, depth %d, %.1f s%s", r.states, r.edges, r.depth, r.took.Seconds(), map[bool]string{true: ", CAPPED: as far as seen"}[r.capped])
			if r.violation != "" {
				t.Errorf("%s\n%s", r.violation, numbered(r.trace))
			}
		})
	}
}

func numbered(trace []string) string {
	var b strings.Builder
	for i, l := range trace {
		fmt.Fprintf(&b, "%3d %s\n", i+1, l)
	}
	return b.String()
}
