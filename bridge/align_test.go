package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// one is a batch of one record.
func one(tb testing.TB, partition int32, offset int64, value string) delivery {
	return delivery{batch: fromSource(tb, "in", partition, encodeSource(tb, offset, batch.None, consecutive(text("k", value)), nil))}
}

// values are those of one sink partition, in order.
func (s *fakeSink) values(tb testing.TB, partition int32) string {
	var all []string
	for _, r := range s.records(tb, "out", partition) {
		all = append(all, string(r.Value))
	}
	return strings.Join(all, " ")
}

func TestAlignmentHoldsBackTheFastInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &fakeSink{}
		r := startTask(t, 3, mapConfig{epoch: 7}, sink, nil)
		r.sendTo(0, one(t, 0, 0, "a"))
		start := time.Now()
		r.sendTo(0, delivery{barrier: 7})
		go r.sendTo(0, one(t, 0, 1, "next-epoch")) // blocks until the barrier is everywhere
		time.Sleep(time.Second)
		for i := range 20 {
			r.sendTo(1, one(t, 1, int64(i), fmt.Sprint(i)))
			r.sendTo(2, one(t, 2, int64(i), fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		r.sendTo(2, delivery{barrier: 7})
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-r.aligned:
			t.Fatal("aligned before input 1 had delivered the barrier")
		default:
		}
		if got := sink.values(t, 0); got != "a" {
			t.Fatalf("before the alignment partition 0 got %q", got)
		}
		r.sendTo(1, one(t, 1, 20, "slow"))
		r.sendTo(1, delivery{barrier: 7})
		a := <-r.aligned
		if a.epoch != 7 || a.task != 0 || !a.alignedSince.Equal(start) || a.state != nil {
			t.Errorf("%+v, started at %v", a, start)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := sink.values(t, 0); got != "a" {
			t.Fatalf("before resume partition 0 got %q", got)
		}
		if got := sink.values(t, 1); !strings.HasSuffix(got, "18 19 slow") {
			t.Errorf("partition 1: %q", got)
		}
		r.resume <- 8
		synctest.Wait()
		if got := sink.values(t, 0); got != "a next-epoch" {
			t.Fatalf("after resume partition 0 got %q", got)
		}
		if a := r.barrier(8); a.epoch != 8 {
			t.Errorf("%+v", a)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBarrierOfAnotherEpoch(t *testing.T) {
	for _, row := range []struct {
		open    int64
		first   int64
		second  int64
		message string
	}{
		{open: 5, first: 4, message: "epoch 4, expected that of epoch 5"},
		{open: 5, first: 5, second: 6, message: "epoch 6, expected that of epoch 5"},
		{open: 0, first: 5, second: 6, message: "epoch 6, expected that of epoch 5"},
	} {
		r := startTask(t, 2, mapConfig{epoch: epochOf(row.open)}, &fakeSink{}, nil)
		r.sendTo(0, delivery{barrier: epochOf(row.first)})
		if row.second != 0 {
			r.sendTo(1, delivery{barrier: epochOf(row.second)})
		}
		if err := r.failure(); err == nil || !strings.Contains(err.Error(), row.message) {
			t.Errorf("%v, want %q", err, row.message)
		}
	}
}

// A barrier that failed comes again with the same number.
func TestResumeWithTheSameEpoch(t *testing.T) {
	r := startTask(t, 2, mapConfig{epoch: 5}, &fakeSink{}, nil)
	r.barrier(5)
	r.resume <- 5
	r.barrier(5)
	r.resume <- 6
	r.sendTo(0, delivery{barrier: 5})
	if err := r.failure(); err == nil || !strings.Contains(err.Error(), "epoch 5, expected that of epoch 6") {
		t.Error(err)
	}
}

func TestBarrierWritesWhatIsOpen(t *testing.T) {
	cfg := mapConfig{sink: sinkOptions(), maps: []MapOptions{{Kind: "headers", Settings: HeadersOptions{}}}, registry: Maps()}
	cfg.sink.Linger = time.Hour
	sink := &fakeSink{}
	r := startTask(t, 1, cfg, sink, nil)
	for p := range int32(3) {
		r.sendTo(0, one(t, p, 0, "v"))
	}
	r.barrier(1)
	for p := range int32(3) {
		if got := sink.values(t, p); got != "v" {
			t.Errorf("partition %d: %q", p, got)
		}
	}
	r.stop()
}

func TestLingerCountsFromTheFirstRecord(t *testing.T) {
	for _, inputs := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			cfg := mapConfig{sink: sinkOptions(), maps: []MapOptions{{Kind: "headers", Settings: HeadersOptions{}}}, registry: Maps()}
			cfg.sink.Linger = 10 * time.Millisecond
			sink := &fakeSink{}
			var at []time.Duration
			start := time.Now()
			sink.onWrite = func(w written) { at = append(at, time.Since(start)) }
			r := startTask(t, inputs, cfg, sink, nil)
			for i := range 4 { // at 0, 4, 8, 12 ms
				r.sendTo(i%inputs, one(t, int32(i%inputs), int64(i), fmt.Sprint(i)))
				time.Sleep(4 * time.Millisecond)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			// One input: 0, 1, 2 at 10 ms, then 3 at 22. Two: partition 0 has 0 and 2, partition 1 has 1 at 4 ms with 3 at 12.
			want, first := "[10ms 22ms]", "0 1 2 3"
			if inputs == 2 {
				want, first = "[10ms 14ms]", "0 2"
			}
			if fmt.Sprint(at) != want {
				t.Errorf("written at %v, want %s", at, want)
			}
			if got := sink.values(t, 0); got != first {
				t.Errorf("partition 0: %q, want %q", got, first)
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A run of untouched batches does not wait for anything.
func TestUntouchedDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := mapConfig{sink: sinkOptions()}
		cfg.sink.Linger = time.Hour
		sink := &fakeSink{}
		r := startTask(t, 1, cfg, sink, nil)
		r.sendTo(0, one(t, 0, 0, "v"))
		synctest.Wait()
		if len(sink.taken()) != 1 {
			t.Error("an untouched batch waited")
		}
		r.stop()
	})
}

func TestStopWhileTheSinkIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &fakeSink{gate: make(chan struct{})}
		r := startTask(t, 1, mapConfig{}, sink, nil)
		released := 0
		d := one(t, 0, 0, "v")
		d.batch.release = func() { released++ }
		r.sendTo(0, d)
		synctest.Wait()
		if err := r.stop(); err != nil || released != 1 {
			t.Errorf("%v, released %d times", err, released)
		}
	})
}

// Whatever a task waits for, it ends when its run does.
func TestStopAtEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, waiting := range []string{"input", "inputs", "barrier", "aligned", "resume"} {
			inputs := 1
			if waiting == "inputs" || waiting == "barrier" {
				inputs = 2
			}
			r := startTask(t, inputs, mapConfig{}, &fakeSink{}, nil)
			switch waiting {
			case "barrier", "aligned":
				r.sendTo(0, delivery{barrier: 1})
			case "resume":
				r.barrier(1)
			}
			synctest.Wait()
			if err := r.stop(); err != nil {
				t.Errorf("%s: %v", waiting, err)
			}
		}
	})
}

func TestClosedInputIsAnError(t *testing.T) {
	for inputs := 1; inputs <= 2; inputs++ {
		r := startTask(t, inputs, mapConfig{}, &fakeSink{}, nil)
		close(r.in[0])
		if err := r.failure(); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Error(err)
		}
	}
}

// Every input gets its turn, however busy the first is.
func TestBusyInputStarvesNobody(t *testing.T) {
	a, b := make(chan delivery, 1), make(chan delivery, 1)
	in := newInputs([]<-chan delivery{a, b}, 0)
	seen := map[int]int{}
	for range 100 {
		for _, c := range []chan delivery{a, b} {
			select {
			case c <- delivery{}:
			default:
			}
		}
		_, from, err := in.next(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[from]++
	}
	if seen[0] != 50 || seen[1] != 50 {
		t.Errorf("%v", seen)
	}
	// Nor does it starve the timer, or outrun the end of the run.
	tick := make(chan time.Time, 1)
	tick <- time.Now()
	if _, _, err := in.next(context.Background(), tick); !errors.Is(err, errTick) {
		t.Errorf("busy inputs starve the timer: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		if _, _, err := in.next(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("a delivery was taken after the end of the run: %v", err)
		}
	}
}

func epochOf(n int64) semantics.Epoch { return semantics.Epoch(n) }
