package bridge

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"kafkabridge/semantics"
)

// inputs are a map task's channels, one per source task, and which of them stand at the barrier. An input that has
// delivered the barrier is not read until all have: what is behind it there belongs to the next epoch, and mixing it in
// would put records into a transaction whose ledger record does not cover them.
type inputs struct {
	channels []<-chan delivery
	held     []bool // stands at the barrier
	standing int    // how many do
	turn     int    // where the next look begins, so that a busy input does not starve its neighbours
	epoch    semantics.Epoch
	since    time.Time // when the first of them delivered the barrier
	cases    []reflect.SelectCase
}

// newInputs reads channels; epoch is the one whose barrier comes first, 0 when the first barrier says it.
func newInputs(channels []<-chan delivery, epoch semantics.Epoch) *inputs {
	return &inputs{channels: channels, held: make([]bool, len(channels)), epoch: epoch,
		cases: make([]reflect.SelectCase, 2+len(channels))}
}

// errTick is returned by next when the timer fired.
var errTick = errors.New("timer fired")

// next waits for a delivery of an input that does not stand at the barrier. It answers errTick when tick fires and
// ctx's error when ctx is done.
func (in *inputs) next(ctx context.Context, tick <-chan time.Time) (d delivery, from int, err error) {
	if err := ctx.Err(); err != nil {
		return delivery{}, 0, err // a busy input must not outrun a cancelled run
	}
	if len(in.channels) == 1 && !in.held[0] {
		select {
		case d, ok := <-in.channels[0]:
			return received(d, 0, ok)
		case <-tick:
			return delivery{}, 0, errTick
		case <-ctx.Done():
			return delivery{}, 0, ctx.Err()
		}
	}
	select {
	case <-tick:
		return delivery{}, 0, errTick
	default:
	}
	for range in.channels {
		i := in.turn
		in.turn = (in.turn + 1) % len(in.channels)
		if in.held[i] {
			continue
		}
		select {
		case d, ok := <-in.channels[i]:
			return received(d, i, ok)
		default:
		}
	}
	return in.wait(ctx, tick)
}

// wait is next when no input has anything ready. It may cost more than next does: it sleeps anyway.
func (in *inputs) wait(ctx context.Context, tick <-chan time.Time) (delivery, int, error) {
	const done, ticked, first = 0, 1, 2
	in.cases[done] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}
	in.cases[ticked] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(tick)}
	for i, c := range in.channels {
		in.cases[first+i] = reflect.SelectCase{Dir: reflect.SelectRecv}
		if !in.held[i] {
			in.cases[first+i].Chan = reflect.ValueOf(c)
		}
	}
	switch i, v, ok := reflect.Select(in.cases); i {
	case done:
		return delivery{}, 0, ctx.Err()
	case ticked:
		return delivery{}, 0, errTick
	default:
		d, _ := v.Interface().(delivery)
		return received(d, i-first, ok)
	}
}

// received refuses a closed channel: it would deliver nothing for ever and look like an idle source.
func received(d delivery, from int, ok bool) (delivery, int, error) {
	if !ok {
		return delivery{}, from, fmt.Errorf("read input %d: its channel was closed before the run ended", from)
	}
	return d, from, nil
}

// barrier notes that an input has delivered the barrier of epoch and says whether all have. An epoch other than the
// open one is an error: a barrier was lost or doubled, and the positions it stands for are not those of this output.
func (in *inputs) barrier(from int, epoch semantics.Epoch, now time.Time) (all bool, err error) {
	if in.epoch == 0 {
		in.epoch = epoch
	}
	if epoch != in.epoch {
		return false, fmt.Errorf("input %d delivered the barrier of epoch %d, expected that of epoch %d", from, epoch, in.epoch)
	}
	if in.standing == 0 {
		in.since = now
	}
	in.held[from] = true
	in.standing++
	return in.standing == len(in.channels), nil
}

// resume opens every input again for the given epoch.
func (in *inputs) resume(epoch semantics.Epoch) {
	clear(in.held)
	in.standing = 0
	in.epoch = epoch
}
