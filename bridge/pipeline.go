package bridge

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"kafkabridge/semantics"
)

// channelCapacity bounds the deliveries between one source task and one map task. The bytes behind them are bounded by
// MaxInFlight; this only keeps both sides busy.
const channelCapacity = 16

// pipeline is the tasks of one run: from Start to Halt.
type pipeline struct {
	b       *Bridge
	began   semantics.Start
	tasks   []*mapTask
	aligned chan alignment
	resume  []chan semantics.Epoch
	// number counts barriers of this run. The tasks know barriers by it and not by the epoch, because an idle epoch keeps its
	// number and sends its barrier again.
	number semantics.Epoch
}

func newPipeline(b *Bridge, a semantics.Start) *pipeline {
	p := &pipeline{b: b, began: a, aligned: make(chan alignment, b.o.Workers), number: 1}
	cfg := mapConfig{tasks: b.o.Workers, maps: b.o.Maps, registry: b.p.Maps, sink: b.o.Sink, epoch: p.number, maxInFlight: b.o.MaxInFlight,
		barred: b.barred, partitions: mostPartitions(a.Positions), journal: b.journal}
	cfg.noted, cfg.learned = b.rejects.notes()
	b.p.Topics.Refresh()
	for i := range b.o.Workers {
		p.tasks = append(p.tasks, newMapTask(i, cfg, b.sink, b.p.Topics, a.State, b.log))
		p.resume = append(p.resume, make(chan semantics.Epoch, 1))
	}
	return p
}

// mostPartitions is how many partitions the largest source topic has.
func mostPartitions(of semantics.Positions) (n int32) {
	for _, topic := range of {
		n = max(n, int32(len(topic.Partitions)))
	}
	return n
}

// start starts every task of the run in the driver's generation.
func (p *pipeline) start(d *driver) {
	out := make([][]chan<- delivery, len(p.b.sources))
	in := make([][]<-chan delivery, len(p.tasks))
	for s := range out {
		for t := range in {
			c := make(chan delivery, channelCapacity)
			out[s] = append(out[s], c)
			in[t] = append(in[t], c)
		}
	}
	for t, task := range p.tasks {
		d.async(func(ctx context.Context) (semantics.Event, error) {
			return nil, task.run(ctx, in[t], p.aligned, p.resume[t])
		})
	}
	for s, src := range p.b.sources {
		d.async(func(ctx context.Context) (semantics.Event, error) {
			return nil, src.run(ctx, p.began.Positions, out[s])
		})
	}
	p.b.hub.running(p.tasks)
}

// flow lets every map task read on.
func (p *pipeline) flow() {
	p.number++
	for _, c := range p.resume {
		c <- p.number // has room: each task takes one a barrier
	}
}

// barrier sends the barrier through the tasks: every source at the same time, because one that is held up by a map task
// that waits for another source's barrier would hold up that one.
func (p *pipeline) barrier(ctx context.Context, epoch semantics.Epoch) (semantics.Event, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	positions := make([]semantics.Positions, len(p.b.sources))
	p.b.hub.aligning(p.b.sources)
	var asked sync.WaitGroup
	for i, s := range p.b.sources {
		asked.Go(func() {
			pos, err := s.barrier(ctx, p.number)
			if err != nil {
				cancel(err)
			} else {
				p.b.hub.barrierSent(s.o.Name)
			}
			positions[i] = pos
		})
	}
	defer asked.Wait()
	state := map[string][]byte{}
	var first time.Time
	for range p.tasks {
		select {
		case a := <-p.aligned:
			p.b.hub.taskAligned()
			maps.Copy(state, a.state)
			if first.IsZero() || a.alignedSince.Before(first) {
				first = a.alignedSince
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	asked.Wait()
	all := semantics.Positions{}
	for _, pos := range slices.Backward(positions) {
		all = pos.Over(all)
	}
	if len(state) == 0 {
		state = nil
	}
	return semantics.Aligned{Epoch: epoch, Positions: all, State: state}, nil
}
