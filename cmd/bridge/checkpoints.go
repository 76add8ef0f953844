package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"kafkabridge/configs"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
)

type checkpointsCommand struct {
	List checkpointsList `cmd:"" help:"List the checkpoints."`
	Show checkpointsShow `cmd:"" help:"Show one checkpoint whole."`
}

type checkpointsList struct {
	fileFlag
	formatFlag
}

// Run lists the checkpoints of all bridges.
func (c *checkpointsList) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	all, err := readDirectories(file)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(env.stdout, struct {
			Bridges []directory `json:"bridges"`
		}{all})
	}
	t := tabwriter.NewWriter(env.stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "BRIDGE\tEPOCH\tSTATUS\tSEMANTIC\tSAVED\tTRANSACTION")
	for _, b := range all {
		for _, e := range b.Checkpoints {
			_, _ = fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", b.Bridge, e.Epoch, e.Status, e.Semantic, e.SavedAt.Format(time.RFC3339), e.Transaction)
		}
	}
	return flush(t)
}

type checkpointsShow struct {
	Epoch int64 `arg:"" help:"Number of the epoch."`
	fileFlag
	formatFlag
}

// Run shows the checkpoint of that epoch of every bridge that has one.
func (c *checkpointsShow) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	all, err := readDirectories(file)
	if err != nil {
		return err
	}
	found := false
	for _, b := range all {
		i := slices.IndexFunc(b.Checkpoints, func(e checkpointEntry) bool { return e.Epoch == semantics.Epoch(c.Epoch) })
		if i < 0 {
			continue
		}
		found = true
		// The document is the same for people: positions are long, and JSON shows them best.
		if err := writeJSON(env.stdout, struct {
			Bridge string `json:"bridge"`
			checkpointEntry
		}{b.Bridge, b.Checkpoints[i]}); err != nil {
			return err
		}
	}
	if !found {
		return semantics.Misconfigured("checkpoints", "no state directory holds a checkpoint of epoch %d; see bridge checkpoints list", c.Epoch)
	}
	return nil
}

// checkpointEntry is a checkpoint for people and tools.
type checkpointEntry struct {
	Epoch       semantics.Epoch               `json:"epoch"`
	Semantic    string                        `json:"semantic"`
	Status      string                        `json:"status"`
	SavedAt     time.Time                     `json:"saved_at"`
	Transaction string                        `json:"transaction,omitempty"`
	Follows     string                        `json:"follows,omitempty"`
	Empty       bool                          `json:"empty,omitempty"`
	Started     *time.Time                    `json:"transaction_started_at,omitempty"`
	Timeout     float64                       `json:"transaction_timeout_seconds,omitempty"`
	StateBytes  int                           `json:"state_bytes"`
	Positions   map[string]map[string][]int64 `json:"positions,omitempty"` // source → topic → offsets by partition, -1 where none
}

func entry(c semantics.Checkpoint) checkpointEntry {
	e := checkpointEntry{Epoch: c.Epoch, Semantic: c.Semantic.String(), Status: c.Status.String(), SavedAt: time.UnixMilli(c.SavedMs).UTC(), Empty: c.Empty}
	if !c.Transaction.IsZero() {
		e.Transaction, e.Timeout = c.Transaction.String(), float64(c.TimeoutMs)/1000
	}
	if !c.Follows.IsZero() {
		e.Follows = c.Follows.String()
	}
	if c.StartedMs != 0 {
		t := time.UnixMilli(c.StartedMs).UTC()
		e.Started = &t
	}
	for _, b := range c.State {
		e.StateBytes += len(b)
	}
	e.Positions = map[string]map[string][]int64{}
	for _, t := range c.Positions.Topics() {
		if e.Positions[t.Source] == nil {
			e.Positions[t.Source] = map[string][]int64{}
		}
		e.Positions[t.Source][t.Topic] = offsets(c.Positions[t])
	}
	return e
}

func offsets(t semantics.TopicPositions) (out []int64) {
	for _, p := range t.Numbers() {
		for len(out) < int(p) {
			out = append(out, -1)
		}
		out = append(out, t.Partitions[p].Offset)
	}
	return out
}

// directory is what the state directory of one bridge holds.
type directory struct {
	Bridge      string            `json:"bridge"`
	Path        string            `json:"path,omitempty"` // empty without a checkpoint block
	Checkpoints []checkpointEntry `json:"checkpoints"`

	read []semantics.Checkpoint
}

// readDirectories reads the state directories of all bridges of the file, in its order.
func readDirectories(file *configs.File) ([]directory, error) {
	out := []directory{}
	for _, b := range file.Bridges {
		d := directory{Bridge: b.Options.Name, Checkpoints: []checkpointEntry{}}
		if b.Store != nil {
			var err error
			if d.read, err = readCheckpoints(b); err != nil {
				return nil, err
			}
			d.Path = b.Store.Path
		}
		for _, c := range d.read {
			d.Checkpoints = append(d.Checkpoints, entry(c))
		}
		out = append(out, d)
	}
	return out, nil
}

// readCheckpoints reads a state directory without changing it.
func readCheckpoints(b configs.Bridge) (all []semantics.Checkpoint, err error) {
	if unused(b.Store.Path) {
		return nil, nil
	}
	store, err := snapshot.OpenReadOnly(*b.Store)
	switch {
	case errors.Is(err, snapshot.ErrNoState):
		return nil, nil
	case errors.Is(err, snapshot.ErrLocked):
		// Nobody was refused anything for safety's sake, so this is not exit code 3.
		return nil, &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitGaveUp, Op: fmt.Sprintf("bridge %q", b.Options.Name),
			Err: fmt.Errorf("a daemon is running: %w", err)}
	case err != nil:
		return nil, fmt.Errorf("bridge %q: %w", b.Options.Name, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.Load()
}

// unused says that nothing was ever stored in the directory. Opening it would leave a lock file behind, which may then
// belong to another user than the daemon's.
func unused(path string) bool {
	found, err := os.ReadDir(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !slices.ContainsFunc(found, func(e fs.DirEntry) bool { return e.Name() != "lost+found" && !strings.HasPrefix(e.Name(), ".") })
}
