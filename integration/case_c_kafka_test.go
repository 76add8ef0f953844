//go:build kafka

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/traffic"
)

// TestCaseC3C6: source and sink are brokers of their own, from Kafka with transaction.version 2 to one with 1, under load of an
// EXACTLY_ONCE and an AT_LEAST_ONCE bridge. The sink stands still; then each broker is killed, both are restarted, both are down
// for longer than the transaction timeout. The bridges go on by themselves.
func TestCaseC3C6(t *testing.T) {
	t.Parallel()
	src, dst := startCluster(t, current()), startCluster(t, kafka.Options{Version: kafka.Current, TransactionVersion: 1})
	away := 12 * time.Second
	if *campaignSize == "full" {
		away = 150 * time.Second // above the delivery timeout of two minutes
	}
	var all []*shaken
	for _, semantic := range []string{"EXACTLY_ONCE", "AT_LEAST_ONCE"} {
		r := namedRig(t, unique(t)+"-"+semantic[:2], semantic, src, dst, 3)
		r.repeats = true
		r.cfg.Checkpoint["timeout"] = "3s"
		if semantic == "EXACTLY_ONCE" {
			r.cfg.Sink.Attrs["transaction_timeout"] = cellTimeout.String()
		}
		s := &shaken{rig: r, stop: r.patientStream(3, 800), d: r.start("")}
		r.ready(s.d)
		s.decides(s.d)
		all = append(all, s)
	}
	t.Run("C6SinkStandsStill", func(t *testing.T) { caseC6(t, dst, all, away) })
	for _, round := range []struct {
		name string
		do   func() error
	}{
		{"sink killed", func() error { return bounce(t, true, 0, dst) }},
		{"source killed", func() error { return bounce(t, true, 0, src) }},
		{"both restarted", func() error { return bounce(t, false, 0, src, dst) }},
		{"both killed and down", func() error { return bounce(t, true, away, src, dst) }},
	} {
		if err := round.do(); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			t.Logf("%s: %s decides after %v", round.name, s.name, s.decides(s.d).Round(time.Millisecond))
		}
	}
	for _, s := range all {
		s.judge()
	}
}

// shaken is a bridge of TestCaseC3C6.
type shaken struct {
	*rig
	d    *daemon.Daemon
	stop func() int
}

// patientStream is stream for a source whose broker goes down: what was not acknowledged is not written again, and not counted.
func (r *rig) patientStream(partitions int32, perSecond int) (stop func() int) {
	done, ctx := make(chan int, 1), r.t.Context()
	enough, cancel := context.WithCancel(ctx)
	go func() {
		acknowledged := 0
		p := r.plan(partitions, perSecond/int(partitions), perSecond) // a second's worth
		for enough.Err() == nil {
			n, err := traffic.Produce(ctx, p)
			if err != nil {
				pause(100 * time.Millisecond) // a new client gives up soon on a topic that a broker does not know yet
			}
			acknowledged += n.Committed
			p.First += p.Records
		}
		done <- acknowledged
	}()
	return func() int { cancel(); return <-done }
}

// caseC6: the sink's broker stands still under load: nothing more is read than what may be in flight, and the memory stays bounded.
// Then it goes on; the bridges are restarted once.
func caseC6(t *testing.T, dst *kafka.Cluster, all []*shaken, away time.Duration) {
	if err := dst.Node(1).Pause(); err != nil {
		t.Fatal(err)
	}
	pause(away * 2 / 3)
	read := map[*shaken]float64{}
	for _, s := range all {
		read[s] = s.metric(s.d, "bridge_records_in_total")
	}
	pause(away / 3)
	for _, s := range all {
		more := s.metric(s.d, "bridge_records_in_total") - read[s]
		t.Logf("%s: %v records more were read in the last %v of %v; %s", s.name, more, away/3, away, s.d.WhyNotReady(t.Context()))
		s.smallerThan(s.d, memoryLimit)
		if s.d.Ready(t.Context()) {
			t.Errorf("%s is ready although nothing has moved for %v", s.name, away)
		}
	}
	if err := dst.Node(1).Continue(); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Logf("%s decides after %v", s.name, s.decides(s.d).Round(time.Millisecond))
		s.note(s.d)
		s.terminate(s.d)
		s.d = s.start("")
		s.ready(s.d)
		s.decides(s.d)
	}
}

// bounce ends the clusters' brokers, waits, and boots them again.
func bounce(t *testing.T, kill bool, away time.Duration, clusters ...*kafka.Cluster) error {
	t.Helper()
	var errs []error
	for _, c := range clusters {
		if kill {
			errs = append(errs, c.Node(1).Kill())
		} else {
			errs = append(errs, c.Node(1).Stop(t.Context()))
		}
	}
	pause(away)
	for _, c := range clusters {
		errs = append(errs, c.Node(1).Start(t.Context()))
	}
	return errors.Join(errs...)
}

func (s *shaken) judge() {
	s.t.Helper()
	records := s.stop()
	s.drained(s.d)
	s.note(s.d)
	s.terminate(s.d)
	if s.cfg.Attrs["semantic"] == "EXACTLY_ONCE" {
		s.exactlyOnce(records)
		return
	}
	if err := s.sinkReport(s.expected(), oracle.SamePartition).AtLeastOnce(); err != nil {
		s.t.Error(err)
	}
}

// greenLimit is how long a bridge may be ready while records wait and nothing moves.
const greenLimit = 60 * time.Second

// TestCaseC5NotGreenForLong forces what a program cannot mend: its transactional ids are taken by somebody, its rights are revoked,
// its sink topic is deleted. The bridge goes on by itself, or is not ready, or ends with another code than 0.
func TestCaseC5NotGreenForLong(t *testing.T) {
	t.Parallel()
	c, secure := secureCluster(t, 0)
	for _, x := range []struct {
		name   string
		harm   func(*rig) (undo func())
		repair bool // afterwards the bridge (started again, if it has ended) goes on
	}{
		{"taken once", func(r *rig) func() { r.takeIDs(); return func() {} }, true},
		{"taken again and again", (*rig).takeIDsForLong, true},
		{"rights revoked", func(r *rig) func() {
			setRights(t, c, "EXACTLY_ONCE", nil)
			return func() { setRights(t, c, "EXACTLY_ONCE", r.rights()) }
		}, true},
		{"sink topic deleted", func(r *rig) func() {
			if err := c.DeleteTopic(t.Context(), r.out); err != nil {
				t.Fatal(err)
			}
			return func() {}
		}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t, "EXACTLY_ONCE", c, c, 2)
			createTopic(t, c, r.ledger(), 1, map[string]string{"cleanup.policy": "compact"})
			setRights(t, c, "EXACTLY_ONCE", r.rights())
			r.as(secure, "PLAIN", "EXACTLY_ONCE", fmt.Sprintf("%q", casePassword))
			r.cfg.Sink.Attrs["create_topics"] = false
			r.cfg.Checkpoint["timeout"], r.cfg.Sink.Attrs["transaction_timeout"] = "3s", cellTimeout.String()
			stop := r.stream(2, 400)
			d := r.start("")
			r.ready(d)
			r.decides(d)
			undo := x.harm(r)
			r.movesOrSays(d)
			undo()
			if !x.repair {
				stop()
				return
			}
			if !d.Running() {
				d = r.start("")
			}
			r.decides(d)
			records := stop()
			r.drained(d)
			r.terminate(d)
			r.exactlyOnce(records)
		})
	}
}

// rights are what EXACTLY_ONCE needs.
func (r *rig) rights() []right {
	all := []right{{"topic", r.in[0], kadm.OpRead}, {"topic", r.out, kadm.OpWrite}, {"topic", r.ledger(), kadm.OpRead}, {"topic", r.ledger(), kadm.OpWrite},
		{"group", r.name + "-group", kadm.OpRead}}
	for _, id := range []string{"-0", "-1"} {
		all = append(all, right{"transactional id", r.name + id, kadm.OpDescribe}, right{"transactional id", r.name + id, kadm.OpWrite})
	}
	return all
}

// takeIDs fences the bridge as a foreign producer with its transactional ids does.
func (r *rig) takeIDs() {
	r.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.dst.Bootstrap()...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	for _, id := range []string{r.name + "-0", r.name + "-1"} {
		err := kafka.Poll(r.t.Context(), id+" is taken", func() (bool, error) {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, 10_000, -1, -1
			resp, err := req.RequestWith(r.t.Context(), cl)
			return err == nil && resp.ErrorCode == 0, err // CONCURRENT_TRANSACTIONS passes
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// takeIDsForLong takes the ids again whenever the bridge has them back, until undo.
func (r *rig) takeIDsForLong() (undo func()) {
	r.t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(100 * time.Millisecond):
				r.takeIDs()
			}
		}
	}()
	return func() { close(quit); <-done }
}

// movesOrSays waits until the bridge has decided three epochs more, ends with another code than 0, or is not ready for longer than a
// recovery takes; records wait all the time. It may not be ready for greenLimit without any of that.
func (r *rig) movesOrSays(d *daemon.Daemon) {
	r.t.Helper()
	first := r.metric(d, "bridge_decided_epoch")
	begin, green := time.Now(), time.Now()
	unready := 0
	for {
		if !d.Running() {
			if code, err := d.Exit(r.t.Context(), exitLimit); err != nil || code == 0 {
				r.t.Fatalf("exit code %d, %v", code, err)
			}
			r.t.Logf("it ended after %v: %.300s", time.Since(begin).Round(time.Millisecond), lastLine(d.Log()))
			return
		}
		if m, err := d.Metrics(r.t.Context()); err == nil {
			if now, _ := m.Sum("bridge_decided_epoch"); now >= first+3 {
				r.t.Logf("it goes on after %v", time.Since(begin).Round(time.Millisecond))
				return
			}
		}
		if d.Ready(r.t.Context()) {
			unready = 0
			if time.Since(green) > greenLimit {
				r.t.Fatalf("ready for %v, and nothing moves\n%s", time.Since(green), d.LogTail())
			}
		} else if green, unready = time.Now(), unready+1; unready > 50 {
			r.t.Logf("not ready after %v: %s", time.Since(begin).Round(time.Millisecond), d.WhyNotReady(r.t.Context()))
			return
		}
		pause(100 * time.Millisecond)
	}
}
