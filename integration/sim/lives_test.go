package sim

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kafkabridge/semantics"
)

// failpoints are the named steps of bridge.Parts.Failpoint.
func failpoints() []string {
	return []string{"after-fence", "after-claim", "after-flush", "after-ledger-record", "after-persist", "after-commit"}
}

// lives runs incarnations one after the other, sometimes two at once, until the faults end. It returns the disk that the last one left.
func (w *world) lives() *vfs.MemFS {
	disk := vfs.NewCrashableMem()
	var past []*vfs.MemFS
	for range 2 + w.rand.IntN(5) {
		w.storm()
		past = append(past, disk)
		w.changeSemantic()
		disk = w.life(w.chooseDisk(w.orders.disk(w, disk), past))
		w.downtime()
		if w.failed() {
			break
		}
	}
	return disk
}

// chooseDisk is mostly what the last one left; where a ledger holds the truth it may be an old or an empty one.
func (w *world) chooseDisk(disk *vfs.MemFS, past []*vfs.MemFS) *vfs.MemFS {
	if !w.cfg.ledger || w.cfg.twist == twistLedger || w.orders.adopt.Enabled || !chance(w.rand, 0.15) {
		return disk
	}
	if w.cfg.twist == twistState && w.orders.kept != nil {
		return disk // only one directory can be put back
	}
	w.oldDisk = true // from now on: the one after it may die before its first checkpoint
	w.orders.kept = disk
	if chance(w.rand, 0.4) {
		w.tr.add("sim", "the state directory is lost")
		return vfs.NewCrashableMem()
	}
	n := w.rand.IntN(len(past))
	w.tr.add("sim", "the state directory is the one before life %d", n+1)
	return copied(past[n])
}

// changeSemantic is what a new configuration file says.
func (w *world) changeSemantic() {
	if w.cfg.twist == twistSemantic && chance(w.rand, 0.6) {
		w.cfg.semantic = pick(w.rand, semantics.ExactlyOnce, semantics.ExactlyOnce, semantics.ExactlyOnce, semantics.AtLeastOnce, semantics.AtLeastOnce, semantics.None)
	}
}

// downtime is sometimes longer than the transaction timeout.
func (w *world) downtime() {
	switch w.rand.IntN(7) {
	case 0, 1, 2:
	case 3:
		time.Sleep(span(w.rand, 0, 2*time.Second))
	case 4:
		time.Sleep(span(w.rand, 0, w.cfg.timeout))
	case 5, 6:
		time.Sleep(w.coord.timeout + span(w.rand, 0, 20*time.Second))
	}
	if w.cfg.twist == twistExpiry && chance(w.rand, 0.5) {
		time.Sleep(idsLive + span(w.rand, 0, time.Minute))
	}
	w.upheaval(0.3)
}

// life is one incarnation from start to end. It returns what it leaves on its disk.
func (w *world) life(disk *vfs.MemFS) *vfs.MemFS {
	at, times := "", 1+w.rand.IntN(3)
	length := span(w.rand, 100*time.Millisecond, 5*w.cfg.interval+5*time.Second)
	if chance(w.rand, 0.2) {
		length += span(w.rand, 0, time.Minute) // long enough for what was held up beyond the client's own timeouts
	}
	if chance(w.rand, 0.5) {
		at = pick(w.rand, append(failpoints(), "after-persist", "after-persist")...) // prepared and not committed is where most can go wrong
		length += time.Duration(times) * w.cfg.interval
	}
	p := w.start(disk, launch{failpoint: at, times: times})
	over := time.Now().Add(length)
	for time.Now().Before(over) && !p.over() {
		w.moment(p, over)
	}
	if w.rivals() && !p.over() && chance(w.rand, 0.3) {
		return w.rivalry(p)
	}
	return w.end(p)
}

// rivals says whether a run may have two incarnations at once: only a ledger tells them apart, and in some runs one of the two would have to refuse.
func (w *world) rivals() bool {
	switch w.cfg.twist {
	case twistState, twistLedger, twistTimeout:
		return false
	}
	return w.cfg.semantic == semantics.ExactlyOnce && w.cfg.ledger
}

// over says that the process has died or ended.
func (p *process) over() bool { return p.killed() || p.ended() }

// end kills the process or stops it, if it has not ended already.
func (w *world) end(p *process) *vfs.MemFS {
	switch {
	case p.over():
	case chance(w.rand, 0.7):
		p.kill()
	default:
		w.halt(p)
	}
	<-p.done
	w.consult(p)
	return p.left()
}

// halt stops a process cleanly, sometimes while no broker answers, sometimes with a second, harder end on top.
func (w *world) halt(p *process) {
	if chance(w.rand, 0.3) {
		w.tr.add("sim", "%s: network silent while it stops", p.name)
		p.wire.cut(2*time.Minute, w.sites()...)
	}
	p.stop()
	if chance(w.rand, 0.2) {
		p.within(span(w.rand, 0, 5*time.Second))
		p.kill()
		return
	}
	// 20 s and 5 s of grace are the bridge's; closing what is left takes a few more.
	if !p.within(time.Minute) {
		w.errorf("%s: a clean stop took more than a minute: %s", p.name, p.status())
		p.kill()
	}
}
