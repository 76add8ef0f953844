package sim

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sent judges a request in the moment in which a living process sends it.
func (w *watch) sent(who string, req kmsg.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := req.(type) {
	case *kmsg.InitProducerIDRequest:
		if r.TransactionalID != nil && r.ProducerID < 0 {
			w.sentFence(who, *r.TransactionalID)
		}
	case *kmsg.ProduceRequest:
		if r.TransactionID != nil {
			eachBatch(r, func(topic string, partition int32, h header) {
				w.sentBatch(who, txnKey{*r.TransactionID, h.pid, h.epoch}, batchKey{topic, partition, h.sequence}, h)
			})
		}
	case *kmsg.EndTxnRequest:
		if r.Commit {
			w.sentCommit(who, keyOf(r))
		} else {
			w.sentAbort(who, keyOf(r))
		}
	}
}

// sentFence: ids are fenced in ascending order (I11).
func (w *watch) sentFence(who, id string) {
	p := w.proc(who)
	if id == ids()[1] && p.fenced == 0 {
		w.errorf("I11: %s fences %s before it has fenced %s", who, id, ids()[0])
	}
}

// sentBatch: what a transaction may hold, and when.
func (w *watch) sentBatch(who string, k txnKey, b batchKey, h header) {
	p, t := w.proc(who), w.txn(k)
	if _, again := t.batches[b]; again {
		return
	}
	t.batches[b], t.written = false, true
	if t.commit {
		w.errorf("I5, I6: %s writes %s/%d in %s, whose commit was asked for already", who, b.topic, b.partition, k)
	}
	if b.topic != ledgerTopic {
		t.data++
		if w.ledger && t.data == 1 {
			w.firstData(who, p, k, t)
		}
		return
	}
	v, err := readLedger(h)
	if err != nil {
		w.errorf("%s writes a ledger record that cannot be read: %v", who, err)
		return
	}
	t.records = append(t.records, v)
	if v.Incarnation != who {
		w.errorf("%s writes a ledger record of incarnation %s", who, v.Incarnation)
	}
	if v.Kind != "claim" {
		return
	}
	if k.id != ids()[0] || p.fenced == 0 {
		w.errorf("I11: %s claims on %s; its last fence of %s was at step %d", who, k, ids()[0], p.fenced)
	}
	p.fenced = 0
}

// firstData: no record before the claim counts; a fence's epoch is the claim's or follows one.
func (w *watch) firstData(who string, p *procSeen, k txnKey, t *txnSeen) {
	switch {
	case p.claimed == 0:
		w.errorf("I9: %s writes records in %s before it has claimed", who, k)
	case t.blind > 0 && k.id == ids()[0]:
		w.errorf("I6: %s writes records in %s, whose epoch comes from a blind InitProducerID that was no fence", who, k)
	case t.blind > p.claimed:
		w.errorf("I6: %s writes records in %s, fenced at step %d, but its last claim is of step %d", who, k, t.blind, p.claimed)
	}
}

// sentCommit: nobody asks for a commit before everything in it is acknowledged and accounted for.
func (w *watch) sentCommit(who string, k txnKey) {
	t := w.txn(k)
	if t.commit {
		return
	}
	t.commit = true
	for b, acked := range t.batches {
		if !acked {
			w.errorf("I5: %s asks for the commit of %s, but batch %d of %s/%d was never acknowledged", who, k, b.sequence, b.topic, b.partition)
		}
	}
	switch {
	case !w.ledger || t.claim():
	case len(t.records) != 1:
		w.errorf("I2: %s asks for the commit of %s with %d ledger records", who, k, len(t.records))
	case t.records[0].Kind != "epoch" || t.records[0].key() != k:
		w.errorf("I2: %s asks for the commit of %s, whose ledger record is of kind %s and names %s", who, k, t.records[0].Kind, t.records[0].key())
	}
}

// sentAbort: what is proposed is never aborted. A claim holds nothing.
func (w *watch) sentAbort(who string, k txnKey) {
	if t := w.txn(k); t.commit && !t.known && !t.claim() {
		w.errorf("I7: %s aborts %s, whose commit was asked for and not answered", who, k)
	}
}

// answered notes what a living process learns.
func (w *watch) answered(who string, req kmsg.Request, resp kmsg.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		r, ok := req.(*kmsg.InitProducerIDRequest)
		if !ok || r.TransactionalID == nil || r.ProducerID >= 0 || a.ErrorCode != 0 {
			return
		}
		p := w.proc(who)
		w.txn(txnKey{*r.TransactionalID, a.ProducerID, a.ProducerEpoch}).blind = p.step
		if *r.TransactionalID == ids()[0] {
			p.fenced = p.step
		}
	case *kmsg.EndTxnResponse:
		if r, ok := req.(*kmsg.EndTxnRequest); ok && r.Commit {
			w.answeredCommit(who, keyOf(r), a.ErrorCode)
		}
	case *kmsg.ProduceResponse:
		if r, ok := req.(*kmsg.ProduceRequest); ok && r.TransactionID != nil {
			w.acknowledged(r, a)
		}
	}
}

func (w *watch) answeredCommit(who string, k txnKey, code int16) {
	t := w.txn(k)
	switch code {
	case 0:
		t.known = true
		if t.claim() && t.records[0].Incarnation == who {
			p := w.proc(who)
			p.claimed = p.step
			if p.at.IsZero() {
				p.at = time.Now()
			}
		}
	case kerr.InvalidTxnState.Code, kerr.ProducerFenced.Code, kerr.InvalidProducerEpoch.Code, kerr.InvalidProducerIDMapping.Code:
		t.known = true
	}
}

func (w *watch) acknowledged(r *kmsg.ProduceRequest, a *kmsg.ProduceResponse) {
	type place struct {
		topic     string
		partition int32
	}
	ok := map[place]bool{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			ok[place{t.Topic, p.Partition}] = p.ErrorCode == 0
		}
	}
	eachBatch(r, func(topic string, partition int32, h header) {
		t := w.txn(txnKey{*r.TransactionID, h.pid, h.epoch})
		if b := (batchKey{topic, partition, h.sequence}); ok[place{topic, partition}] {
			t.batches[b] = true
		}
	})
}

// committed is called by the coordinator when it commits an open transaction: epochs are decided in order, each once (I6, I8), and
// positions never go back.
func (w *watch) committed(who string, k txnKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.txn(k)
	if t.commits > 0 && !t.written {
		return // EndTxn v4: an AddPartitionsToTxn that was held up until after the commit has opened it again; there is nothing in it
	}
	t.written = false
	if t.commits++; t.commits > 1 {
		w.errorf("I6: %s was committed %d times", k, t.commits)
	}
	d := decision{key: k}
	if len(t.records) > 0 {
		d.record = t.records[0]
	}
	if w.ledger && len(w.decided) > 0 {
		w.follows(w.decided[len(w.decided)-1].record, d.record, k)
	}
	w.decided = append(w.decided, d)
}

func (w *watch) follows(last, next ledgerValue, k txnKey) {
	switch {
	case next.Kind == "epoch" && next.Epoch != last.Epoch+1:
		w.errorf("I8: epoch %d (%s) was decided after epoch %d", next.Epoch, k, last.Epoch)
	case next.Kind == "claim" && !w.jumps && (next.Epoch != last.Epoch || next.key() != last.key()):
		w.errorf("I3: %s claims epoch %d (%s), but the last decided is %d (%s)", next.Incarnation, next.Epoch, next.key(), last.Epoch, last.key())
	}
	for source, topics := range last.Positions {
		for topic, p := range topics {
			for partition, offset := range p.Offsets {
				if now, found := next.Positions[source][topic].Offsets[partition]; !w.jumps && (!found || now < offset) {
					w.errorf("I5: %s decided %s/%s/%d at offset %d after %d", k, source, topic, partition, now, offset)
				}
			}
		}
	}
}

// outcome says whether the coordinator has committed a transaction.
func (w *watch) outcome(k txnKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.txns[k]
	return t != nil && t.commits > 0
}

// epochs is how many were decided.
func (w *watch) epochs() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.decided {
		if d.record.Kind != "claim" {
			n++
		}
	}
	return n
}

// claimedAt is when a process's first claim was committed; zero: never.
func (w *watch) claimedAt(who string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proc(who).at
}
