package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
)

// kfakeMapsCases are chains of maps and dead letters under kills.
func kfakeMapsCases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"MapsKilledAtRandom":     kfakeMapsKilledAtRandom,
		"MapsEveryFailpoint":     kfakeMapsEveryFailpoint,
		"MapsReplayed":           kfakeMapsReplayed,
		"DedupeRecordsReplayed":  kfakeDedupeRecordsReplayed,
		"DedupeWithoutDirectory": kfakeDedupeWithoutDirectory,
	}
}

// mapsRig is a bridge with a map of each kind.
func mapsRig(t *testing.T, suite *kfakeSuite, records int, during time.Duration) (*kfakeRig, *orders) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 3)
	o := &orders{bootstrap: r.cluster.ListenAddrs(), topic: r.in[0], partitions: r.parts, records: records, begin: time.Now(), during: during}
	r.cfg.Maps = o.blocks(r.out)
	r.cfg.Sink.Attrs["dead_letter"] = daemon.Nested(`topic = "dead"`)
	return r, o
}

// produceOrders produces while the test goes on.
func (r *kfakeRig) produceOrders(o *orders) (wait func()) {
	done := make(chan error, 1)
	ctx := r.ctx()
	go func() { done <- o.produce(ctx) }()
	return func() {
		r.t.Helper()
		if err := <-done; err != nil {
			r.t.Fatal(err)
		}
	}
}

// shows: a topic shows what becomes of the source's records, once, in order, in the partition of the same number.
func (r *kfakeRig) shows(topic string, becomes func(oracle.Record) []oracle.Record, saw func(oracle.Record) (oracle.Record, error)) oracle.Report {
	r.t.Helper()
	want := oracle.NewExpected()
	want.Map = becomes
	r.read(true, func(rec oracle.Record) error { return want.Add("src", rec) }, r.in...)
	check := want.NewCheck()
	check.Place = oracle.SamePartition
	r.read(true, func(rec oracle.Record) error {
		if saw != nil {
			var err error
			if rec, err = saw(rec); err != nil {
				return err
			}
		}
		return check.Saw(rec)
	}, topic)
	report := check.Report()
	r.t.Logf("%s: %s; %d kills", topic, report, r.kills)
	if err := report.ExactlyOnce(); err != nil {
		r.t.Errorf("%s: %v", topic, err)
	}
	return report
}

// showsOrders: the sink topics and the dead letter topic show exactly what the test computes, and the sink block's own topic
// nothing.
func (r *kfakeRig) showsOrders(o *orders) {
	r.t.Helper()
	east, west := r.out+"-east", r.out+"-west"
	if err := oracle.NothingOpen(r.ctx(), r.admin, east, west, "dead"); err != nil {
		r.t.Error(err)
	}
	for _, topic := range []string{east, west} {
		r.shows(topic, func(rec oracle.Record) []oracle.Record {
			if topicOf(r.out, of(rec)) != topic {
				return nil
			}
			return o.becomes(rec)
		}, nil)
	}
	r.shows("dead", o.letter, withoutError)
	r.read(true, func(rec oracle.Record) error { r.t.Errorf("%s was not routed", rec); return nil }, r.out)
}

func kfakeMapsKilledAtRandom(t *testing.T, suite *kfakeSuite) {
	r, o := mapsRig(t, suite, 3000, 4*time.Second)
	wait := r.produceOrders(o)
	for i := range 6 {
		d := r.start("")
		if i%4 != 3 { // one may die in its recovery
			r.ready(d)
		}
		r.moment(500 * time.Millisecond)
		r.kill(d)
	}
	wait()
	if log := r.untilEnd(); strings.Contains(log, maskSecret) {
		t.Error("the log shows the secret")
	}
	r.showsOrders(o)
}

func kfakeMapsEveryFailpoint(t *testing.T, suite *kfakeSuite) {
	r, o := mapsRig(t, suite, 3000, 5*time.Second)
	wait := r.produceOrders(o)
	for _, name := range daemon.Failpoints() {
		r.diesAt(name)
	}
	wait()
	r.untilEnd()
	r.showsOrders(o)
}

// prepared leaves a transaction behind that the broker then aborts: the bridge dies prepared, and stays down for too long. After
// the first run the state of dedupe is in a checkpoint, so that the replay has to begin with that one and not with a later.
func (r *kfakeRig) prepared() {
	r.t.Helper()
	r.cfg.Checkpoint["timeout"] = "1s"
	r.cfg.Sink.Attrs["transaction_timeout"] = "1500ms"
	r.diesAt(daemon.AfterPersist + ":3")
	aborted := func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		return oracle.NothingOpen(ctx, r.admin, r.name+".ledger") == nil
	}
	if aborted(r.t.Context()) {
		r.t.Fatal("nothing is prepared")
	}
	r.until(nil, "the broker has aborted the prepared transaction", aborted)
}

func kfakeMapsReplayed(t *testing.T, suite *kfakeSuite) {
	r, o := mapsRig(t, suite, 2000, 2*time.Second)
	wait := r.produceOrders(o)
	r.prepared()
	wait()
	d := r.start("")
	r.published(d)
	if st := r.status(d); st.Recoveries["replayed"] != 1 || st.Replayed <= 0 {
		t.Errorf("recoveries %v, replayed %d", st.Recoveries, st.Replayed)
	}
	r.terminate(d)
	r.showsOrders(o)
}

// everyOther makes dedupe drop all but the first of each run of equal identities: n/7, so that runs go across epochs.
func everyOther(r *kfakeRig) func(oracle.Record) []oracle.Record {
	r.cfg.Maps = []daemon.Block{{Label: "dedupe", Attrs: daemon.Attrs{"by": "int(headers.n) / 700", "records": 1_000_000}}}
	return func(rec oracle.Record) []oracle.Record {
		if of(rec)%700 != 0 {
			return nil
		}
		return []oracle.Record{rec}
	}
}

// kfakeDedupeRecordsReplayed: most of what is replayed is a duplicate of something of an earlier epoch, which only the state of the
// right checkpoint knows; with the one that was prepared, the first records of the replay would be their own duplicates.
func kfakeDedupeRecordsReplayed(t *testing.T, suite *kfakeSuite) {
	r, o := mapsRig(t, suite, 2000, 2*time.Second)
	becomes := everyOther(r)
	wait := r.produceOrders(o)
	r.prepared()
	d := r.start("")
	r.ready(d)
	r.kill(d)
	r.diesAt(daemon.AfterCommit)
	wait()
	r.untilEnd()
	r.shows(r.out, becomes, nil)
}

// kfakeDedupeWithoutDirectory: the positions are in the ledger and the identities were in the directory that is lost. To go on
// would let duplicates through in silence.
func kfakeDedupeWithoutDirectory(t *testing.T, suite *kfakeSuite) {
	r, o := mapsRig(t, suite, 100, 0)
	everyOther(r)
	if err := o.produce(r.ctx()); err != nil {
		t.Fatal(err)
	}
	r.untilEnd()
	r.cfg.Checkpoint["path"] = t.TempDir()
	r.says(r.exit(r.start("", "--until-end"), 3), "map state")
}
