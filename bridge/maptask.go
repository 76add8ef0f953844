package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// mapConfig is what all map tasks of a run share. Nothing in it is written while they run, but for what noted says.
type mapConfig struct {
	tasks       int // number of map tasks of the run, as assign gets it
	maps        []MapOptions
	registry    Registry
	sink        SinkOptions
	epoch       semantics.Epoch // the open one, whose barrier comes first; 0: the first barrier says it
	maxInFlight int64           // Options.MaxInFlight; a quarter of it may be in open batches, over all map tasks

	noted      map[partitionKey]map[int64]note // what brokers have refused, see rejects; each source partition's task writes to its part
	learned    map[string]lesson               // the same by sink topic
	barred     func(topic string) error        // why a map must not route there; nil: it may route anywhere
	partitions int32                           // the most that a source topic has
	journal    *journal                        // nil: none
}

// mapTask owns some source partitions for one run: it verifies their batches, hands them on untouched or takes their
// records through the maps into open batches, and aligns barriers. All of it happens in run's goroutine, in the order in
// which each source task sent, so order per source partition holds.
type mapTask struct {
	index int
	cfg   mapConfig
	log   hclog.Logger

	router     *router
	encoders   encoders
	inputs     *inputs
	partitions map[partitionKey]*sourcePartition
	state      mapState

	decoder *batch.Decoder
	reader  batch.Reader
	record  batch.Record // being read
	outputs outputs      // of the record being read
	codec   batch.Codec  // of the batch being read
	now     time.Time    // when it was begun
	source  int32        // partitions of its topic
	dead    deadLetters

	counters mapCounters
}

// alignment says that a map task has reached the barrier of epoch: every batch before it was taken by the Writer.
type alignment struct {
	task  int
	epoch semantics.Epoch
	// state is the map state of the task's partitions, those without a record in this run included; nobody writes to it
	// again. The states of all tasks have no key in common and together are the whole state. nil: there is none.
	state        map[string][]byte
	alignedSince time.Time // when the first input delivered the barrier
}

// newMapTask makes the map task with that index for one run. state is the whole map state of the checkpoint that the
// run goes on from; the task takes its part and writes to none of it.
func newMapTask(index int, cfg mapConfig, w Writer, topics SinkTopics, state map[string][]byte, log hclog.Logger) *mapTask {
	t := &mapTask{
		index:      index,
		cfg:        cfg,
		log:        log,
		router:     newRouter(cfg.sink, topics),
		partitions: map[partitionKey]*sourcePartition{},
		state:      ownState(state, index, cfg.tasks),
		decoder:    batch.NewDecoder(batch.DefaultDecompressedLimit),
	}
	t.router.learned = cfg.learned
	if cfg.barred != nil {
		t.router.barred = cfg.barred
	}
	t.counters.dropped = make([]int64, len(cfg.maps))
	t.encoders.tracks = cfg.sink.OnReject == DeadLetter
	t.encoders.w = w
	t.encoders.linger = cfg.sink.Linger
	t.encoders.openLimit = max(int(cfg.maxInFlight/4/int64(max(cfg.tasks, 1))), targetBytes)
	return t
}

// run reads the channels of the source tasks until ctx is done (nil) or something fails. It owns every batch that it
// has received and releases it or hands it to the Writer, whatever happens; what is left in the channels is not its.
//
// After the barrier of an epoch has come on all inputs and every open batch was written it sends on aligned and waits
// for the next open epoch on resume before it reads on (I8). Errors name topic, partition and offset.
func (t *mapTask) run(ctx context.Context, in []<-chan delivery, aligned chan<- alignment, resume <-chan semantics.Epoch) error {
	t.encoders.ctx = ctx
	t.inputs = newInputs(in, t.cfg.epoch)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		t.arm(timer)
		d, from, err := t.inputs.next(ctx, timer.C)
		switch {
		case errors.Is(err, errTick):
			err = t.encoders.closeDue(time.Now())
		case err != nil:
		case d.barrier != 0:
			err = t.barrier(ctx, from, d.barrier, aligned, resume)
		default:
			err = t.batch(ctx, &d.batch)
		}
		t.publish()
		if ctx.Err() != nil {
			return nil // whoever cancelled knows why; what failed because of it is no news
		}
		if err != nil {
			return fmt.Errorf("map task %d: %w", t.index, err)
		}
	}
}

// arm sets the timer to the moment at which the oldest open batch has lingered enough.
func (t *mapTask) arm(timer *time.Timer) {
	if len(t.encoders.open) == 0 {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(t.encoders.open[0].deadline))
}

// barrier notes the barrier of one input. When it was the last, it passes the barrier on and waits for the next epoch.
func (t *mapTask) barrier(ctx context.Context, from int, epoch semantics.Epoch, aligned chan<- alignment, resume <-chan semantics.Epoch) error {
	all, err := t.inputs.barrier(from, epoch, time.Now())
	if err != nil || !all {
		return err
	}
	if err := t.encoders.closeAll(); err != nil {
		return err
	}
	state, err := t.snapshot()
	if err != nil {
		return err
	}
	t.publish()
	select {
	case aligned <- alignment{task: t.index, epoch: epoch, state: state, alignedSince: t.inputs.since}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case next := <-resume:
		t.inputs.resume(next)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// snapshot is the state of all partitions of this task.
func (t *mapTask) snapshot() (map[string][]byte, error) {
	for _, p := range t.partitions {
		if p.chain == nil {
			continue
		}
		if err := p.chain.snapshot(t.state); err != nil {
			return nil, err
		}
	}
	return t.state.clone(), nil
}
