package txn

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// End sends EndTxn with tx's own version until the answer is definitive. When ctx ends before that: an Unknown error.
//
// next is what the id's following transaction starts from. With version 5 it is ready for use; with version 4 it is
// tx again, and Refresh must give it a fresh epoch first (I6: a late EndTxn of this one could commit the next one).
func (c *Coordinator) End(ctx context.Context, tx semantics.Transaction, commit bool) (semantics.Outcome, semantics.Transaction, error) {
	op := "abort the transaction"
	if commit {
		op = "commit the transaction"
	}
	ctx, over := c.showing(ctx, op+" "+tx.ID)
	defer over()
	var outcome semantics.Outcome
	next := tx
	err := repeat(ctx, c.log, op, func(ctx context.Context) error {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = tx.ID, tx.ProducerID, tx.ProducerEpoch, commit
		kresp, err := c.ask(ctx, tx.ID, &endTxnRequest{EndTxnRequest: req, max: tx.EndTxnVersion})
		if err != nil {
			return err
		}
		resp, ok := kresp.(*kmsg.EndTxnResponse)
		if !ok {
			return again(fmt.Errorf("answered with %T", kresp))
		}
		// The rules go by the version that was really sent (lower than tx's own only after brokers were rolled back).
		v, known := verdict(resp.ErrorCode, resp.Version, commit)
		if known {
			outcome = v
			next = following(tx, resp)
			return nil
		}
		return c.endUndecided(op, tx, resp.ErrorCode)
	})
	if err != nil {
		return 0, semantics.Transaction{}, err
	}
	return outcome, next, nil
}

// endUndecided is the error of an answer that decides nothing: to be repeated, except where only an operator can help.
func (c *Coordinator) endUndecided(op string, tx semantics.Transaction, code int16) error {
	err := codeError(op, code, resource{"transactional id", tx.ID, "WRITE"}, tx.String())
	if c.note(tx.ID, code).class == semantics.Fatal {
		return err
	}
	// Unlisted ones too: the answer to the same request may decide later, and any other conclusion would be a guess (I7).
	return again(err)
}

// verdict reads EndTxn's answer, known false when it decides nothing. It rests on one transaction per (producer id,
// epoch) (I6) and on the answers measured on real brokers:
//
//	code       version  commit     abort
//	none       any      committed  aborted
//	ITS        5        aborted    committed: CompleteCommit at epoch+1 is the only state that answers so
//	ITS        <=4      aborted    ambiguous: nothing was ever added (Empty), or it was committed (CompleteCommit)
//	F, epoch   any      ambiguous: aborted by a rival or timeout, or committed (with v5) and the id used since
//	IPM        any      ambiguous: expired, or the producer id rotated
//
// ITS on commit: version 5 has it for CompleteAbort at epoch+1 (we, a timeout or a rival aborted it) and for
// CompleteCommit at the same epoch, which a v5 owner never leaves behind; version 4 for CompleteAbort at the same epoch
// (our own abort) and Empty. Both mean that nothing was committed.
func verdict(code, version int16, commit bool) (outcome semantics.Outcome, known bool) {
	switch err := kerr.ErrorForCode(code); {
	case err == nil && commit:
		return semantics.OutcomeCommitted, true // PrepareCommit is durable; markers follow
	case err == nil:
		return semantics.OutcomeAborted, true
	case errors.Is(err, kerr.InvalidTxnState) && commit:
		return semantics.OutcomeAborted, true
	case errors.Is(err, kerr.InvalidTxnState) && version >= 5:
		return semantics.OutcomeCommitted, true
	case errors.Is(err, kerr.InvalidTxnState):
		return semantics.OutcomeAmbiguous, true
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.InvalidProducerIDMapping):
		return semantics.OutcomeAmbiguous, true
	default:
		return 0, false
	}
}

// following is what the id's next transaction starts from. Never store it with the transaction that ended: a settle
// would then end the next one.
func following(tx semantics.Transaction, resp *kmsg.EndTxnResponse) semantics.Transaction {
	next := tx
	switch {
	case resp.Version < 5:
	case resp.ErrorCode == 0 && resp.ProducerID >= 0 && resp.ProducerEpoch >= 0:
		next.ProducerID, next.ProducerEpoch = resp.ProducerID, resp.ProducerEpoch
	case tx.ProducerEpoch < math.MaxInt16-1:
		// A timeout or an abort of ours bumped it once. If it was more, the next produce is fenced and recovery begins.
		next.ProducerEpoch++
	}
	return next
}
