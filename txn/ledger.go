package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// Ledger is the ledger topic (bridge.Ledger); LEDGER.md describes its records. Calls are taken one after the other.
type Ledger struct {
	opts     Options
	topic    string
	cl       *kgo.Client
	adm      *kadm.Client
	leaders  *leaders
	producer *Producer
	log      hclog.Logger

	turn chan struct{} // one token, guards what follows

	checked  semantics.TopicID // the topic whose settings were checked
	maxBytes int               // its max.message.bytes; 0 when it may not be read
	peeked   *scan             // where the last look ended, so that the next one reads only what is new
	settled  *scan             // the last settled read
}

func newLedger(opts Options, cl *kgo.Client, adm *kadm.Client, l *leaders, p *Producer, log hclog.Logger) *Ledger {
	return &Ledger{
		opts: opts, topic: opts.LedgerTopic, cl: cl, adm: adm, leaders: l, producer: p,
		log: log.Named("ledger").With("topic", opts.LedgerTopic), turn: make(chan struct{}, 1),
	}
}

// Read returns this bridge's last committed record below the high watermark asked for now.
//
// With settled, which is for the read after the fence, the topic is created when it is missing and checked, the whole
// log is read, and Read waits until the last stable offset has passed that high watermark; waiting gets the reason
// while that lasts, and "" when it is over. Without, it reads what is stable now, from where the last such call ended,
// and a missing topic is an end with Found false and no topic id: such a read may only refuse, or find that we lost.
//
// A ledger that cannot be read is never an empty one: Read repeats until ctx ends.
func (l *Ledger) Read(ctx context.Context, settled bool, waiting func(reason string)) (semantics.LedgerEnd, error) {
	const op = "read the ledger"
	none := semantics.LedgerEnd{Offset: -1}
	if err := l.lock(ctx, op); err != nil {
		return none, err
	}
	defer l.unlock()
	if settled {
		if err := l.ensure(ctx); err != nil {
			return none, err
		}
	}
	end := none
	w := &waitNotice{l: l, tell: waiting}
	defer w.over()
	err := repeatEach(ctx, l.log, op, longRead, func(ctx context.Context) error {
		s, err := l.begin(ctx, settled)
		if err != nil || s == nil {
			return err
		}
		if err := s.run(ctx, w); err != nil {
			return err
		}
		if settled {
			l.settled = s
		}
		l.peeked = s
		end, err = s.ledgerEnd()
		return err
	})
	if err != nil {
		return none, err
	}
	return end, nil
}

// longRead bounds one attempt, so that a broker that answers and never delivers is asked where the leader is.
const longRead = 5 * time.Minute

// Append produces rec in the open transaction tx and returns its offset when it is acknowledged. Call it after Flush.
// The offset is always the real one: an answer without it fails the epoch (see run.appended).
func (l *Ledger) Append(ctx context.Context, tx semantics.Transaction, rec semantics.LedgerRecord) (int64, error) {
	const op = "append to the ledger"
	if err := l.lock(ctx, op); err != nil {
		return -1, err
	}
	defer l.unlock()
	raw, err := l.encode(rec)
	if err != nil {
		return -1, err
	}
	offset, err := l.producer.append(ctx, tx, batch.Outbound{
		Topic: l.topic, Partition: 0, Raw: raw, Records: 1, Release: func() {},
	})
	if err != nil {
		return -1, err
	}
	if rec.Kind == semantics.LedgerClaim {
		if err := l.verifyClaim(ctx, rec, offset); err != nil {
			return -1, err
		}
	}
	return offset, nil
}

// encode makes the batch of one ledger record.
func (l *Ledger) encode(rec semantics.LedgerRecord) ([]byte, error) {
	const op = "encode a ledger record"
	value, err := encodeLedger(rec)
	if err != nil {
		return nil, semantics.Refuse(op, "%w", err)
	}
	if _, err := decodeLedger(rec.Bridge, value); err != nil {
		return nil, semantics.Refuse(op, "it could not be read again: %w", err) // nothing that the next start refuses may get in
	}
	var b batch.Builder
	if err := b.Append(&batch.Record{Key: []byte(rec.Bridge), Value: value, Timestamp: time.Now().UnixMilli()}); err != nil {
		return nil, semantics.Refuse(op, "%w", err)
	}
	raw, err := b.Finish(nil, new(batch.Compressor), batch.None)
	if err != nil {
		return nil, semantics.Refuse(op, "%w", err)
	}
	if l.maxBytes > 0 && len(raw) > l.maxBytes {
		return nil, semantics.Refuse(op, "the positions need %d bytes and max.message.bytes of ledger topic %q is %d: raise it (about 40 bytes a partition)",
			len(raw), l.topic, l.maxBytes)
	}
	return raw, nil
}

// verifyClaim looks once more at what lies between the settled read and the claim. A broker that was deposed while it
// was frozen answers metadata, offsets and fetches from its old log for a moment after it wakes: positions read there
// are old, and going on from them would double records. The claim itself was acknowledged by a majority's leader.
func (l *Ledger) verifyClaim(ctx context.Context, rec semantics.LedgerRecord, claim int64) error {
	const op = "verify the claim"
	s := l.settled
	if s == nil {
		return nil // no read to verify (tests, adopt into a new topic)
	}
	if claim < s.target {
		return lostAnswer(op, fmt.Errorf("ledger topic %q: the claim is at offset %d, but the ledger was read up to %d: it was truncated or made anew", l.topic, claim, s.target))
	}
	if claim == s.target {
		return nil
	}
	return repeatEach(ctx, l.log, op, requestLimit*2, func(ctx context.Context) error {
		gap, err := l.begin(ctx, true)
		if err != nil {
			return err
		}
		if gap.topicID != s.topicID {
			return lostAnswer(op, fmt.Errorf("ledger topic %q was made anew", l.topic))
		}
		gap.next, gap.epoch, gap.target, gap.uncommitted = s.target, -1, claim, true
		if err := gap.run(ctx, &waitNotice{l: l}); err != nil {
			return err
		}
		if gap.found && gap.offset < claim {
			return lostAnswer(op, fmt.Errorf("ledger topic %q holds a record of %q at offset %d, which the read up to %d did not see", l.topic, rec.Bridge, gap.offset, s.target))
		}
		return nil
	})
}

func (l *Ledger) lock(ctx context.Context, op string) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &semantics.Error{Class: semantics.Retry, Op: op, Err: context.Cause(ctx)}
	}
}

func (l *Ledger) unlock() { <-l.turn }
