package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
)

func kfakeSourceCases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"StartForms":      kfakeStartForms,
		"PartitionsAdded": kfakePartitionsAdded,
		"RegexNewTopic":   kfakeRegexNewTopic,
		"OnGap":           kfakeOnGap,
		"Recreated":       kfakeRecreated,
	}
}

// kfakeStartForms: each form of start with a bridge of its own. The wanted first sequence number is counted by hand:
// sequence n of a partition has offset n and a timestamp n seconds after noon.
func kfakeStartForms(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	p := r.plan(300)
	r.produce(p)
	offsets := kadm.Offsets{}
	offsets.AddOffset("in", 0, 120, -1) // nothing committed for partition 1: earliest
	if err := r.admin.CommitAllOffsets(r.ctx(), "gc", offsets); err != nil {
		t.Fatal(err)
	}
	base := r.cfg.Clone()
	for i, c := range []struct {
		attrs daemon.Attrs
		first [2]int
	}{
		{daemon.Attrs{}, [2]int{0, 0}}, // the default is earliest
		{daemon.Attrs{"start": "earliest"}, [2]int{0, 0}},
		{daemon.Attrs{"start": "latest"}, [2]int{300, 300}},
		{daemon.Attrs{"start": "committed", "group": "gc"}, [2]int{120, 0}},
		{daemon.Attrs{"start": "2024-02-29T12:01:40Z"}, [2]int{100, 100}},
		{daemon.Attrs{"start": "2024-02-29T13:00:00+01:00"}, [2]int{0, 0}},
		{daemon.Attrs{"start": "2034-02-28T12:01:40Z"}, [2]int{300, 300}}, // behind the last record
		{daemon.Attrs{"start": "latest", "start_offsets": daemon.Raw(`{ "in/1" = 42 }`)}, [2]int{300, 42}},
	} {
		r.cfg = base.Clone()
		r.cfg.Name = fmt.Sprintf("b%d", i)
		r.cfg.Checkpoint["path"] = filepath.Join(r.dir, r.cfg.Name)
		r.cfg.Sources[0].Attrs["group"] = r.cfg.Name
		for k, v := range c.attrs {
			r.cfg.Sources[0].Attrs[k] = v
		}
		r.out = "out-" + r.cfg.Name
		r.create(r.out, 2)
		r.cfg.Sink.Attrs["topic"] = r.out
		r.untilEnd()
		first, count := [2]int{300, 300}, [2]int{}
		r.read(true, func(rec oracle.Record) error {
			if count[rec.Partition] == 0 {
				if _, err := fmt.Sscanf(string(rec.Value), fmt.Sprintf("in/%d/%%d ", rec.Partition), &first[rec.Partition]); err != nil {
					return err
				}
			}
			count[rec.Partition]++
			return nil
		}, r.out)
		if want := [2]int{300 - c.first[0], 300 - c.first[1]}; first != c.first || count != want {
			t.Errorf("%v: first %v, count %v; want %v, %v", c.attrs, first, count, c.first, want)
		}
	}
}

// kfakePartitionsAdded: partitions that come at run time start at their log start, and the sink gets them too.
func kfakePartitionsAdded(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 1)
	n := r.produce(r.plan(500)).Committed
	d := r.start("")
	r.published(d)
	if _, err := r.admin.CreatePartitions(r.ctx(), 2, "in"); err != nil {
		t.Fatal(err)
	}
	r.parts = 3
	p := r.plan(1000)
	p.First, p.PerSecond = 500, 6000
	wait := r.background(p)
	r.until(d, "the new partitions are read", func(context.Context) bool { return r.status(d).Maps.RecordsIn > 1500 })
	r.kill(d)
	r.diesAt(daemon.AfterPersist)
	n += wait().Committed
	d = r.start("")
	r.published(d)
	r.terminate(d)
	r.exactlyOnce(verdict{}, n)
}

// kfakeRegexNewTopic: a topic that appears at run time is read from its log start; the sink topic, which matches the
// expression too, is not read.
func kfakeRegexNewTopic(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2, "t-1")
	r.out = "t-out"
	r.create(r.out, 2)
	delete(r.cfg.Sources[0].Attrs, "topics")
	r.cfg.Sources[0].Attrs["topics_regex"] = "t-.*"
	r.cfg.Sources[0].Attrs["topics_exclude"] = []string{"t-not-.*"}
	r.cfg.Sources[0].Attrs["start"] = "latest" // only for what is there at the first start
	r.cfg.Sink.Attrs["topic"] = r.out
	r.create("t-not-me", 1)
	d := r.start("")
	r.ready(d)
	n := r.produce(r.plan(300)).Committed
	r.published(d)
	r.create("t-2", 2)
	r.in = append(r.in, "t-2")
	q := r.plan(300)
	q.Topic = "t-2"
	n += r.produce(q).Committed
	q.Topic, q.Partitions = "t-not-me", []int32{0}
	r.produce(q)
	r.published(d)
	r.terminate(d)
	r.exactlyOnce(verdict{}, n)
}

func (r *kfakeRig) deleteBefore(partition int32, offset int64) {
	r.t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset("in", partition, offset, -1)
	if _, err := r.admin.DeleteRecords(r.ctx(), offsets); err != nil {
		r.t.Fatal(err)
	}
}

// kfakeOnGap: retention took unread records while the bridge was down.
func kfakeOnGap(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.feed(100)()
	r.untilEnd()
	r.feed(100)()
	r.deleteBefore(1, 150)
	for range 2 {
		r.says(r.exit(r.start(""), 3), "topic in partition 1", "100 to 149", "on_gap")
	}
	r.cfg.Sources[0].Attrs["on_gap"] = "skip"
	d := r.start("")
	r.published(d)
	if st := r.status(d); st.Gaps != 1 {
		t.Errorf("%d gaps, want 1", st.Gaps)
	}
	r.says(r.terminate(d), "lost", "from=100", "to=150")
	var counts [2]int
	last := int64(-1)
	r.read(true, func(rec oracle.Record) error {
		counts[rec.Partition]++
		if rec.Partition == 1 && rec.Timestamp <= last {
			t.Errorf("doubled or out of order: %s", rec)
		}
		if rec.Partition == 1 {
			last = rec.Timestamp
		}
		return nil
	}, r.out)
	if counts != [2]int{200, 150} {
		t.Errorf("%v records in the sink, want 200 and 150", counts)
	}
}

// kfakeRecreated: a topic of the same name is not the topic whose positions are known.
func kfakeRecreated(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.feed(100)()
	r.untilEnd()
	if _, err := r.admin.DeleteTopic(r.ctx(), "in"); err != nil {
		t.Fatal(err)
	}
	r.create("in", 2)
	old := r.total
	r.feed(200)() // so many that the old positions would be inside the new log
	r.says(r.exit(r.start(""), 3), "topic in partition", "deleted and made anew", "on_gap")
	r.cfg.Sources[0].Attrs["on_gap"] = "skip"
	r.untilEnd()
	seen := 0
	r.read(true, func(oracle.Record) error { seen++; return nil }, r.out)
	if seen != r.total {
		t.Errorf("%d records in the sink, want %d of the old topic and %d of the new", seen, old, r.total-old)
	}
}
