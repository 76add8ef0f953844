package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
)

func kfakeStateCases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"StateDeleted":       kfakeStateDeleted,
		"StateDeletedAtOnce": kfakeStateDeletedAtOnce,
		"OldCopyRestored":    kfakeOldCopy,
		"ForeignState":       kfakeForeignState,
		"TimedOutWhileDown":  kfakeTimedOut,
		"OnTimeoutFail":      kfakeOnTimeoutFail,
		"SecondProcess":      kfakeSecondProcess,
		"SameDirectory":      kfakeSameDirectory,
	}
}

func (r *kfakeRig) state() string { return r.cfg.Checkpoint["path"].(string) }

func (r *kfakeRig) removeState() {
	r.t.Helper()
	if err := os.RemoveAll(r.state()); err != nil {
		r.t.Fatal(err)
	}
}

// kfakeStateDeleted: the ledger is the truth, and it is said loudly.
func kfakeStateDeleted(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.diesFed(daemon.AfterPersist+":2", 1000) // one decided, one prepared
	r.removeState()
	d := r.start("")
	r.published(d)
	if st := r.status(d); st.Recoveries["stale"] != 1 {
		t.Errorf("recoveries: %v", st.Recoveries)
	}
	r.says(r.terminate(d), "[WARN]", "state directory is empty")
	r.exactlyOnce(verdict{}, r.total)
}

// kfakeStateDeletedAtOnce: nothing was decided yet, so nothing is stale either.
func kfakeStateDeletedAtOnce(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.diesFed(daemon.AfterPersist, 500)
	r.removeState()
	r.untilEnd()
	r.exactlyOnce(verdict{}, r.total)
}

// kfakeOldCopy: an old copy comes back, whose prepared transaction was decided since.
func kfakeOldCopy(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.diesFed(daemon.AfterPersist+":2", 1000)
	backup := filepath.Join(r.dir, "backup")
	if err := os.CopyFS(backup, os.DirFS(r.state())); err != nil {
		t.Fatal(err)
	}
	r.diesFed(daemon.AfterCommit+":2", 1000)
	r.untilEnd()
	r.exactlyOnce(verdict{}, r.total)
	r.removeState()
	if err := os.Rename(backup, r.state()); err != nil {
		t.Fatal(err)
	}
	wait := r.feed(500)
	d := r.start("")
	wait()
	r.published(d)
	if st := r.status(d); st.Recoveries["stale"] != 1 {
		t.Errorf("recoveries: %v", st.Recoveries)
	}
	r.says(r.terminate(d), "[WARN]", "state directory is old or a copy")
	r.exactlyOnce(verdict{}, r.total)
}

func kfakeForeignState(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.feed(300)()
	r.untilEnd()
	other := r.cfg.Clone()
	other.Name = "other"
	r.says(r.exit(r.startWith(other, ""), 3), `"other"`, `"b"`, r.state())
	r.untilEnd() // unharmed
	r.exactlyOnce(verdict{}, r.total)
}

// timesOut lets the broker abort a prepared transaction while the bridge is down.
func (r *kfakeRig) timesOut() {
	r.t.Helper()
	r.cfg.Checkpoint["timeout"] = "1s"
	r.cfg.Sink.Attrs["transaction_timeout"] = "1500ms"
	r.diesFed(daemon.AfterPersist+":2", 1000)
	open := r.stable()
	if open {
		r.t.Fatal("nothing is prepared")
	}
	r.until(nil, "the broker has aborted the transaction", func(context.Context) bool { return r.stable() })
}

// stable says whether nothing is open in the sink.
func (r *kfakeRig) stable() bool {
	ctx, cancel := context.WithTimeout(r.t.Context(), 300*time.Millisecond)
	defer cancel()
	return oracle.NothingOpen(ctx, r.admin, r.out) == nil
}

func kfakeTimedOut(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.timesOut()
	d := r.start("")
	r.published(d)
	if st := r.status(d); st.Recoveries["replayed"] != 1 || st.Replayed <= 0 {
		t.Errorf("recoveries %v, replayed %d", st.Recoveries, st.Replayed)
	}
	r.says(r.terminate(d), "[WARN]", "outcome=replayed", "in/0 offsets")
	r.exactlyOnce(verdict{}, r.total)
}

func kfakeOnTimeoutFail(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Sink.Attrs["on_timeout"] = "fail"
	r.timesOut()
	for range 2 { // a refusal must not change what the next start finds
		r.says(r.exit(r.start(""), 3), "src/in/0 offsets", "src/in/1 offsets", "on_timeout")
	}
	r.cfg.Sink.Attrs["on_timeout"] = "replay"
	r.untilEnd()
	r.exactlyOnce(verdict{}, r.total)
}

// kfakeSecondProcess: the later one goes on, the earlier exits 4, and neither comes back.
func kfakeSecondProcess(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	wait := r.feed(2000)
	first := r.start("")
	r.ready(first)
	twin := r.cfg.Clone()
	twin.Checkpoint["path"] = filepath.Join(r.dir, "state-of-twin")
	twin.Listen = r.address()
	second := r.startWith(twin, "")
	r.says(r.exit(first, 4), "another instance", "took over")
	wait()
	r.published(second)
	r.terminate(second)
	r.exactlyOnce(verdict{}, r.total)
}

// kfakeSameDirectory: the second is refused before it asks a broker anything; the first does not notice.
func kfakeSameDirectory(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	wait := r.feed(1000)
	first := r.start("")
	r.ready(first)
	twin := r.cfg.Clone()
	twin.Listen = r.address()
	r.says(r.exit(r.startWith(twin, ""), 3), r.state())
	wait()
	r.published(first)
	if st := r.status(first); st.Restarts != 0 {
		t.Errorf("the first noticed: %d restarts", st.Restarts)
	}
	r.terminate(first)
	r.exactlyOnce(verdict{}, r.total)
}
