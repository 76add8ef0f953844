package kafkabridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"kafkabridge"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/semantics"
)

// TestGoMaps: two bridges in one process. The map of one panics for a record: it stops with exit code 3 and says where, and the
// other goes on to the end.
func TestGoMaps(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "good", "bad"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	send(broker, "good", "1", "2", "3")
	send(broker, "bad", "1", "2", "3")
	run := func(topic string, f kafkabridge.MapFunc) error {
		file, err := configs.Parse(fmt.Appendf(nil, `
			bridge %[1]q {
			  source "in" {
			    brokers = [%[2]q]
			    topics  = [%[1]q]
			  }
			  map "go" {}
			  sink "out" {
			    brokers = [%[2]q]
			    topic   = "%[1]s-copy"
			  }
			  checkpoint { path = %[3]q }
			}`, topic, broker.ListenAddrs()[0], t.TempDir()), "bridge.hcl", "go")
		if err != nil {
			return err
		}
		b := file.Bridges[0]
		b.Options.UntilEnd = true
		return kafkabridge.New(b, kafkabridge.WithMap("go", f)).Run(context.Background())
	}
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		if err := run("good", func(r *bridge.Record, emit func(*bridge.Record) error) error { return emit(r) }); err != nil {
			t.Error(err)
		}
	}()
	err = run("bad", func(r *bridge.Record, emit func(*bridge.Record) error) error {
		if string(r.Value) == "3" {
			r.Value = r.Value[:len(r.Value)-int(r.Offset)]
		}
		return emit(r)
	})
	wait.Wait()
	var e *semantics.Error
	if !errors.As(err, &e) || e.Exit != semantics.ExitRefused {
		t.Errorf("%v, want a refusal", err)
	}
	for _, part := range []string{"topic bad partition 0 offset 2", `map 1 "go"`, "panicked in kafkabridge_test.TestGoMaps.func", "library_maps_test.go:", "slice bounds out of range [:-1]"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v: does not say %q", err, part)
		}
	}
	if got := receive(broker, "good-copy", 3); strings.Join(got, "") != "123" {
		t.Errorf("the other bridge moved %v", got)
	}
}
