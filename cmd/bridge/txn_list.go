package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/go-hclog"

	"kafkabridge"
	"kafkabridge/configs"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
	"kafkabridge/txn"
)

type txnCommand struct {
	List  txnList  `cmd:"" help:"List the open transactions of the file's bridges on their sinks' clusters."`
	Abort txnAbort `cmd:"" help:"End the open transactions of a bridge that does not run any more, so that readers wait no longer."`
}

type txnList struct {
	fileFlag
	formatFlag
	All bool `help:"Also the transactional ids on which nothing is open."`
}

// transaction is a transactional id of a bridge as its coordinator sees it.
type transaction struct {
	Bridge     string             `json:"bridge"`
	ID         string             `json:"transactional_id"`
	State      string             `json:"state"` // the coordinator's word; "unknown id" where it knows none
	ProducerID int64              `json:"producer_id"`
	Epoch      int16              `json:"producer_epoch"`
	Started    *time.Time         `json:"started_at,omitempty"` // of the last transaction
	Age        float64            `json:"age_seconds"`          // of an open one
	Timeout    float64            `json:"timeout_seconds"`
	Topics     map[string][]int32 `json:"topics,omitempty"`     // of an open one
	Checkpoint semantics.Epoch    `json:"checkpoint,omitempty"` // the proposed checkpoint that it belongs to: it is prepared
	Witness    string             `json:"witness,omitempty"`    // what it tells of the newest checkpoint's transaction

	seen txn.Described
}

func transactionOf(bridge string, d txn.Described, stored []semantics.Checkpoint) transaction {
	t := transaction{Bridge: bridge, ID: d.ID, State: d.State, ProducerID: d.ProducerID, Epoch: d.ProducerEpoch, Timeout: float64(d.TimeoutMs) / 1000, seen: d}
	if d.State == "" {
		t.State = "unknown id"
	}
	if d.StartedMs > 0 {
		at := time.UnixMilli(d.StartedMs).UTC()
		t.Started = &at
		if d.Open() {
			t.Age = max(0, time.Since(at).Seconds())
		}
	}
	if d.Open() {
		t.Topics = d.Topics
		if c := preparedIn(d, stored); c != nil {
			t.Checkpoint = c.Epoch
		}
	}
	if n := len(stored); n > 0 && stored[n-1].Transaction.ID == d.ID {
		t.Witness = witness(d, &stored[n-1])
	}
	return t
}

// witness says in words what the coordinator's state tells of a checkpoint's transaction.
func witness(d txn.Described, c *semantics.Checkpoint) string {
	o, pending := d.Witness().Settles(c.Transaction)
	same := c.StartedMs == 0 || d.StartedMs == 0 || c.StartedMs == d.StartedMs
	switch {
	case pending && d.Open():
		return fmt.Sprintf("the transaction of checkpoint %d is open and can be committed", c.Epoch)
	case o == semantics.OutcomeCommitted && same:
		return fmt.Sprintf("the transaction of checkpoint %d was committed", c.Epoch)
	case o == semantics.OutcomeAborted && same:
		return fmt.Sprintf("the transaction of checkpoint %d was aborted", c.Epoch)
	default:
		return fmt.Sprintf("the id was used since checkpoint %d and is no witness of it; the ledger is", c.Epoch)
	}
}

// preparedIn is the proposed checkpoint whose transaction is open.
func preparedIn(d txn.Described, stored []semantics.Checkpoint) *semantics.Checkpoint {
	for i := range stored {
		if c := &stored[i]; c.Status == semantics.Proposed && !c.Empty && d.Is(c.Transaction) {
			return c
		}
	}
	return nil
}

// sentence describes it for people.
func (t transaction) sentence() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", t.ID, t.State)
	if t.seen.State != "" {
		fmt.Fprintf(&b, " pid=%d pepoch=%d", t.ProducerID, t.Epoch)
	}
	if t.seen.Open() {
		fmt.Fprintf(&b, ", open for %s of %s in %s", seconds(t.Age), seconds(t.Timeout), partitions(t.Topics))
	}
	return b.String() + after("; ", t.Witness)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// partitions names topics with their partitions, bounded: a thousand must not fill the screen.
func partitions(topics map[string][]int32) string {
	const most = 10
	var parts []string
	for _, t := range slices.Sorted(maps.Keys(topics)) {
		parts = append(parts, fmt.Sprintf("%s %v", t, topics[t]))
	}
	if len(parts) == 0 {
		return "no partition that this user may see"
	}
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("%d more topics", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}

// Run lists them.
func (c *txnList) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	ctx, release := env.looking()
	defer release()
	all := []transaction{}
	for _, b := range file.Bridges {
		found, err := listBridge(ctx, env, b)
		if err != nil {
			return err
		}
		all = append(all, slices.DeleteFunc(found, func(t transaction) bool { return !c.All && !t.seen.Open() && !t.seen.Ending() })...)
	}
	if c.Output == "json" {
		return writeJSON(env.stdout, struct {
			Transactions []transaction `json:"transactions"`
		}{all})
	}
	t := tabwriter.NewWriter(env.stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "BRIDGE\tTRANSACTIONAL ID\tSTATE\tPID\tPEPOCH\tAGE\tTIMEOUT\tPREPARED\tPARTITIONS")
	for _, x := range all {
		age, prepared, where := "-", "-", "-"
		if x.seen.Open() {
			age, where = seconds(x.Age), partitions(x.Topics)
		}
		if x.Checkpoint != 0 {
			prepared = fmt.Sprintf("checkpoint %d", x.Checkpoint)
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", x.Bridge, x.ID, x.State, x.ProducerID, x.Epoch, age, seconds(x.Timeout), prepared, where)
	}
	return flush(t)
}

// listBridge describes the bridge's own ids. What a running daemon has stored cannot be seen then.
func listBridge(ctx context.Context, env environment, b configs.Bridge) (out []transaction, err error) {
	if len(b.Sink.TransactionalIDs) == 0 {
		return nil, nil
	}
	var stored []semantics.Checkpoint
	if b.Store != nil {
		stored, err = readCheckpoints(b)
		switch {
		case errors.Is(err, snapshot.ErrLocked):
			_, _ = fmt.Fprintf(env.stderr, "bridge %q: a daemon is running; its transactions are its own, and it alone knows which is prepared\n", b.Options.Name)
		case err != nil:
			return nil, err
		}
	}
	r, err := openRepair(ctx, b, hclog.NewNullLogger())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	ids, err := r.sink.Coordinator.Describe(ctx, b.Sink.TransactionalIDs...)
	if err != nil {
		return nil, kafkabridge.Explain(err, b.SinkConnection)
	}
	for _, d := range ids {
		out = append(out, transactionOf(b.Options.Name, d, stored))
	}
	return out, nil
}
