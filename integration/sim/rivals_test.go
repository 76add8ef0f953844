package sim

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// rivalry starts a second incarnation while the first lives, sleeps or cannot reach the brokers.
func (w *world) rivalry(p *process) *vfs.MemFS {
	disk := vfs.NewCrashableMem()
	if chance(w.rand, 0.5) {
		disk = copied(p.disk)
	}
	if chance(w.rand, 0.3) {
		p.wire.cut(span(w.rand, 0, w.cfg.timeout*3/2), w.sites()...) // as one that sleeps: what it has sent arrives later
	}
	w.tr.add("sim", "RIVAL of %s", p.name)
	p.rivalled, w.oldDisk = true, true
	q := w.start(disk, launch{})
	q.rivalled = true // the first may fence it in turn before it has seen the claim
	over := time.Now().Add(span(w.rand, time.Second, 30*time.Second))
	for time.Now().Before(over) && !q.over() {
		w.moment(q, over)
	}
	if chance(w.rand, 0.3) {
		w.calm(p, q)
	}
	kept := w.end(q)
	w.end(p)
	if chance(w.rand, 0.3) { // the older state directory goes on
		kept = p.left()
	}
	return kept
}

// calm: undisturbed, exactly one of two goes on and the other exits within a bounded time.
func (w *world) calm(p, q *process) {
	w.tr.add("sim", "CALM")
	w.quiet()
	limit := 2*time.Minute + 2*w.coord.timeout
	for began := time.Now(); !p.over() && !q.over(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > limit {
			w.errorf("two incarnations live for more than %s: %s / %s", limit, p.status(), q.status())
			return
		}
	}
	time.Sleep(time.Second)
	if p.ended() && q.ended() && !p.killed() && !q.killed() && !p.illDisk && !q.illDisk && !w.consult(p) && !w.consult(q) {
		w.errorf("both incarnations ended: %v / %v", p.err, q.err)
	}
	w.storm()
}
