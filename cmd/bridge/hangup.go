package main

import (
	"errors"
	"fmt"

	"kafkabridge/configs"
	"kafkabridge/server"
)

// obeyHangups takes the log level from the file at each SIGHUP, until finished.
func (d *daemon) obeyHangups(finished <-chan struct{}) {
	for {
		select {
		case <-d.hangup:
			done := d.notify.reloading()
			d.readLevel()
			done()
		case <-finished:
			return
		}
	}
}

// readLevel sets the file's log level. All the rest of the file waits for a restart: positions, transactional ids and state
// directories must not change under a bridge that runs.
func (d *daemon) readLevel() {
	file, err := configs.Load(d.path)
	if err != nil {
		d.log.Error("SIGHUP: the file cannot be used, everything stays as it is; bridge validate --offline shows all of it", "file", d.path, "error", firstProblem(err))
		return
	}
	server.SetLevel(d.log, file.Log.Level, "SIGHUP: log.level of "+d.path+"; nothing else was read again")
}

// firstProblem is one line: all problems with their source lines would be many.
func firstProblem(err error) string {
	var invalid *configs.Error
	if !errors.As(err, &invalid) || len(invalid.Diagnostics) == 0 {
		return err.Error()
	}
	first := invalid.Diagnostics[0]
	where := ""
	if at := first.Subject; at != nil {
		where = fmt.Sprintf("%s:%d:%d: ", at.Filename, at.Start.Line, at.Start.Column)
	}
	more := ""
	if n := len(invalid.Diagnostics) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return where + first.Summary + ": " + first.Detail + more
}
