package snapshot

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/go-hclog"
)

// pebbleLog is Pebble's Logger: info goes to debug, because Pebble tells of every flush.
type pebbleLog struct {
	log hclog.Logger
	g   *gate
}

func (l pebbleLog) Infof(format string, args ...any) {
	if l.log.IsDebug() {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

func (l pebbleLog) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

// Fatalf must not return in an open instance: what follows it in Pebble goes on as if nothing had happened (DB.Apply
// returns nil). Pebble's default ends the process without a word in our log.
func (l pebbleLog) Fatalf(format string, args ...any) { l.failed(fmt.Errorf(format, args...)) }

func (l pebbleLog) failed(err error) {
	if !l.g.failed() {
		l.log.Error("pebble failed", "error", err)
	}
	l.g.fail(err)
	if l.g.parking.Load() {
		l.g.park()
	}
}

// events are the callbacks that are not only for the log.
func (l pebbleLog) events() pebble.EventListener {
	e := pebble.MakeLoggingEventListener(l)
	e.BackgroundError = func(err error) { l.failed(fmt.Errorf("background: %w", err)) }
	e.DataCorruption = func(i pebble.DataCorruptionInfo) { l.failed(fmt.Errorf("%s: %w", i.Path, i.Details)) }
	return e
}
