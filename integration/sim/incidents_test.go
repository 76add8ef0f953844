package sim

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// storm decides how bad the network is in the next life.
func (w *world) storm() {
	rates := map[kmsg.Key]float64{}
	keys := []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.EndTxn, kmsg.EndTxn, kmsg.EndTxn, kmsg.InitProducerID, kmsg.Metadata, kmsg.ListOffsets, kmsg.FindCoordinator, kmsg.ApiVersions, kmsg.AddPartitionsToTxn}
	if chance(w.rand, 0.5) {
		for range 1 + w.rand.IntN(3) {
			rates[pick(w.rand, keys...)] = pick(w.rand, 0.05, 0.2, 0.5)
		}
	}
	base := pick(w.rand, 0, 0, 0.002, 0.01, 0.05)
	w.tr.add("sim", "STORM base %v %v", base, rates)
	w.faults.set(base, rates)
}

// quiet ends all faults; what is still under way arrives when it does.
func (w *world) quiet() {
	w.faults.set(0, nil)
	for _, h := range w.injected {
		h.Remove()
	}
	w.injected = nil
	for _, p := range w.processes {
		p.wire.cut(0, w.sites()...)
		p.ill.full.Store(false)
		p.ill.slow.Store(0)
	}
}

// moment lets a little time pass, with or without an incident.
func (w *world) moment(p *process, over time.Time) {
	select {
	case <-time.After(min(time.Until(over), span(w.rand, 50*time.Millisecond, 3*time.Second))):
	case <-p.done:
		return
	case <-p.dead:
		return
	}
	w.upheaval(0.15)
	switch w.rand.IntN(16) {
	case 0:
		w.tr.add("sim", "leaders move")
		pick(w.rand, w.sites()...).cluster.ShufflePartitionLeaders()
	case 1:
		w.tr.add("sim", "coordinators move")
		w.to.cluster.RehashCoordinators()
	case 2, 3:
		w.inject()
	case 4:
		w.silence(p)
	case 5:
		w.failDisk(p)
	case 6:
		w.grow()
	case 7:
		w.neighbour()
	case 8:
		w.slowDisk(p)
	}
}

// silence cuts the network for a while, sometimes for longer than the transaction timeout: what was sent arrives afterwards.
func (w *world) silence(p *process) {
	d := span(w.rand, 0, 5*time.Second)
	if chance(w.rand, 0.3) {
		d = w.coord.timeout + span(w.rand, 0, 15*time.Second)
	}
	at := w.sites()
	if len(at) > 1 && chance(w.rand, 0.6) {
		at = []*site{pick(w.rand, at...)}
	}
	w.tr.add("sim", "%s: network silent for %s, %s", p.name, d, at[0].name)
	p.wire.cut(d, at...)
	select {
	case <-time.After(d):
	case <-p.done:
	case <-p.dead:
	}
}

// failDisk makes every write fail for a while.
func (w *world) failDisk(p *process) {
	if !*diskFaults {
		return
	}
	d := span(w.rand, 0, 5*time.Second)
	w.tr.add("sim", "%s: disk full for %s", p.name, d)
	p.illDisk, w.oldDisk = true, true
	p.ill.full.Store(true)
	time.Sleep(d)
	p.ill.full.Store(false)
}

// slowDisk lets each fsync of the log take up to two seconds for a while.
func (w *world) slowDisk(p *process) {
	each, d := span(w.rand, 10*time.Millisecond, 2*time.Second), span(w.rand, 0, 20*time.Second)
	w.tr.add("sim", "%s: an fsync takes %s for %s", p.name, each, d)
	p.ill.slow.Store(int64(each))
	time.AfterFunc(d, func() { p.ill.slow.Store(0) })
}

// grow adds a partition to a source topic.
func (w *world) grow() {
	f := w.feeders[w.rand.IntN(len(w.feeders))]
	if f.partitions > 4 || w.cfg.byKey {
		return
	}
	w.tr.add("sim", "topic %s grows", f.name)
	if _, err := w.from.adm.UpdatePartitions(context.Background(), int(f.partitions)+1, f.name); err != nil {
		w.errorf("grow %s: %v", f.name, err)
		return
	}
	f.grow()
}
