package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

func untilEnd(o *bridge.Options) { o.UntilEnd = true }

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
		disk = w.life(w.chooseDisk(disk, past))
		w.downtime()
		if w.failed() {
			break
		}
	}
	return disk
}

// chooseDisk is mostly what the last one left; where a ledger holds the truth it may be an old or an empty one.
func (w *world) chooseDisk(disk *vfs.MemFS, past []*vfs.MemFS) *vfs.MemFS {
	if !w.cfg.ledger || !chance(w.rand, 0.15) {
		return disk
	}
	w.oldDisk = true // from now on: the one after it may die before its first checkpoint
	if chance(w.rand, 0.4) {
		w.tr.add("sim", "the state directory is lost")
		return vfs.NewCrashableMem()
	}
	n := w.rand.IntN(len(past))
	w.tr.add("sim", "the state directory is the one before life %d", n+1)
	return copied(past[n])
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
		time.Sleep(w.cfg.timeout + span(w.rand, 0, 20*time.Second))
	}
}

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
		p.wire.cut(0)
		p.ill.Off()
	}
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
	p := w.start(disk, nil, at, times)
	over := time.Now().Add(length)
	for time.Now().Before(over) && !p.over() {
		w.moment(p, over)
	}
	if w.cfg.semantic == semantics.ExactlyOnce && w.cfg.ledger && !p.over() && chance(w.rand, 0.3) {
		return w.rivalry(p)
	}
	return w.end(p)
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
	return p.left()
}

// halt stops a process cleanly, sometimes while no broker answers, sometimes with a second, harder end on top.
func (w *world) halt(p *process) {
	if chance(w.rand, 0.3) {
		w.tr.add("sim", "%s: network silent while it stops", p.name)
		p.wire.cut(2 * time.Minute)
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

// moment lets a little time pass, with or without an incident.
func (w *world) moment(p *process, over time.Time) {
	select {
	case <-time.After(min(time.Until(over), span(w.rand, 50*time.Millisecond, 3*time.Second))):
	case <-p.done:
		return
	case <-p.dead:
		return
	}
	switch w.rand.IntN(14) {
	case 0:
		w.tr.add("sim", "leaders move")
		w.cluster.ShufflePartitionLeaders()
	case 1:
		w.tr.add("sim", "coordinators move")
		w.cluster.RehashCoordinators()
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
	}
}

// neighbour is another bridge that shares the ledger topic and holds its last stable offset back for a while.
func (w *world) neighbour() {
	if !w.cfg.ledger || w.cfg.semantic != semantics.ExactlyOnce || w.cluster.TopicInfo(ledgerTopic) == nil {
		return
	}
	w.neighbours++
	id, d, commit := fmt.Sprint("other-", w.neighbours), span(w.rand, 0, w.cfg.timeout/2), chance(w.rand, 0.5)
	w.tr.add("sim", "%s has a transaction open in the ledger for %s", id, d)
	w.feeding.Go(func() {
		cl := w.client(kgo.TransactionalID(id), kgo.TransactionTimeout(5*time.Minute))
		defer cl.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		err := cl.BeginTransaction()
		if err == nil {
			err = cl.ProduceSync(ctx, &kgo.Record{Topic: ledgerTopic, Key: []byte("other"), Value: []byte("{}")}).FirstErr()
		}
		time.Sleep(d)
		if err == nil {
			err = cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
		}
		if err != nil {
			w.errorf("neighbour %s: %v", id, err)
		}
	})
}

// silence cuts the network for a while, sometimes for longer than the transaction timeout: what was sent arrives afterwards.
func (w *world) silence(p *process) {
	d := span(w.rand, 0, 5*time.Second)
	if chance(w.rand, 0.3) {
		d = w.cfg.timeout + span(w.rand, 0, 15*time.Second)
	}
	w.tr.add("sim", "%s: network silent for %s", p.name, d)
	p.wire.cut(d)
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
	p.ill.On()
	time.Sleep(d)
	p.ill.Off()
}

// grow adds a partition to a source topic.
func (w *world) grow() {
	f := w.feeders[w.rand.IntN(len(w.feeders))]
	if f.partitions > 4 || w.cfg.byKey {
		return
	}
	w.tr.add("sim", "topic %s grows", f.name)
	if _, err := w.adm.UpdatePartitions(context.Background(), int(f.partitions)+1, f.name); err != nil {
		w.errorf("grow %s: %v", f.name, err)
		return
	}
	f.grow()
}

// injection is an error that brokers give without having done anything.
type injection struct {
	key  kmsg.Key
	errs []*kerr.Error
}

func injections() []injection {
	return []injection{
		{kmsg.EndTxn, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.UnknownServerError}},
		{kmsg.InitProducerID, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator}},
		{kmsg.Produce, []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError, kerr.ConcurrentTransactions}},
		{kmsg.Fetch, []*kerr.Error{kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.UnknownServerError, kerr.OffsetNotAvailable}},
		{kmsg.ListOffsets, []*kerr.Error{kerr.NotLeaderForPartition, kerr.OffsetNotAvailable, kerr.LeaderNotAvailable}},
	}
}

// inject lets the next requests of a kind fail, for the bridge only.
func (w *world) inject() {
	in := pick(w.rand, injections()...)
	f := kfake.Fault{Keys: []kmsg.Key{in.key}, Err: pick(w.rand, in.errs...), Count: 1 + w.rand.IntN(4)}
	switch in.key {
	case kmsg.EndTxn, kmsg.InitProducerID:
		f.TxnID = pick(w.rand, ids()...)
	case kmsg.Fetch, kmsg.ListOffsets:
		f.Topic = pick(w.rand, append(w.cfg.sourceTopics(), bridgeName+".ledger")...)
	default:
		f.Topic = pick(w.rand, append(w.cfg.sinkTopics(), bridgeName+".ledger")...)
	}
	w.tr.add("sim", "INJECT %d x %s into %s of %s%s", f.Count, f.Err.Message, in.key.Name(), f.Topic, f.TxnID)
	w.injected = append(w.injected, w.cluster.Fault(f))
}

// rivalry starts a second incarnation while the first lives, sleeps or cannot reach the brokers.
func (w *world) rivalry(p *process) *vfs.MemFS {
	disk := vfs.NewCrashableMem()
	if chance(w.rand, 0.5) {
		disk = copied(p.disk)
	}
	if chance(w.rand, 0.3) {
		p.wire.cut(span(w.rand, 0, w.cfg.timeout*3/2)) // as one that sleeps: what it has sent arrives later
	}
	w.tr.add("sim", "RIVAL of %s", p.name)
	p.rivalled, w.oldDisk = true, true
	q := w.start(disk, nil, "", 0)
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
	limit := 2*time.Minute + 2*w.cfg.timeout
	for began := time.Now(); !p.over() && !q.over(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > limit {
			w.errorf("two incarnations live for more than %s: %s / %s", limit, p.status(), q.status())
			return
		}
	}
	time.Sleep(time.Second)
	if p.ended() && q.ended() && !p.killed() && !q.killed() && !p.illDisk && !q.illDisk {
		w.errorf("both incarnations ended: %v / %v", p.err, q.err)
	}
	w.storm()
}

func (c config) sourceTopics() (names []string) {
	for _, s := range c.sources {
		for _, t := range s {
			names = append(names, t.name)
		}
	}
	return names
}
