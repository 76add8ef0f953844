package kafkabridge

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
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
