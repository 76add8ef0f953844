package txn

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"kafkabridge/semantics"
)

// Defaults of Options.
const (
	DefaultTransactionTimeout = 15 * time.Minute // the broker's own default of transaction.max.timeout.ms
	DefaultMaxInFlight        = 32 << 20
	DefaultRequestTimeout     = 30 * time.Second
	DefaultDeliveryTimeout    = 2 * time.Minute
)

// Options configure the sink. The kgo client is handed in beside them.
type Options struct {
	Semantic           semantics.Semantic // decides producer id, acks and whether there are transactions
	Bridge             string             // the bridge's name: key of its ledger records
	Incarnation        string             // this run's random id
	TransactionalIDs   []string           // two, in fencing order; under other semantics for recovering an EXACTLY_ONCE past
	TransactionTimeout time.Duration      // default 15m; above the broker's transaction.max.timeout.ms it is refused; short ones make a prepared transaction be replayed after a short downtime
	Ledger             bool
	LedgerTopic        string        // default "<bridge>.ledger"
	CreateTopics       bool          // missing sink topics are created
	DeadLetterTopic    string        // created with settings that let it take and keep everything; "": there is none
	MaxInFlight        int64         // bytes of batches queued or sent and not acknowledged; default 32 MiB; a single larger batch still passes alone
	RequestTimeout     time.Duration // of one produce request at the broker; default 30s
	RenewedCredentials bool          // the sasl block's secret may be replaced while the process runs, so a refusal of it passes
	DeliveryTimeout    time.Duration // how long a batch is resent (lost connections, moved leaders) before the epoch fails; default 2m
}

// EnsureDefaults replaces zero values.
func (o *Options) EnsureDefaults() {
	o.TransactionTimeout = cmp.Or(o.TransactionTimeout, DefaultTransactionTimeout)
	o.LedgerTopic = cmp.Or(o.LedgerTopic, o.Bridge+".ledger")
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.DeliveryTimeout = cmp.Or(o.DeliveryTimeout, DefaultDeliveryTimeout)
}

// Validate reports all problems at once. Call EnsureDefaults first.
func (o *Options) Validate() error {
	var problems []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	switch o.Semantic {
	case semantics.None, semantics.AtLeastOnce:
	case semantics.ExactlyOnce:
		bad(len(o.TransactionalIDs) != 2, "transactional_id: want 2 transactional ids, have %d", len(o.TransactionalIDs))
		for i, id := range o.TransactionalIDs {
			bad(id == "", "transactional_id: id %d is empty", i)
			bad(!utf8.ValidString(id), "transactional_id: %q is not UTF-8, as which Kafka sends and the ledger stores it", id)
			bad(i > 0 && id == o.TransactionalIDs[0], "transactional_id: %q twice", id)
		}
		bad(o.Incarnation == "", "incarnation is empty")
	default:
		bad(true, "semantic: %s is none of the three", o.Semantic)
	}
	bad(o.Bridge == "", "bridge: the name is empty")
	bad(o.TransactionTimeout < time.Second || o.TransactionTimeout > 1<<31*time.Millisecond-time.Millisecond,
		"transaction_timeout: %s is not between 1s and 24.8 days", o.TransactionTimeout)
	bad(o.MaxInFlight < 1, "max in flight: %d bytes are fewer than 1", o.MaxInFlight)
	bad(o.RequestTimeout < time.Millisecond || o.RequestTimeout > time.Hour, "request timeout: %s is not between 1ms and 1h", o.RequestTimeout)
	bad(o.DeliveryTimeout < time.Millisecond, "delivery timeout: %s is shorter than 1ms", o.DeliveryTimeout)
	return errors.Join(problems...)
}
