package txn

import (
	"context"

	"kafkabridge/semantics"
)

// LedgerView is the ledger as it can be seen without fencing anybody.
type LedgerView struct {
	End semantics.LedgerEnd
	// Hidden is how many offsets lie between the last stable offset and the high watermark; Holder names the transactional ids
	// with an open transaction there. What they hide may change the end.
	Hidden int64
	Holder string
}

// View reads this bridge's last committed record for people. It creates nothing and waits for nobody: a missing topic is
// an end with Found false and no topic id. It repeats while the ledger cannot be read and ctx lives.
func (l *Ledger) View(ctx context.Context) (LedgerView, error) {
	const op = "look at the ledger"
	v := LedgerView{End: semantics.LedgerEnd{Offset: -1}}
	if err := l.lock(ctx, op); err != nil {
		return v, err
	}
	defer l.unlock()
	err := repeatEach(ctx, l.log, op, longRead, func(ctx context.Context) error {
		s, err := l.begin(ctx, false)
		if err != nil || s == nil {
			return err
		}
		high := s.target
		if err := s.run(ctx, &waitNotice{l: l}); err != nil {
			return err
		}
		v.Hidden = max(0, high-s.next)
		v.End, err = s.ledgerEnd()
		return err
	})
	if err == nil && v.Hidden > 0 {
		v.Holder = l.holder(ctx)
	}
	return v, err
}

// Topic is the ledger topic's name.
func (l *Ledger) Topic() string { return l.topic }
