package kafkabridge

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kafkabridge/configs"
)

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := within(time.Second, func() error { return io.EOF }); !errors.Is(err, io.EOF) {
			t.Errorf("%v, want what the function said", err)
		}
		hangs := make(chan struct{})
		began := time.Now()
		err := within(time.Second, func() error { <-hangs; return nil })
		if err == nil || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		close(hangs)
	})
}

// TestRunsOnce: a second run, at the same time or later, would work on a store that is in use or closed.
func TestRunsOnce(t *testing.T) {
	file, err := configs.Parse([]byte(`
		bridge "once" {
		  source "a" {
		    brokers = ["127.0.0.1:1"]
		    topics  = ["t"]
		  }
		  sink "b" {
		    brokers = ["127.0.0.1:1"]
		    topic   = "u"
		  }
		  checkpoint { path = `+strconv.Quote(t.TempDir())+` }
		}`), "bridge.hcl")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := New(file.Bridges[0])
	_ = b.Run(ctx) // there is no broker
	for what, err := range map[string]error{"Run": b.Run(ctx), "Open": b.Open()} {
		if err == nil || !strings.Contains(err.Error(), `"once" has run`) {
			t.Errorf("%s again: %v", what, err)
		}
	}
	closed := New(file.Bridges[0])
	if err := errors.Join(closed.Open(), closed.Close(), closed.Close()); err != nil {
		t.Fatal(err)
	}
	if err := closed.Run(ctx); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("Run after Close: %v", err)
	}
}
