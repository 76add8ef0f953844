package bridge

import (
	"kafkabridge/semantics"
)

// missingLooks is how often in a row a topic must be missing before it counts as gone.
const missingLooks = 5

// reconcile compares what is known with what was found.
func (r *sourceRun) reconcile(found map[string]topicInfo) (*findings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &findings{}
	for t, info := range found {
		if err := r.replaceRecreated(t, info, f); err != nil {
			return nil, err
		}
	}
	for k, p := range r.partitions {
		info, ok := found[k.topic]
		switch {
		case !ok:
			r.gone(p, f)
		case recreated(p.id, info.id):
			f.again = true // seen once only
		default:
			r.lead(p, info, f)
		}
	}
	for t, info := range found {
		for n := range info.partitions {
			if _, ok := r.partitions[topicPartition{t, n}]; !ok && r.otherIDs[t] == (semantics.TopicID{}) {
				f.fresh = append(f.fresh, topicPartition{t, n})
			}
		}
	}
	return f, nil
}

// lead notes who leads a partition. The caller holds mu.
func (r *sourceRun) lead(p *partition, info topicInfo, f *findings) {
	l, ok := info.partitions[p.key.partition]
	if p.id == (semantics.TopicID{}) {
		p.id = info.id // positions from a consumer group carry none
		if l.epoch < p.position.LeaderEpoch {
			p.position.LeaderEpoch = -1 // perhaps another topic's: leaderSince must not wait for it
			p.restart()
		}
	}
	p.count, p.missing = int32(len(info.partitions)), 0
	switch {
	case !ok || l.leader < 0:
		r.setLeader(p, -1, p.leaderEpoch)
		p.waiting = "no leader"
		f.again = true
		return
	case l.epoch < p.leaderEpoch && l.epoch >= 0 && p.stale < missingLooks:
		// A broker that lags behind: its news are old. But not for ever: without topic ids (before Kafka 2.8) a
		// topic that was made anew looks like this.
		p.stale++
		p.waiting = "brokers tell an earlier leader"
		f.again = true
		return
	}
	p.stale = 0
	r.setLeader(p, l.leader, l.epoch)
	switch p.trouble {
	case troubleLeader:
		p.trouble = healthy
	case troubleRange:
		f.outOfRange = append(f.outOfRange, p.key)
	case troubleCheckEnd:
		f.checkEnd = append(f.checkEnd, p.key)
	case healthy, troubleAnswered:
	}
}

func (r *sourceRun) setLeader(p *partition, leader, epoch int32) {
	if p.leader != leader {
		p.leader = leader
		p.restart() // what the other broker still answers is thrown away
	}
	p.leaderEpoch = epoch
	if leader < 0 && p.trouble == healthy {
		p.trouble = troubleLeader
	}
}

// gone notes that a topic does not exist now. Its positions are kept: it may be a broker that does not know it yet, and
// when it comes back as another topic that is a gap. A listed topic is looked for again and again; one that a regex
// matched is, after some looks, left to discovery.
func (r *sourceRun) gone(p *partition, f *findings) {
	if p.missing++; p.missing < missingLooks || r.s.match == nil {
		f.again = true
	}
	if p.missing == missingLooks {
		r.s.log.Warn("topic does not exist, waiting for it", "topic", p.key.topic, "partition", p.key.partition, "offset", p.position.Offset)
	}
	r.setLeader(p, -1, p.leaderEpoch)
	p.waiting = "the topic does not exist"
}

// replaceRecreated sees to a topic whose id is another one than that of its partitions. Only a second look that tells
// the same id counts: a broker that lags behind may answer with an earlier topic's. The caller holds mu.
func (r *sourceRun) replaceRecreated(topic string, info topicInfo, f *findings) error {
	var old []*partition
	for k, p := range r.partitions {
		if k.topic == topic && recreated(p.id, info.id) {
			old = append(old, p)
		}
	}
	if len(old) == 0 {
		delete(r.otherIDs, topic)
		return nil
	}
	if r.otherIDs[topic] != info.id {
		r.otherIDs[topic] = info.id
		f.again = true
		return nil
	}
	for _, p := range old {
		g := Gap{Source: r.s.o.Name, Topic: topic, Partition: p.key.partition, From: p.position.Offset, To: -1, Reason: gapRecreated}
		if err := r.s.gap(g, 0); err != nil {
			return err
		}
		p.generation++ // nothing of the old topic is handed over from now on
		p.trouble = troubleLeader
		r.s.addTotal(p.key, p.counted)
		delete(r.partitions, p.key)
	}
	delete(r.otherIDs, topic)
	return nil
}
