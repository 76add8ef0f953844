//go:build kafka

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
	"kafkabridge/integration/proxy"
	"kafkabridge/integration/traffic"
)

// caseB1: a backlog over a link so slow that writing it takes several times the transaction timeout. It drains, and what readers
// see only ever grows.
func caseB1(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	r := newRig(t, "EXACTLY_ONCE", c, c, 2)
	r.throughProxies()
	r.timesOutSoon()
	r.cfg.Checkpoint["interval"] = "1s"
	p := r.plan(2, 1_500, 0)
	p.ValueBytes, p.Batches, p.Codecs = 1_000, []int{1, 50, 100}, nil
	total := produce(t, p).Committed
	slow := n.Add(proxy.Rule{Keys: []kmsg.Key{kmsg.Produce}, Direction: proxy.Request, BytesPerSecond: 250 << 10})
	defer slow.Remove()
	begin := time.Now()
	d := r.start("")
	r.ready(d)
	for seen := 0; seen < total; {
		r.progress(d, seen) // offsets also count markers: there is something to look at
		now, err := r.countCommitted()
		if err != nil || now < seen {
			t.Fatalf("readers saw %d records, now %d: %v", seen, now, err)
		}
		if now > seen {
			t.Logf("%d of %d records after %v", now, total, time.Since(begin).Round(time.Millisecond))
		} else if time.Since(begin) > drainLimit {
			t.Fatalf("%d of %d records after %v\n%s", now, total, time.Since(begin), d.LogTail())
		}
		seen = now
	}
	if took := time.Since(begin); took < 8*time.Second {
		t.Errorf("the link was not slow enough: %v for all, the transaction timeout is 4 s", took)
	}
	r.smallerThan(d, memoryLimit)
	t.Logf("%v records were read more than once", r.metric(d, "bridge_replayed_records_total"))
	r.drained(d)
	r.terminate(d)
	r.exactlyOnce(total)
}

// caseB1Refused: an interval that is longer than the transaction timeout cannot work.
func caseB1Refused(t *testing.T, c *kafka.Cluster, _ *proxy.Network) {
	r := newRig(t, "EXACTLY_ONCE", c, c, 1)
	r.cfg.Checkpoint["interval"], r.cfg.Sink.Attrs["transaction_timeout"] = "60s", "10s"
	_, told := r.findings("validate")
	r.says(told, "transaction_timeout", "interval")
	r.says(r.exit(r.start(""), 2, readyLimit), "transaction_timeout", "interval")
}

// preflightLimit is the case's.
const preflightLimit = 30 * time.Second

// TestCaseB2Preflight: what cannot work is told in one line, by validate and by run, in 30 s: a transaction timeout above the broker's
// maximum, a broker that cannot make its transaction log, topics that are not there, nobody at the address.
func TestCaseB2Preflight(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, current())
	port, err := kafka.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name string
		cfg  func(*daemon.Config)
		says []string
	}{
		{"timeout", func(c *daemon.Config) { c.Sink.Attrs["transaction_timeout"] = "1h" }, []string{"transaction_timeout", "transaction.max.timeout.ms"}},
		{"no transaction log", nil, []string{"cannot host transactions", "transaction.state.log.replication.factor"}},
		{"source absent", func(c *daemon.Config) { c.Sources[0].Attrs["topics"] = []string{"absent"} }, []string{"absent", "exist"}},
		{"sink absent", func(c *daemon.Config) { c.Sink.Attrs["topic"], c.Sink.Attrs["create_topics"] = "absent", false }, []string{"absent", "create"}},
		{"unreachable", func(c *daemon.Config) { c.Sink.Attrs["brokers"] = []string{fmt.Sprint("127.0.0.1:", port)} }, []string{fmt.Sprint(port), "refuse"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := c
			if x.cfg == nil { // a stock broker that is alone
				o := current()
				o.Properties = map[string]string{"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}
				c = startCluster(t, o)
			}
			r := newRig(t, "EXACTLY_ONCE", c, c, 1)
			if x.cfg != nil {
				x.cfg(&r.cfg)
			}
			produce(t, r.plan(1, 10, 0)) // a sink topic is missed by the first record
			begin := time.Now()
			_, told := r.findings("validate")
			if took := time.Since(begin); took > preflightLimit {
				t.Errorf("validate took %v", took)
			}
			r.says(told, x.says[0])
			t.Logf("validate, after %v: %s", time.Since(begin).Round(time.Millisecond), told)
			begin = time.Now()
			why := r.endsOrUnready(r.start(""), preflightLimit, x.says)
			t.Logf("run, after %v: %s", time.Since(begin).Round(time.Millisecond), why)
		})
	}
}

// findings runs a command that ends with exit code 2 and may have several lines to say.
func (r *rig) findings(command string) (stdout, stderr string) {
	r.t.Helper()
	stdout, stderr, code, err := daemon.Command(r.t.Context(), daemon.Run{Binary: builds.binary(r.t), Config: r.cfg, Dir: r.dir}, command)
	if err != nil || code != 2 {
		r.t.Fatalf("%s: exit code %d, want 2: %v\n%s%s", command, code, err, stdout, stderr)
	}
	return stdout, stderr
}

// endsOrUnready waits until the run has ended with another code than 0, or is not ready, and says all the texts in one line: its
// last one, or why it is not ready.
func (r *rig) endsOrUnready(d *daemon.Daemon, limit time.Duration, says []string) (why string) {
	r.t.Helper()
	ctx, cancel := contextWithTimeout(r.t, limit)
	defer cancel()
	err := kafka.Poll(ctx, "it says what is wrong", func() (bool, error) {
		if d.Running() {
			if d.Ready(ctx) {
				return false, nil
			}
			why = d.WhyNotReady(ctx)
		} else {
			why = lastLine(d.Log())
			if code, err := d.Exit(ctx, exitLimit); err != nil || code == 0 {
				return false, fmt.Errorf("exit code %d: %w", code, err)
			}
		}
		all := true
		for _, text := range says {
			all = all && strings.Contains(strings.ToLower(why), strings.ToLower(text))
		}
		if !all && !d.Running() {
			return false, fmt.Errorf("it ended and does not say %q: %s", says, why)
		}
		return all, nil
	})
	if err != nil {
		r.t.Errorf("%v; the last was: %s\n%s", err, why, d.LogTail())
	}
	return why
}

// TestCaseB3IdsExpire: transactional ids and producer ids expire in 5 s, and there is silence for longer, again and again, with each
// semantic: all arrives, nothing is restarted, no error is logged. Also when retention has emptied the sink meanwhile. A stale
// copy that was frozen before wakes up, writes nothing, and ends.
func TestCaseB3IdsExpire(t *testing.T) {
	t.Parallel()
	o := current()
	o.Properties = map[string]string{"transactional.id.expiration.ms": "5000", "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
		"producer.id.expiration.ms": "5000", "producer.id.expiration.check.interval.ms": "1000"}
	c := startCluster(t, o)
	var all []*silent
	for _, kind := range []string{"once", "emptied", "stale", "alo", "none"} {
		semantic := map[string]string{"alo": "AT_LEAST_ONCE", "none": "NONE"}[kind]
		if semantic == "" {
			semantic = "EXACTLY_ONCE"
		}
		r := namedRig(t, unique(t)+"-"+kind, semantic, c, c, 1)
		if semantic == "EXACTLY_ONCE" { // the broker refuses a timeout that outlives the id
			r.timesOutSoon()
		}
		s := &silent{rig: r, kind: kind, want: oracle.NewExpected(), plan: r.plan(1, 10, 0)}
		expectFrom(t, s.want, traffic.Plan{Topic: s.plan.Topic, Partitions: s.plan.Partitions, Records: 10 * silentRounds, Batches: s.plan.Batches})
		s.check = s.want.NewCheck()
		s.d = r.start("")
		all = append(all, s)
	}
	for round := range silentRounds {
		for _, s := range all {
			s.speaks(round)
		}
		if round == 0 {
			for _, s := range all {
				s.superseded()
			}
		}
		pause(8 * time.Second) // the silence: expiration and check
		for _, s := range all {
			s.expired()
			s.emptied()
		}
	}
	for _, s := range all {
		s.wakes()
		s.judged()
	}
}

const silentRounds = 3

// silent is a bridge of TestCaseB3IdsExpire.
type silent struct {
	*rig
	kind     string
	d, stale *daemon.Daemon
	plan     traffic.Plan
	want     *oracle.Expected
	check    *oracle.Check
}

// speaks produces ten records and waits until they are decided.
func (s *silent) speaks(round int) {
	s.t.Helper()
	s.ready(s.d)
	s.plan.First = 10 * round
	produce(s.t, s.plan)
	s.drained(s.d)
}

// superseded freezes the first copy and lets a second one take over.
func (s *silent) superseded() {
	s.t.Helper()
	if s.kind != "stale" {
		return
	}
	s.stale = s.d
	if err := s.stale.Freeze(); err != nil {
		s.t.Fatal(err)
	}
	s.d = s.startWith(s.twin(), "")
	s.ready(s.d)
}

// expired makes sure that the fault is true: the coordinator has forgotten the bridge's ids.
func (s *silent) expired() {
	s.t.Helper()
	err := kafka.Poll(s.t.Context(), "the transactional ids of "+s.name+" have expired", func() (bool, error) {
		return len(s.transactionalIDs()) == 0, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// emptied reads the sink and deletes what is in it, as retention does.
func (s *silent) emptied() {
	s.t.Helper()
	if s.kind != "emptied" {
		return
	}
	if err := oracle.Read(s.t.Context(), s.dst.Bootstrap(), oracle.Committed, []string{s.out}, s.check.Saw); err != nil {
		s.t.Fatal(err)
	}
	ends, err := s.dst.Admin().ListEndOffsets(s.t.Context(), s.out)
	if err != nil {
		s.t.Fatal(err)
	}
	deleted, err := s.dst.Admin().DeleteRecords(s.t.Context(), ends.Offsets())
	if err != nil || deleted.Error() != nil {
		s.t.Fatal(err, deleted.Error())
	}
}

// wakes thaws the stale copy: it ends, and the one that took over does not have to do anything.
func (s *silent) wakes() {
	s.t.Helper()
	if s.kind != "stale" {
		return
	}
	if err := s.stale.Thaw(); err != nil {
		s.t.Fatal(err)
	}
	s.says(s.exit(s.stale, 4, time.Minute), "another")
}

func (s *silent) judged() {
	s.t.Helper()
	if s.kind != "emptied" {
		if err := oracle.Read(s.t.Context(), s.dst.Bootstrap(), oracle.Committed, []string{s.out}, s.check.Saw); err != nil {
			s.t.Fatal(err)
		}
	}
	s.quiet(s.d)
	s.note(s.d)
	restarts := s.metric(s.d, "bridge_restarts_total")
	s.terminate(s.d)
	report := s.check.Report()
	s.t.Logf("%s: %s; recoveries %v, restarts %v", s.name, report, s.outcomes, restarts)
	err := report.ExactlyOnce()
	if s.kind == "alo" {
		err = report.AtLeastOnce()
	}
	if err != nil {
		s.t.Errorf("%s: %v", s.name, err)
	}
	if restarts > silentRounds {
		s.t.Errorf("%s: %v restarts in %d silences", s.name, restarts, silentRounds)
	}
}

func lastLine(log string) string {
	log = strings.TrimSpace(log)
	return log[strings.LastIndexByte(log, '\n')+1:]
}
