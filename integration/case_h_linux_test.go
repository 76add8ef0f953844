package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/daemon"
)

// caseHCases are public cases of family H, the state directory's disk, on file systems of their own.
func caseHCases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"CaseH1DiskFillsUp":  caseH1Fills,
		"CaseH1FullAtStart":  caseH1Full,
		"CaseH3ReadOnlyDisk": caseH3ReadOnly,
	}
}

// disk mounts a small file system of the test's own and puts the state directory on it.
func (r *kfakeRig) disk() string {
	r.t.Helper()
	dir := filepath.Join(r.dir, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	err := syscall.Mount("none", dir, "tmpfs", 0, "size=16m")
	if errors.Is(err, syscall.EPERM) {
		r.t.Skip("A DISK OF ITS OWN COULD NOT BE MOUNTED, this needs root: snapshot's tests of a failing disk stand in")
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			r.t.Error(err)
		}
	})
	r.cfg.Checkpoint["path"] = filepath.Join(dir, "state")
	return dir
}

// fill takes all that is left of a disk and returns the file that has it.
func (r *kfakeRig) fill(dir string) string {
	r.t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; { // the last bytes too
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			r.t.Fatal(err)
		}
	}
	return path
}

// lastLine wants the texts in the last line that a run wrote.
func (r *kfakeRig) lastLine(log string, texts ...string) {
	r.t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	r.says(lines[len(lines)-1], texts...)
}

// caseH1Fills: the disk fills up under load. The bridge is not ready and says why, with path and errno; nothing is committed
// that was not durable. When there is room again it goes on by itself; killed meanwhile, the next start refuses with the same
// reason, and goes on when there is room.
func caseH1Fills(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	r.cfg.Checkpoint["interval"] = "20ms"
	// The positions of many idle partitions make each checkpoint 60 KB large: Pebble's log has room that the file system has
	// given it already, and only when that is used up it notices.
	r.create("wide", 1500)
	r.cfg.Sources[0].Attrs["topics"] = []string{"in", "wide"}
	r.cfg.Sink.Attrs["partition"] = "key"
	dir := r.disk()
	d := r.start("")
	for _, killed := range []bool{false, true} {
		r.ready(d)
		decided := r.status(d).Decided
		wait := r.feed(1500)
		r.until(d, "checkpoints are made", func(context.Context) bool { return r.status(d).Decided > decided+2 })
		filler := r.fill(dir)
		end := r.trickle()
		r.until(d, "it is not ready, with the reason", func(ctx context.Context) bool {
			why := d.WhyNotReady(ctx)
			return strings.Contains(why, r.state()) && strings.Contains(why, "ENOSPC")
		})
		decided = r.status(d).Decided
		<-time.After(300 * time.Millisecond) // fifteen intervals: how long it is watched
		if now := r.status(d).Decided; now != decided {
			t.Errorf("epoch %d was decided, and epoch %d on a full disk", decided, now)
		}
		end()
		wait()
		if killed {
			r.kill(d)
			r.lastLine(r.exit(r.start(""), 1), r.state(), "ENOSPC")
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if killed {
			d = r.start("")
		}
		r.published(d)
	}
	r.terminate(d)
	r.exactlyOnce(verdict{place: kfakeByKey(2)}, r.held("in"))
}

// trickle produces a record now and then until it is ended.
func (r *kfakeRig) trickle() (end func()) {
	r.t.Helper()
	done := make(chan error, 1)
	ctx := r.ctx()
	enough := make(chan struct{})
	go func() {
		for seq := 0; ; seq++ {
			select {
			case <-enough:
				done <- nil
				return
			case <-time.After(2 * time.Millisecond):
			}
			if err := r.cl.ProduceSync(ctx, &kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "%d after %d", seq, r.fed)}).FirstErr(); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() {
		r.t.Helper()
		close(enough)
		if err := <-done; err != nil {
			r.t.Fatal(err)
		}
	}
}

// held is how many records a topic without control records and gaps holds.
func (r *kfakeRig) held(topic string) (n int) {
	for p := range r.parts {
		n += int(r.end(topic, p))
	}
	return n
}

// caseH1Full: the disk is full before the first start, and before a later one.
func caseH1Full(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	dir := r.disk()
	filler := r.fill(dir)
	r.lastLine(r.exit(r.start(""), 1), r.state(), "ENOSPC")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.diesFed(daemon.AfterPersist, 500)
	filler = r.fill(dir)
	r.lastLine(r.exit(r.start(""), 1), r.state(), "ENOSPC")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.untilEnd()
	r.exactlyOnce(verdict{}, r.total)
}

// caseH3ReadOnly: a read-only file system, as in a container, is told at once with path and errno, before a broker is asked.
func caseH3ReadOnly(t *testing.T, suite *kfakeSuite) {
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	dir := r.disk()
	if err := os.Mkdir(r.state(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	r.cfg.Sources[0].Attrs["brokers"] = []string{"127.0.0.1:1"} // whoever asked it would say so
	log := r.exit(r.start(""), 1)
	r.lastLine(log, r.state(), "EROFS")
	if strings.Contains(log, "127.0.0.1:1") {
		t.Errorf("a broker was asked before:\n%s", log)
	}
}
