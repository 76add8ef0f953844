package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/mattn/go-isatty"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/semantics"
)

type demoCommand struct {
	Records int `default:"100000" help:"How many sample records."`
}

const (
	demoPartitions = 6
	demoMost       = 5_000_000 // records; the embedded broker keeps all of them in memory, twice
	demoTimeout    = 2 * time.Minute
)

// Run shows the main job: an embedded broker, an exactly-once bridge that is cut off between prepare and commit, a new one that recovers, and a
// check by a reader that knows nothing of bridges.
func (c *demoCommand) Run(env environment) error {
	if c.Records < 1 || c.Records > demoMost {
		return &usageError{fmt.Errorf("--records=%d: give a number from 1 to %d", c.Records, demoMost)}
	}
	d := &demo{n: c.Records, env: env, terminal: isatty.IsTerminal(os.Stderr.Fd())}
	ctx, cancel := context.WithTimeout(context.Background(), demoTimeout)
	defer cancel()
	ctx, release := env.stoppable(ctx)
	defer release()
	err := d.run(ctx)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the demo was not done within %s; give it fewer --records: %w", demoTimeout, err)
	case errors.Is(context.Cause(ctx), errStopped):
		return errStopped
	}
	return err
}

type demo struct {
	n        int
	env      environment
	terminal bool
	brokers  []string
	dir      string
}

func (d *demo) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.env.stdout, format+"\n", args...)
}

func (d *demo) run(ctx context.Context) (err error) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(demoPartitions, "orders"))
	if err != nil {
		return fmt.Errorf("start the embedded broker: %w", err)
	}
	defer broker.Close()
	d.brokers = broker.ListenAddrs()
	if d.dir, err = os.MkdirTemp("", "bridge-demo-"); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()

	d.say("An embedded broker listens at %s.", d.brokers[0])
	if err := d.produce(ctx); err != nil {
		return err
	}
	d.say("Topic orders holds %d sample records in %d partitions.", d.n, demoPartitions)

	began := time.Now()
	killed, err := d.killed(ctx)
	if err != nil {
		return err
	}
	if killed {
		d.say("The first bridge was cut off after %s, as by kill -9: its checkpoint 1 was durable, its transaction prepared and not committed.", since(began))
	} else {
		d.say("The first bridge was done before it could be cut off (%s).", since(began))
	}

	began = time.Now()
	second, err := d.recovered(ctx)
	if err != nil {
		return err
	}
	d.say("The second bridge recovered (%s: %s) and moved the rest in %s.", second.Recovery.Outcome, second.Recovery.Reason, since(began))
	return d.verdict(ctx, killed, second)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// produce writes the sample records.
func (d *demo) produce(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		return fmt.Errorf("sample producer: %w", err)
	}
	defer cl.Close()
	var first kgo.FirstErrPromise
	for i := range d.n {
		if ctx.Err() != nil {
			return fmt.Errorf("produce sample records: %w", context.Cause(ctx))
		}
		cl.Produce(ctx, sample(i), first.Promise())
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("produce sample records: %w", err)
	}
	if err := first.Err(); err != nil {
		return fmt.Errorf("produce sample records: %w", err)
	}
	return nil
}

func sample(i int) *kgo.Record {
	return &kgo.Record{
		Partition: int32(i % demoPartitions),
		Key:       fmt.Appendf(nil, "customer-%d", i%997),
		Value:     fmt.Appendf(nil, `{"order":%d,"item":"article %d","amount":%d.%02d}`, i, i%313, i%500, i%100),
	}
}

// config is a configuration file like any other; the demo uses nothing that a user could not write.
func (d *demo) config() (*configs.File, error) {
	text := fmt.Sprintf(`
bridge "demo" {
  semantic = "EXACTLY_ONCE"
  source "orders" {
    brokers = [%[1]q]
    topics  = ["orders"]
    # Small bites, so that the demo has several checkpoints.
    fetch_max_bytes = "64KiB"
  }
  map "headers" {
    set = { "x-origin" = "demo" }
  }
  sink "copy" {
    brokers = [%[1]q]
    topic   = "orders-copy"
  }
  checkpoint {
    path        = %[2]q
    interval    = "1s"
    max_records = %[3]d
  }
}
server { listen = "" }
log    { level = "error" }
`, d.brokers[0], filepath.Join(d.dir, "state"), max(1, d.n/10))
	return configs.Parse([]byte(text), filepath.Join(d.dir, "demo.hcl"))
}

// killed runs the first bridge until it is cut off in the middle of its first commit: after the checkpoint is durable, before
// EndTxn is sent. A later commit would not come with few records.
func (d *demo) killed(ctx context.Context) (killed bool, err error) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	errKilled := errors.New("cut off by the demo")
	fail := func(operation string) {
		if operation == "after-persist" {
			cut(errKilled)
			runtime.Goexit() // the dead answer nothing
		}
	}
	_, err = d.bridge(ctx, fail)
	if errors.Is(context.Cause(ctx), errKilled) {
		return true, nil
	}
	return false, err
}

func (d *demo) recovered(ctx context.Context) (bridge.Status, error) { return d.bridge(ctx, nil) }

// bridge runs a bridge until everything is moved, or ctx cuts it off.
func (d *demo) bridge(ctx context.Context, fail func(string)) (bridge.Status, error) {
	file, err := d.config()
	if err != nil {
		return bridge.Status{}, err
	}
	b := file.Bridges[0]
	b.Options.UntilEnd = true
	log := hclog.New(&hclog.LoggerOptions{Name: "bridge", Level: hclog.LevelFromString(file.Log.Level), Output: d.env.stderr})
	a := kafkabridge.New(b, kafkabridge.WithLogger(log), kafkabridge.WithFailpoint(fail), kafkabridge.WithCrash(ctx))
	shown := make(chan struct{})
	var progress sync.WaitGroup
	if d.terminal {
		progress.Go(func() { d.progress(a, shown) })
	}
	err = a.Run(context.Background())
	close(shown)
	progress.Wait()
	s := a.Status()
	return s, err
}

// progress draws a line on a terminal.
func (d *demo) progress(a *kafkabridge.Bridge, finished <-chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s := a.Status()
			_, _ = fmt.Fprintf(d.env.stderr, "\r\x1b[K  %d of %d records, epoch %d", s.Maps.RecordsIn, d.n, s.Epoch)
		case <-finished:
			_, _ = fmt.Fprint(d.env.stderr, "\r\x1b[K")
			return
		}
	}
}

// verdict reads the copy as any read_committed consumer does, and compares.
func (d *demo) verdict(ctx context.Context, killed bool, second bridge.Status) error {
	got, err := d.read(ctx)
	if err != nil {
		return err
	}
	d.say("")
	d.say("  records in the source                %d", d.n)
	d.say("  records a read_committed reader sees %d", got.seen)
	d.say("  lost %d, doubled %d, out of order %d, changed %d", got.lost, got.doubled, got.reordered, got.changed)
	d.say("  reprocessed after the restart        %d", max(0, second.Replayed))
	d.say("")
	if got.lost+got.doubled+got.reordered+got.changed > 0 {
		return semantics.Refuse("demo", "the copy is not exactly once: this is a bug")
	}
	if killed {
		d.say("Each record arrived exactly once, in order, although the bridge died in the middle of a commit.")
	}
	d.say("Next: the five-minute quick start on a real broker in README.md.")
	return nil
}
