package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kafkabridge/configs"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
)

// txnAbort ends transactions one by one with EndTxn and the producer id and epoch that were shown. A blind InitProducerID on the id
// would do, too, but it also ends whatever was begun since, and fences whoever began it.
type txnAbort struct {
	ID string `arg:"" optional:"" help:"Only this transactional id, exactly as txn list shows it."`
	fileFlag
	Yes      bool   `help:"Do not ask."`
	Prepared string `enum:"refuse,commit,abort" default:"refuse" help:"What becomes of a transaction whose checkpoint is stored and that can still be committed: refuse (default), commit it, or abort it, so that the next run reads its range again."`
	Running  bool   `help:"Also while a daemon of the bridge runs here: it loses its open epoch and reads it again. Not with ledger = false."`
}

// abortTimeout bounds the questions and each EndTxn.
const abortTimeout = 2 * time.Minute

// Run ends what is open.
func (c *txnAbort) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	bridges, err := c.chosen(file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	ctx, release := env.stoppable(ctx)
	defer release()
	for _, b := range bridges {
		if err := c.bridge(ctx, env, file, b); err != nil {
			return err
		}
	}
	return nil
}

// chosen are the bridges that have the id, or all. An id of nobody here is refused: it is somebody else's transaction.
func (c *txnAbort) chosen(file *configs.File) (out []configs.Bridge, err error) {
	var ids []string
	for _, b := range file.Bridges {
		ids = append(ids, b.Sink.TransactionalIDs...)
		if c.ID == "" || slices.Contains(b.Sink.TransactionalIDs, c.ID) {
			out = append(out, b)
		}
	}
	if c.ID != "" && len(out) == 0 {
		return nil, &usageError{fmt.Errorf("%q is no transactional id of this file's bridges: they have %s", c.ID, strings.Join(ids, ", "))}
	}
	return out, nil
}

// ending is one transaction that is to be ended.
type ending struct {
	transaction
	tx     semantics.Transaction
	commit bool
	stored *semantics.Checkpoint // nil: not prepared
}

func (c *txnAbort) bridge(ctx context.Context, env environment, file *configs.File, b configs.Bridge) (err error) {
	if len(b.Sink.TransactionalIDs) == 0 {
		return nil
	}
	store, err := holdDirectory(env, file, b, false)
	if errors.Is(err, errRunning) && c.Running {
		if !b.Sink.Ledger {
			return semantics.Refuse(fmt.Sprintf("bridge %q", b.Options.Name), "a daemon is running and ledger = false: after this nobody could tell whether its transaction was committed; stop it first")
		}
		err = nil
	}
	if err != nil {
		return err
	}
	var stored []semantics.Checkpoint
	if store != nil {
		defer func() { err = errors.Join(err, store.Close()) }()
		if stored, err = store.Load(); err != nil {
			return err
		}
	}
	r, err := openRepair(ctx, b, newLogger(file.Log, env))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	todo, err := c.found(ctx, r, stored)
	if err != nil {
		return err
	}
	if len(todo) == 0 {
		_, err := fmt.Fprintf(env.stdout, "%s: nothing is open\n", b.Options.Name)
		return err
	}
	if err := c.ask(env, todo); err != nil {
		return err
	}
	for _, e := range todo {
		if err := e.end(ctx, env, r, store); err != nil {
			return err
		}
	}
	return nil
}

// found lists what is open, what is prepared first: it is settled before anything else is touched.
func (c *txnAbort) found(ctx context.Context, r *repair, stored []semantics.Checkpoint) (todo []ending, err error) {
	ids := r.b.Sink.TransactionalIDs
	if c.ID != "" {
		ids = []string{c.ID}
	}
	seen, err := r.sink.Coordinator.DescribeEnded(ctx, ids...)
	if err != nil {
		return nil, r.explain(err)
	}
	version, err := r.sink.Coordinator.EndVersion(ctx)
	if err != nil {
		return nil, r.explain(err)
	}
	for _, d := range seen {
		if !d.Open() {
			continue
		}
		e := ending{transaction: transactionOf(r.b.Options.Name, d, stored), stored: preparedIn(d, stored),
			tx: semantics.Transaction{ID: d.ID, ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch, EndTxnVersion: version}}
		if e.stored == nil {
			todo = append(todo, e)
			continue
		}
		if c.Prepared == "refuse" {
			return nil, semantics.Refuse("abort", "%s is the transaction of checkpoint %d: it is prepared, and the next run of bridge %q commits it; if there is to be none: --prepared=commit makes its records visible, --prepared=abort throws them away",
				e.stored.Transaction, e.stored.Epoch, r.b.Options.Name)
		}
		e.tx, e.commit = e.stored.Transaction, c.Prepared == "commit" // with the version that was chosen for it
		todo = append([]ending{e}, todo...)
	}
	return todo, nil
}

func (e ending) verb() string {
	if e.commit {
		return "commit"
	}
	return "abort"
}

func (c *txnAbort) ask(env environment, todo []ending) error {
	for _, e := range todo {
		_, _ = fmt.Fprintf(env.stderr, "%s %s\n", e.verb(), e.sentence())
	}
	return confirm(env, "Do this? It cannot be taken back.", c.Yes)
}

// end ends one transaction and says what came of it.
func (e ending) end(ctx context.Context, env environment, r *repair, store *snapshot.Store) error {
	op := e.verb() + " " + e.tx.String()
	outcome, _, err := r.sink.Coordinator.End(ctx, e.tx, e.commit)
	if err != nil {
		return fmt.Errorf("%s: it may have happened, see bridge txn list: %w", op, r.explain(err))
	}
	done := map[bool]semantics.Outcome{true: semantics.OutcomeCommitted, false: semantics.OutcomeAborted}[e.commit]
	if outcome != done {
		return &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitGaveUp, Op: op,
			Err: fmt.Errorf("it was ended by somebody else meanwhile (%s); nothing was done: see bridge txn list", outcome)}
	}
	if e.stored != nil && store != nil {
		// As settling does: what is known now must survive, because a later answer is ambiguous.
		status := map[bool]semantics.Status{true: semantics.Decided, false: semantics.Aborted}[e.commit]
		if err := store.Decide(e.stored.Epoch, status); err != nil {
			return fmt.Errorf("%s: done, but the state directory does not know it yet; the next run finds out: %w", op, err)
		}
	}
	_, err = fmt.Fprintf(env.stdout, "%s: %s %s\n", r.b.Options.Name, outcome, e.tx)
	return err
}
