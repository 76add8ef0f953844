package bridge

import (
	"context"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// Writer is the sink's batch producer. Calls of Write come from many map tasks at once; Begin comes from the driver alone,
// and never while a Write is under way.
type Writer interface {
	// Begin makes tx the transaction of every later Write, with sequences from 0. Under NONE and AT_LEAST_ONCE tx is zero
	// and Begin is called once a run. It throws away whatever an earlier run left unsent.
	Begin(ctx context.Context, tx semantics.Transaction) error
	// Write queues b for its sink partition, strictly in the order of calls. It blocks while too many bytes are in
	// flight. Writer owns b.Raw until it calls b.Release, which it does exactly once, whatever happens. An error means that
	// the epoch has failed; so does an error that comes later, which every further Write and Flush returns.
	Write(ctx context.Context, b batch.Outbound) error
	// Flush returns nil only when every batch ever written since Begin is acknowledged. sent says whether there was any. After
	// Failed it returns the failure at once, also while a Write is under way.
	Flush(ctx context.Context) (sent bool, err error)
	// Abandon throws away what is unsent, and returns when nothing of it is under way: later no request of the last Begin leaves this
	// process. A run has ended then, and what it wrote in is about to be aborted.
	Abandon()
	// Failed is closed after the first batch since Begin that cannot be acknowledged any more, so that nobody waits for the next barrier
	// to find out. It is a new channel after each Begin.
	Failed() <-chan struct{}
}

// Arbiter speaks to the transaction coordinator. Every method repeats its request while nothing is known and ctx lives.
type Arbiter interface {
	// Fence sends a blind InitProducerID for the transactional id and returns the transaction that the id may hold next.
	// It returns only when the id is usable (markers of whatever was open are written).
	Fence(ctx context.Context, transactionalID string) (semantics.Transaction, error)
	// Refresh gets a fresh epoch by InitProducerID with producer id and epoch; PRODUCER_FENCED is returned as a fenced error.
	Refresh(ctx context.Context, tx semantics.Transaction) (semantics.Transaction, error)
	// End sends EndTxn with tx's own version until the answer is definitive. next is what the id's following transaction
	// must use (meaningful for OutcomeCommitted and, with commit false, OutcomeAborted). When ctx ends before that: an Unknown error.
	End(ctx context.Context, tx semantics.Transaction, commit bool) (outcome semantics.Outcome, next semantics.Transaction, err error)
	// StartedAt is the coordinator's start time of the open transaction on the id, Unix milliseconds, 0 when unknown.
	StartedAt(ctx context.Context, tx semantics.Transaction) int64
}

// Reporter is an Arbiter that shows why it waits.
type Reporter interface {
	// Report is called once, before any other method. show takes what is waited for with the reason, again whenever the reason
	// changes, and with "" when that is over. It does not block and is safe from any goroutine.
	Report(show func(what, reason string))
}

// Ledger is the ledger topic.
type Ledger interface {
	// Read returns this bridge's last record below the high watermark asked for now. With settled, it first waits until
	// the last stable offset has passed that high watermark, so that nothing below is open. waiting is called
	// with the reason while it waits for long (another bridge's open transaction), with "" when that is over.
	Read(ctx context.Context, settled bool, waiting func(reason string)) (semantics.LedgerEnd, error)
	// Append produces rec in the open transaction tx (after every batch of it is acknowledged) and returns its offset
	// when acknowledged. Repeated with the same sequence while that is safe.
	Append(ctx context.Context, tx semantics.Transaction, rec semantics.LedgerRecord) (offset int64, err error)
}

// Store keeps checkpoints. Every method is durable on return.
type Store interface {
	// Load returns all checkpoints in ascending order of epoch.
	Load() ([]semantics.Checkpoint, error)
	// Save stores c, replacing one of the same epoch.
	Save(c semantics.Checkpoint) error
	// Decide sets the status of the checkpoint of that epoch. With Decided it also drops what retention no longer wants, never
	// the last decided one (I4).
	Decide(epoch semantics.Epoch, status semantics.Status) error
	// Drop deletes the checkpoints of the given epochs.
	Drop(epochs ...semantics.Epoch) error
}

// Sized is a Store that knows how large its checkpoints are.
type Sized interface {
	// Size is the number of bytes of the checkpoint that was saved last, or of the newest that was loaded; 0 before that.
	// Safe from any goroutine; it never waits for the disk.
	Size() int64
}

// SinkTopics looks at and creates the sink's topics.
type SinkTopics interface {
	// Ensure returns the topic with at least partitions partitions: it creates a missing topic, or missing partitions,
	// where create_topics allows that, and otherwise fails naming what is missing. Safe for concurrent use; cheap when nothing is missing (cached,
	// Refresh drops the cache). A negative count takes an existing topic as it is, and creates a missing one with
	// -partitions: with partition = "key" more partitions would move keys.
	Ensure(ctx context.Context, topic string, partitions int32) (batch.SinkTopic, error)
	// Refresh forgets what was learned, so that the next Ensure asks the cluster again.
	Refresh()
}
