package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// selftestRow is one line of the table.
type selftestRow struct {
	Step     string          `json:"step"`
	Kills    int             `json:"kills"`
	Outcomes map[string]int  `json:"recoveries"` // outcome of the recovery that followed → how often
	Recovery []time.Duration `json:"-"`          // from the start of the process until records flowed
	Median   float64         `json:"recovery_median_seconds"`
	Longest  float64         `json:"recovery_max_seconds"`
	selftestResult
}

func (r *selftestRow) recovered(by recovery) {
	r.Outcomes[by.outcome]++
	r.Recovery = append(r.Recovery, by.after)
	slices.Sort(r.Recovery)
	r.Median, r.Longest = r.Recovery[len(r.Recovery)/2].Seconds(), r.Recovery[len(r.Recovery)-1].Seconds()
}

// selftestStep is a failpoint, and whether the bridge stays down until the brokers have aborted what it had prepared.
type selftestStep struct {
	failpoint string
	times     int // the first, second … time that a process comes there
	down      bool
}

func (s selftestStep) String() string {
	if s.down {
		return s.failpoint + ", down too long"
	}
	return s.failpoint
}

// selftestSteps: a process claims once, fences two ids, and comes to everything else again and again.
func selftestSteps() []selftestStep {
	var steps []selftestStep
	for _, name := range failpoints {
		times := 2
		if name == "after-claim" {
			times = 1
		}
		steps = append(steps, selftestStep{failpoint: name, times: times})
	}
	return append(steps, selftestStep{failpoint: "after-persist", times: 1, down: true})
}

// anyMoment is the row of kills that nothing but chance has timed.
const anyMoment = "any moment"

// disturb keeps records flowing into the source and kills the bridge again and again; then it lets it finish.
func (s *selftest) disturb(ctx context.Context) (err error) {
	if s.load, err = s.startLoad(ctx); err != nil {
		return err
	}
	defer s.load.close()
	end := time.Now().Add(s.Duration)
	moment := s.row(anyMoment)
	for _, step := range selftestSteps() {
		row := s.row(step.String())
		for n := range step.times {
			s.say("%4.0f s  kill -9 %s, time %d", time.Since(s.load.began).Seconds(), step, n+1)
			if err := s.killAt(ctx, step, n+1, row, moment); err != nil {
				return err
			}
		}
	}
	s.say("%4.0f s  kill -9 at any moment", time.Since(s.load.began).Seconds())
	for first := true; first || time.Now().Before(end); first = false {
		s.load.during(moment)
		if err := s.killAnywhere(ctx, moment); err != nil {
			return err
		}
	}
	if err := s.load.stop(ctx); err != nil {
		return err
	}
	return s.finish(ctx, moment)
}

// finish lets a bridge move what is left.
func (s *selftest) finish(ctx context.Context, moment *selftestRow) error {
	s.say("%4.0f s  %d records are in the source; a last bridge moves what is left", time.Since(s.load.began).Seconds(), s.load.total())
	c, err := s.start("", "--until-end")
	if err != nil {
		return err
	}
	defer c.kill()
	r, err := s.awaitRecovered(ctx, c)
	if err != nil {
		return err
	}
	moment.recovered(r)
	if err := s.await(ctx, c, nil, "move what was left"); err != nil {
		return err
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		return c.failure("before it was done")
	}
	return nil
}

func (s *selftest) row(step string) *selftestRow {
	r := &selftestRow{Step: step, Outcomes: map[string]int{}}
	s.rows = append(s.rows, r)
	return r
}

// killAt kills one bridge at the step and the one that recovers from it at some moment soon after.
func (s *selftest) killAt(ctx context.Context, step selftestStep, n int, row, moment *selftestRow) error {
	s.load.during(row)
	c, err := s.start(fmt.Sprintf("%s:%d", step.failpoint, n))
	if err != nil {
		return err
	}
	defer c.kill()
	if err := s.awaitKilled(ctx, c, step.failpoint); err != nil {
		return err
	}
	row.Kills++
	select {
	case r := <-c.recovered: // from the kill before, at some moment
		if moment.Kills > 0 {
			moment.recovered(r)
		}
	default:
	}
	if !step.down {
		return s.recoverAndKill(ctx, row, moment)
	}
	if err := s.aborted(ctx); err != nil {
		return err
	}
	if err := s.recoverAndKill(ctx, row, moment); err != nil {
		return err
	}
	if row.Outcomes["replayed"] == 0 {
		return fmt.Errorf("selftest: the brokers aborted the transaction of the killed bridge, and the next one took it for %v", row.Outcomes)
	}
	return nil
}

// recoverAndKill starts a bridge, notes its recovery in row, and kills it at some moment soon after.
func (s *selftest) recoverAndKill(ctx context.Context, row, moment *selftestRow) error {
	c, err := s.start("")
	if err != nil {
		return err
	}
	defer c.kill()
	r, err := s.awaitRecovered(ctx, c)
	if err != nil {
		return err
	}
	row.recovered(r)
	return s.killSoon(ctx, c, 3*s.interval(), moment)
}

// killSoon kills c within limit. That it ended before by itself is a failure, however good its reason.
func (s *selftest) killSoon(ctx context.Context, c *child, limit time.Duration, moment *selftestRow) error {
	select {
	case <-time.After(rand.N(limit)):
	case <-c.ended:
		return c.failure("while it was left alone")
	case err := <-s.load.failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	moment.Kills++
	return nil
}

// killAnywhere kills a bridge at some moment, also before it has recovered.
func (s *selftest) killAnywhere(ctx context.Context, moment *selftestRow) error {
	c, err := s.start("")
	if err != nil {
		return err
	}
	err = s.killSoon(ctx, c, 2*time.Second, moment)
	c.kill()
	if err != nil {
		return err
	}
	return s.recoverAndKill(ctx, moment, moment)
}
