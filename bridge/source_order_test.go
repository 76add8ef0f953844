package bridge

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// orderRig is a run whose answers the test makes itself, in orders that a leader that moves can cause.
type orderRig struct {
	t   *testing.T
	r   *sourceRun
	p   *partition
	out chan delivery
}

func newOrderRig(t *testing.T) *orderRig {
	s := newSource(SourceOptions{Name: srcName, Topics: []string{"a"}}, nil, hclog.NewNullLogger(), 0)
	out := make(chan delivery, 100)
	r := newSourceRun(s, at("a", 0), []chan<- delivery{out})
	p := r.partitions[topicPartition{"a", 0}]
	p.leader, p.trouble = 1, healthy
	return &orderRig{t: t, r: r, p: p, out: out}
}

// answer is one that was asked for now, from offset from on.
func (o *orderRig) answer(from int64, raw ...[]byte) *answer {
	a := &answer{hold: &answerHold{budget: o.r.budget}}
	a.release = a.hold.release
	a.hold.refs.Store(1)
	rp := &kmsg.FetchResponseTopicPartition{HighWatermark: 100, LastStableOffset: 100}
	rp.DivergingEpoch.EndOffset = -1
	for _, b := range raw {
		rp.RecordBatches = append(rp.RecordBatches, b...)
	}
	a.hold.bytes = int64(len(rp.RecordBatches))
	o.r.budget.adjust(a.hold.bytes)
	a.pieces = []piece{{p: o.p, generation: o.p.generation, from: from, resp: rp, records: rp.RecordBatches, scan: scanBatches(rp.RecordBatches, from)}}
	return a
}

// take walks a and returns the first offsets of what was handed over.
func (o *orderRig) take(a *answer) (offsets []int64) {
	if err := o.r.take(o.t.Context(), a); err != nil {
		o.t.Fatal(err)
	}
	for len(o.out) > 0 {
		d := <-o.out
		offsets = append(offsets, max(d.batch.header.FirstOffset, d.batch.from))
		d.batch.release()
	}
	if used, _ := o.r.budget.state(); used < 0 {
		o.t.Fatalf("%d bytes in flight", used)
	}
	return offsets
}

func (o *orderRig) want(got []int64, want ...int64) {
	o.t.Helper()
	if len(got) != len(want) {
		o.t.Fatalf("handed over %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			o.t.Fatalf("handed over %v, want %v", got, want)
		}
	}
}

// TestSourceAnswerOvertakes: the new leader's answer comes before the old one's that lies before it.
func TestSourceAnswerOvertakes(t *testing.T) {
	o := newOrderRig(t)
	old := o.answer(0, handBatch(0, 4, 0, -1, 0, 1, 2, 3, 4))
	o.p.fetchOffset = 5
	next := o.answer(5, handBatch(5, 0, 0, -1, 0))
	o.want(o.take(next))
	if o.p.fetchOffset != 0 {
		t.Fatalf("fetching goes on at %d, but nothing was handed over yet", o.p.fetchOffset)
	}
	o.want(o.take(old)) // of an earlier generation now; it comes again
	o.want(o.take(o.answer(0, handBatch(0, 4, 0, -1, 0, 1, 2, 3, 4))), 0)
}

// TestSourceAnswerTwice: both leaders answer for the same offset.
func TestSourceAnswerTwice(t *testing.T) {
	o := newOrderRig(t)
	one, two := o.answer(0, handBatch(0, 1, 0, -1, 0, 1)), o.answer(0, handBatch(0, 1, 0, -1, 0, 1), handBatch(2, 0, 0, -1, 0))
	o.want(o.take(one), 0)
	o.want(o.take(two), 2)
	if o.p.position.Offset != 3 {
		t.Fatalf("position %d, want 3", o.p.position.Offset)
	}
}

// TestSourceAnswerOfEarlierGeneration: after a truncation the position goes back; what was fetched before it is of a
// log that is no more.
func TestSourceAnswerOfEarlierGeneration(t *testing.T) {
	o := newOrderRig(t)
	o.p.position = semantics.Position{Offset: 10}
	before := o.answer(3, handBatch(3, 9, 0, -1, 9))
	o.p.moveTo(3)
	o.want(o.take(before))
	o.want(o.take(o.answer(3, handBatch(3, 0, 0, -1, 0))), 3)
}

// TestSourceGenerationChangesDuringWalk: the keeper makes fetching begin anew while the task is in the middle of an
// answer. The rest of that answer comes again and must not come twice.
func TestSourceGenerationChangesDuringWalk(t *testing.T) {
	o := newOrderRig(t)
	blocked := make(chan delivery)
	o.r.out[0] = blocked
	a := o.answer(0, handBatch(0, 0, 0, -1, 0), handBatch(1, 0, 0, -1, 0), handBatch(2, 0, 0, -1, 0))
	done := make(chan error)
	go func() { done <- o.r.take(t.Context(), a) }()
	<-blocked // the batch at 0; the task goes on to the one at 1
	o.r.mu.Lock()
	for o.p.position.Offset != 1 { // until it has counted the first
		o.r.mu.Unlock()
		o.r.mu.Lock()
	}
	o.p.restart()
	o.r.mu.Unlock()
	second := <-blocked // it was on its way already
	if err := <-done; err != nil || second.batch.header.FirstOffset != 1 {
		t.Fatal(second.batch.header.FirstOffset, err)
	}
	o.r.out[0] = o.out
	if o.p.fetchOffset != 1 {
		t.Fatalf("fetching begins anew at %d, want 1", o.p.fetchOffset)
	}
	o.want(o.take(o.answer(1, handBatch(1, 0, 0, -1, 0), handBatch(2, 0, 0, -1, 0))), 2)
}
