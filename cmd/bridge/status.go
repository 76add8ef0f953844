package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/semantics"
)

type statusCommand struct {
	fileFlag
	formatFlag
}

// Run asks the daemon, and reads the state directories when there is none.
func (c *statusCommand) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	d, err := askDaemon(env, file)
	var other *notOursError
	switch {
	case err == nil && c.Output == "json":
		return writeJSON(env.stdout, d)
	case err == nil:
		return showStatus(env.stdout, d)
	case errors.As(err, &other):
		_, _ = fmt.Fprintln(env.stderr, "bridge:", err) // the directories have the answer, and say whether a daemon holds them
	case !errors.Is(err, errNoDaemon):
		return err
	}
	stopped, err := stoppedStatus(file)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(env.stdout, stopped)
	}
	return showStopped(env.stdout, stopped)
}

// stoppedDocument is the status of a stopped daemon: a server.Document with what the state directories hold beside it.
type stoppedDocument struct {
	Version string          `json:"version"`
	Ready   bool            `json:"ready"` // always false
	Bridges []stoppedBridge `json:"bridges"`
}

type stoppedBridge struct {
	bridge.Status                   // State is "stopped", counters are zero
	Path          string            `json:"path,omitempty"`
	Stored        []checkpointEntry `json:"stored_checkpoints"`
}

func stoppedStatus(file *configs.File) (stoppedDocument, error) {
	d := stoppedDocument{Version: version, Bridges: []stoppedBridge{}}
	all, err := readDirectories(file)
	if err != nil {
		return d, err
	}
	for i, b := range file.Bridges {
		d.Bridges = append(d.Bridges, stoppedBridgeOf(b, all[i]))
	}
	return d, nil
}

func stoppedBridgeOf(b configs.Bridge, dir directory) stoppedBridge {
	s := stoppedBridge{Path: dir.Path, Stored: dir.Checkpoints, Status: bridge.Status{
		Bridge: b.Options.Name, Semantic: b.Options.Semantic.String(), State: "stopped", Reason: "no daemon is running", WaitsFor: "a start: no daemon is running",
		Recoveries: map[string]int64{}, Checkpoints: map[string]int64{}, RecentCheckpoints: []bridge.CheckpointStatus{}, RecentRecoveries: []bridge.RecoveryStatus{}, Chain: []string{}, Sink: b.Options.Sink.Name, Sources: []bridge.SourceStatus{},
	}}
	s.Transaction.TimeoutSec = b.Options.TransactionTimeout.Seconds()
	for _, c := range dir.read {
		switch {
		case c.Status == semantics.Decided:
			s.DecidedEpoch = max(s.DecidedEpoch, c.Epoch)
		case c.Status == semantics.Proposed && !c.Transaction.IsZero():
			s.Transaction.Prepared = c.Transaction.String() // at most one: it is settled before the next one is proposed
			left := max(0, time.Until(bridge.PreparedUntil(c)).Seconds())
			s.Transaction.Budget = &left
		}
	}
	return s
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
