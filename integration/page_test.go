package integration

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
	"kafkabridge/integration/daemon"
	"kafkabridge/server"
)

// TestPage opens the status page in a real browser: over the built bridge on kfake, and over the real server with bridges that
// show what no real one would.
func TestPage(t *testing.T) {
	browser := startBrowser(t)
	dir := t.TempDir()
	suite := sync.OnceValues(func() (*kfakeSuite, error) { // the others need not wait for the binary
		binary, err := daemon.Build(t.Context(), dir)
		return &kfakeSuite{binary: binary, ports: map[int]bool{}}, err
	})
	onKfake := func(test func(*testing.T, context.Context, *kfakeSuite)) func(*testing.T, context.Context) {
		return func(t *testing.T, browser context.Context) {
			s, err := suite()
			if err != nil {
				t.Fatal(err)
			}
			test(t, browser, s)
		}
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, context.Context)
	}{{"Daemon", onKfake(pageDaemon)}, {"Looks", pageLooks}, {"Hostile", pageHostile}, {"ThousandPartitions", pageThousand}, {"Holders", pageHolders},
		{"Token", pageToken}, {"Keyboard", pageKeyboard}, {"OddAnswers", pageOddAnswers}, {"HeldBack", onKfake(pageHeldBack)}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, browser)
		})
	}
}

// pageHeldBack: a foreign transaction that is left open in the source has its name on the page until it ends.
func pageHeldBack(t *testing.T, browser context.Context, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	d := r.start("")
	r.ready(d)
	b := openTab(t, browser, pageURL(r.cfg.Listen))
	b.is(".waits-for", "waits for new records in the sources")
	foreign, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.TransactionalID("somebody-7"), kgo.TransactionTimeout(10*time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	if err := foreign.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := foreign.ProduceSync(r.ctx(), &kgo.Record{Topic: r.in[0], Partition: 1, Value: []byte("held")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	const list = "[aria-label='Who holds partitions back'] li"
	b.says(list, "transactional id somebody-7 holds back in/1 for ")
	b.says(list, "; it began at ")
	b.says(".waits-for", `the open transaction of transactional id "somebody-7", which has held back topic in partition 1 for`)
	b.says("[aria-label='Partitions of b'] td", "transactional id somebody-7")
	b.is(".badge", "ready") // somebody else's transaction is no fault of this bridge
	b.shot("held-back")
	if err := foreign.EndTransaction(r.ctx(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	b.sees("that nobody holds it back any more", fmt.Sprintf("!document.querySelector(%q)", list))
	b.is(".waits-for", "waits for new records in the sources")
}

// pageDaemon: running, killed, recovered, frozen, taken over by a rival meanwhile, starved.
func pageDaemon(t *testing.T, browser context.Context, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 3)
	r.cfg.Maps = []daemon.Block{{Label: "filter", Attrs: daemon.Attrs{"when": "value != null"}}}
	r.cfg.Checkpoint["interval"], r.cfg.Checkpoint["timeout"] = "300ms", "2s"
	defer r.load()()

	d := r.start("")
	r.ready(d)
	b := openTab(t, browser, pageURL(r.cfg.Listen))
	b.is(".badge", "ready")
	b.says(".bridge table .good", "decided")
	b.sees("a rate in and out", "[...document.querySelectorAll('.figure')].filter(e => parseFloat(e.textContent) > 0).length === 2")
	b.sees("the phases as bars", "document.querySelectorAll('svg.phases rect.commit').length > 2")
	b.says(".recoveries", "clean")
	b.says(".chain", "filter")
	b.says("#said", "b is ready")
	b.shot("running")

	b.silence(true)
	r.kill(d)
	b.says("#lost", "No answer from the daemon since")
	b.says("#lost", "it cannot be reached")
	b.is(".badge", "was ready")
	since := b.text("document.querySelector('#lost time').dateTime")
	b.sees("how long it has been silent", `/silent for ([2-9]|\d\d+)[. ]/.test(document.getElementById("contact").textContent)`)
	if now := b.text("document.querySelector('#lost time').dateTime"); now != since {
		t.Errorf("gone since %s, and a moment later since %s", since, now)
	}
	if rates := b.text("[...document.querySelectorAll('.figure')].map(e => e.textContent).join()"); rates != "–,–" {
		t.Errorf("rates of a daemon that is gone: %s", rates)
	}
	if title := b.text("document.title"); title != "no answer: bridge" {
		t.Errorf("title %q", title)
	}
	b.shot("killed")

	r.diesAt(daemon.AfterPersist)
	d = r.start("")
	b.says(".recoveries", "committed")
	b.says(".recoveries", "was prepared and is committed")
	b.sees("an answer again", "document.getElementById('lost').textContent === '' && !document.body.classList.contains('stale')")
	b.shot("recovered")

	rival := r.cfg.Clone()
	rival.Listen, rival.Checkpoint["path"] = r.address(), t.TempDir()+"/state"
	if err := d.Freeze(); err != nil {
		t.Fatal(err)
	}
	b.says("#lost", "it does not answer within 5 s")
	b.shot("frozen")
	second := r.startWith(rival, "")
	r.ready(second)
	if err := d.Thaw(); err != nil {
		t.Fatal(err)
	}
	r.exit(d, 4)
	b.says("#lost", "it cannot be reached")
	b.shot("fenced")
	b.open(pageURL(rival.Listen))
	b.silence(false)
	b.is(".badge", "ready")
	b.says(".recoveries", "stale")

	r.cluster.Close()
	b.is(".badge", "not ready")
	b.says(".reason.bad", "Not ready: ")
	b.sees("which broker is gone", "document.querySelector('.why').textContent.includes('connect')")
	b.says("#said", "b is not ready")
	b.shot("starved")
}

// load produces until stop.
func (r *kfakeRig) load() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			for p := range 20 {
				r.cl.Produce(ctx, &kgo.Record{Topic: r.in[0], Key: fmt.Appendf(nil, "k%d", p), Value: fmt.Appendf(nil, "record %d", n)}, nil)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond): // a thousand records a second
			}
		}
	}()
	return func() { cancel(); <-done }
}

// shown is a bridge that shows what it is told to.
type shown struct{ now atomic.Pointer[bridge.Status] }

func (s *shown) Status() bridge.Status { return *s.now.Load() }

// serve serves statuses on the real surface. What is stored in one of the bridges is what the next look sees.
func serve(t *testing.T, o server.Options, statuses ...bridge.Status) (base string, bridges []*shown) {
	t.Helper()
	var list []server.Bridge
	for _, s := range statuses {
		b := &shown{}
		b.now.Store(&s)
		bridges, list = append(bridges, b), append(list, b)
	}
	s := server.New("v1.2.3", list, server.NewMetrics(), hclog.NewNullLogger())
	s.Use(o)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return h.URL + "/", bridges
}

// sample is a bridge in good health, with something in every part of the page.
func sample(now time.Time) bridge.Status {
	budget := 895.9
	s := bridge.Status{
		Bridge: "orders", Semantic: "EXACTLY_ONCE", Incarnation: "5f1c", State: "running", Ready: true, WaitsFor: "nothing: records are moving, 2179 offsets to go",
		Epoch: 18_442, DecidedEpoch: 18_441, LastDecidedMs: now.Add(-1400 * time.Millisecond).UnixMilli(), CheckpointBytes: 48_300,
		Transaction: bridge.Transactions{Open: "orders-1 pid=4012 pepoch=318", OpenAge: 4.1, OpenSecs: 4.1, TimeoutSec: 900, Budget: &budget},
		Restarts:    1, Replayed: 0,
		LastFailure: "produce orders-copy/3: NOT_LEADER_OR_FOLLOWER: the leader moved, and its answer was lost", LastFailureMs: now.Add(-47 * time.Minute).UnixMilli(),
		Recoveries: map[string]int64{"clean": 1, "committed": 1},
		RecentRecoveries: []bridge.RecoveryStatus{
			{Outcome: "committed", Epoch: 15_872, Reason: "checkpoint 15872 was prepared and is committed: the ledger names its transaction", AtMs: now.Add(-3 * time.Hour).UnixMilli()},
			{Outcome: "clean", Epoch: 17_877, Reason: "going on after epoch 17877", AtMs: now.Add(-47 * time.Minute).UnixMilli()},
		},
		Checkpoints: map[string]int64{"decided": 2568, "failed": 1},
		Chain:       []string{"filter", "mask", "headers"}, Sink: "west",
		Maps: bridge.MapStats{RecordsIn: 184_220_112, RecordsDropped: 2_204_118, DroppedBy: map[string]int64{"filter": 2_204_118},
			MapErrors: map[string]map[bridge.Policy]int64{"mask": {bridge.DeadLetter: 3}}, DeadLetters: 3, RecordsOut: 182_015_994, BytesOut: 11_400_000_000, BatchesOut: 402_114,
			Reencoded: map[string]int64{"map": 402_114}},
	}
	epoch := s.DecidedEpoch - 13
	for i := range 14 {
		wobble := float64(i*i*7%11) / 100
		s.RecentCheckpoints = append(s.RecentCheckpoints, bridge.CheckpointStatus{Epoch: epoch, Result: "decided",
			BeganMs: now.Add(-time.Duration(14-i) * 5 * time.Second).UnixMilli(), Align: .018 + wobble/8, Flush: .122 + wobble, Persist: .009 + wobble/12, Commit: .034 + wobble/3})
		epoch++
	}
	s.Sources = []bridge.SourceStatus{{Name: "east", RecordsIn: 184_220_112, BytesIn: 12_900_000_000, InFlight: 6 << 20}}
	for p := range int32(6) {
		at := 30_703_352 + int64(p)*811
		lag := []int64{212, 0, 1840, 96, 0, 31}[p]
		s.Sources[0].Partitions = append(s.Sources[0].Partitions, bridge.PartitionStatus{Topic: "orders", Partition: p, Position: at, LastStable: at + lag, HighWatermark: at + lag + int64(p%3), Lag: lag})
	}
	held := &s.Sources[0].Partitions[4]
	held.HeldSecs, held.HeldBy = 94, &bridge.Holder{TransactionalID: "billing-3", ProducerID: 5120, SinceMs: now.Add(-96 * time.Second).UnixMilli()}
	return s
}

// moves lets the sample's counters grow as at a steady rate, until stop.
func moves(b *shown) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		began := time.Now()
		first := sample(began)
		for ctx.Err() == nil {
			s := sample(time.Now())
			at := time.Since(began).Seconds()
			n := int64(41_870*at + 6_000*math.Sin(at*1.3) + 2_500*math.Sin(at*3.1)) // never falls
			s.Sources[0].RecordsIn, s.Sources[0].BytesIn = first.Sources[0].RecordsIn+n, first.Sources[0].BytesIn+n*71
			s.Maps.RecordsOut, s.Maps.BytesOut, s.Maps.RecordsDropped = first.Maps.RecordsOut+n*99/100, first.Maps.BytesOut+n*62, first.Maps.RecordsDropped+n/100
			s.Maps.DroppedBy["filter"] = s.Maps.RecordsDropped
			b.now.Store(&s)
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-done }
}
