package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// Coordinator speaks to the transaction coordinators (bridge.Arbiter). Safe for concurrent use.
type Coordinator struct {
	opts   Options
	cl     *kgo.Client
	adm    *kadm.Client
	limits *limits
	log    hclog.Logger
	show   func(what, reason string) // nil: nobody is shown why it waits

	mu    sync.Mutex
	nodes map[string]int32 // transactional id → broker; at most as many as there are ids in use
}

func newCoordinator(opts Options, cl *kgo.Client, adm *kadm.Client, lim *limits, log hclog.Logger) *Coordinator {
	return &Coordinator{opts: opts, cl: cl, adm: adm, limits: lim, log: log.Named("coordinator"), nodes: map[string]int32{}}
}

// Report implements bridge.Reporter for Fence, Refresh and End. It is called before any of them.
func (c *Coordinator) Report(show func(what, reason string)) { c.show = show }

// showing makes everything that is repeated under the returned context visible as what; over ends that.
func (c *Coordinator) showing(ctx context.Context, what string) (_ context.Context, over func()) {
	if c.show == nil {
		return ctx, func() {}
	}
	return context.WithValue(ctx, tellKey{}, func(reason string) { c.show(what, reason) }), func() { c.show(what, "") }
}

// Fence sends a blind InitProducerID, which aborts whatever is open on the id and makes every older owner fail with
// PRODUCER_FENCED. It repeats until the id is usable, which is when the markers of what was open are written. The
// EndTxn version of the returned transaction holds until the next fence.
//
// An attempt whose answer was lost may still be on its way and fence us later: that looks like a rival, and the
// ledger shows that there was none.
func (c *Coordinator) Fence(ctx context.Context, transactionalID string) (semantics.Transaction, error) {
	const op = "fence"
	ctx, over := c.showing(ctx, "fencing "+transactionalID)
	defer over()
	version, err := c.limits.endTxnVersion(ctx)
	if err != nil {
		return semantics.Transaction{}, err
	}
	if err := c.await(ctx, op, transactionalID); err != nil {
		return semantics.Transaction{}, err
	}
	return c.initProducerID(ctx, op, semantics.Transaction{ID: transactionalID, ProducerID: -1, ProducerEpoch: -1, EndTxnVersion: version})
}

// await looks for the id's coordinator for as long as nobody needs to know. Without one nothing has been sent, so giving up is
// harmless (Retry), and the caller can show why it waits: brokers that cannot make their transaction log never get one.
func (c *Coordinator) await(ctx context.Context, op, id string) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := repeat(limited, c.log, op, func(ctx context.Context) error {
		_, err := c.find(ctx, id)
		return err
	})
	if err == nil || ctx.Err() != nil || semantics.ClassOf(err) != semantics.Unknown {
		return err
	}
	return &semantics.Error{Class: semantics.Retry, Op: op, Err: fmt.Errorf("the brokers cannot host transactions now: see the state of "+
		"__transaction_state, and whether there are as many brokers as transaction.state.log.replication.factor: %w", err)}
}

// Refresh gets a fresh epoch for tx's id with tx's producer id and epoch (KIP-360). It never takes the id back from a
// rival: PRODUCER_FENCED is a fenced error. The same request again, after a lost answer, gets the same answer.
func (c *Coordinator) Refresh(ctx context.Context, tx semantics.Transaction) (semantics.Transaction, error) {
	const op = "refresh the producer epoch"
	if tx.ProducerID < 0 || tx.ProducerEpoch < 0 {
		// Without them the request would be a blind one, which is a fence (I6).
		return semantics.Transaction{}, semantics.Refuse(op, "transaction %s has no producer id and epoch", tx)
	}
	ctx, over := c.showing(ctx, "refreshing the producer epoch of "+tx.ID)
	defer over()
	return c.initProducerID(ctx, op, tx)
}

func (c *Coordinator) initProducerID(ctx context.Context, op string, tx semantics.Transaction) (semantics.Transaction, error) {
	next := tx
	err := repeat(ctx, c.log, op, func(ctx context.Context) error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = kmsg.StringPtr(tx.ID)
		req.TransactionTimeoutMillis = int32(c.opts.TransactionTimeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = tx.ProducerID, tx.ProducerEpoch
		kresp, err := c.ask(ctx, tx.ID, req)
		if err != nil {
			return err
		}
		resp, ok := kresp.(*kmsg.InitProducerIDResponse)
		if !ok {
			return again(fmt.Errorf("answered with %T", kresp))
		}
		if resp.ErrorCode != 0 {
			return c.initRefused(op, tx, resp.ErrorCode)
		}
		if tx.ProducerID >= 0 && req.Version < 3 {
			// Versions before 3 cannot carry producer id and epoch: this was a blind one (brokers before 2.5; refused at start).
			return semantics.Misconfigured(op, "the broker speaks InitProducerID version %d only: Kafka 3.6 or newer is needed", req.Version)
		}
		next.ProducerID, next.ProducerEpoch = resp.ProducerID, resp.ProducerEpoch
		return nil
	})
	if err != nil {
		return semantics.Transaction{}, err
	}
	if next.ProducerID < 0 || next.ProducerEpoch < 0 {
		return semantics.Transaction{}, lostAnswer(op, fmt.Errorf("%q got producer id %d epoch %d", tx.ID, next.ProducerID, next.ProducerEpoch))
	}
	return next, nil
}

func (c *Coordinator) initRefused(op string, tx semantics.Transaction, code int16) error {
	if errors.Is(kerr.ErrorForCode(code), kerr.InvalidTransactionTimeout) {
		return c.limits.timeoutRefused(op)
	}
	err := codeError(op, code, resource{"transactional id", tx.ID, "WRITE"}, tx.String())
	// UNKNOWN_SERVER_ERROR comes from a coordinator that could not write: an InitProducerID may be repeated.
	if c.note(tx.ID, code).again || code == kerr.UnknownServerError.Code {
		return again(err)
	}
	return err
}

// startedLimit bounds what an epoch waits for a number that only people read.
const startedLimit = 3 * time.Second

// StartedAt is the coordinator's start time of the open transaction, Unix milliseconds; 0 when it is not known.
func (c *Coordinator) StartedAt(ctx context.Context, tx semantics.Transaction) int64 {
	ctx, cancel := context.WithTimeout(ctx, startedLimit)
	defer cancel()
	described, err := c.adm.DescribeTransactions(ctx, tx.ID)
	if err != nil {
		c.log.Debug("describe the transaction", "txn", tx.ID, "error", err)
		return 0
	}
	d, ok := described[tx.ID]
	if !ok || d.Err != nil || d.ProducerID != tx.ProducerID || d.ProducerEpoch != tx.ProducerEpoch || d.StartTimestamp < 0 {
		return 0
	}
	return d.StartTimestamp
}

// ask sends req to the id's coordinator. Its errors are all to be repeated (errAgain): no answer came. It is not
// done with kgo's own routing because that goes by the request's concrete type, which the pinned ones do not have.
func (c *Coordinator) ask(ctx context.Context, id string, req kmsg.Request) (kmsg.Response, error) {
	node, err := c.find(ctx, id)
	if err != nil {
		return nil, err
	}
	resp, err := c.cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		c.forget(id)
		return nil, again(fmt.Errorf("coordinator %d of %q: %w", node, id, err))
	}
	return resp, nil
}

// find returns the broker that coordinates id.
func (c *Coordinator) find(ctx context.Context, id string) (int32, error) {
	c.mu.Lock()
	node, ok := c.nodes[id]
	c.mu.Unlock()
	if ok {
		return node, nil
	}
	const op = "find the transaction coordinator"
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType = 1 // transactions
	req.CoordinatorKey = id
	req.CoordinatorKeys = []string{id}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return 0, again(fmt.Errorf("%s of %q: %w", op, id, err))
	}
	node, code := resp.NodeID, resp.ErrorCode
	for _, found := range resp.Coordinators {
		if found.Key == id {
			node, code = found.NodeID, found.ErrorCode
		}
	}
	if code != 0 {
		err := codeError(op, code, resource{"transactional id", id, "DESCRIBE"}, "")
		if err.Class == semantics.Fatal {
			return 0, err
		}
		return 0, again(err)
	}
	c.mu.Lock()
	c.nodes[id] = node
	c.mu.Unlock()
	return node, nil
}

// note drops what is known about the coordinator when code says that it is out of date.
func (c *Coordinator) note(id string, code int16) meaning {
	m := meaningOf(code)
	if m.stale {
		c.forget(id)
	}
	return m
}

func (c *Coordinator) forget(id string) {
	c.mu.Lock()
	delete(c.nodes, id)
	c.mu.Unlock()
}
