//go:build kafka

package integration

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/proxy"
)

// caseD1: two copies with one identity under load: on one state directory, on copies of it, on an empty one as on another host, and
// with the old one frozen while the new one starts. One goes on, the other ends and says why; they do not fence each other in turn.
func caseD1(t *testing.T, c *kafka.Cluster, n *proxy.Network) {
	var fences atomic.Int64
	n.Observe(func(f *proxy.Frame, _ bool) {
		if blindInit(f) {
			fences.Add(1)
		}
	})
	for _, kind := range []string{"same", "copied", "empty", "frozen"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			r.throughProxies()
			stop := r.stream(3, 900)
			first := r.start("")
			r.ready(first)
			r.decides(first)
			twin := r.twin()
			switch kind {
			case "same":
				twin.Checkpoint["path"] = r.state()
				second := r.startWith(twin, "")
				code, err := second.Exit(t.Context(), 5*time.Second)
				if err != nil || code == 0 {
					t.Fatalf("exit code %d, want another than 0 within 5 s: %v", code, err)
				}
				r.says(lastLine(second.Log()), r.state(), "process")
				r.decides(first)
				records := stop()
				r.drained(first)
				r.terminate(first)
				r.exactlyOnce(records)
				return
			case "copied":
				r.terminate(first)
				if err := os.CopyFS(twin.Checkpoint["path"].(string), os.DirFS(r.state())); err != nil {
					t.Fatal(err)
				}
				first = r.start("")
				r.ready(first)
				r.decides(first)
			case "frozen":
				if err := first.Freeze(); err != nil {
					t.Fatal(err)
				}
			}
			second := r.startWith(twin, "")
			if kind == "frozen" {
				r.ready(second)
				r.decides(second)
				if err := first.Thaw(); err != nil {
					t.Fatal(err)
				}
			}
			r.says(r.exit(first, 4, time.Minute), "another")
			r.ready(second)
			r.decides(second)
			before := fences.Load()
			pause(2 * time.Second)
			r.decides(second)
			if more := fences.Load() - before; more > 0 {
				t.Errorf("%d fences although only one is left", more)
			}
			r.kill(second)
			second = r.startWith(twin, "")
			r.ready(second)
			records := stop()
			r.drained(second)
			r.terminate(second)
			r.exactlyOnce(records)
		})
	}
	if fences.Load() > 4*(2+3*2*3) {
		t.Errorf("%d fences in all: they took turns", fences.Load())
	}
}

// blindInit: a request that fences whoever has the transactional id.
func blindInit(f *proxy.Frame) bool {
	return f.Direction == proxy.Request && proxy.When(func(req *kmsg.InitProducerIDRequest) bool { return req.ProducerID < 0 })(f)
}
