package sim

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coordinator stands between the processes and kfake and answers InitProducerID and EndTxn as a real coordinator does where
// kfake does not (README.md has the table). What the broker holds it asks of kfake, by DescribeTransactions over a client of its own.
type coordinator struct {
	adm   *kadm.Client
	tr    *trace
	watch *watch
	tv2   bool
	// prepare is how long the n-th transaction's markers take.
	prepare func(n int) time.Duration

	// timeout is when the broker aborts a transaction: its own and as late as the sweeper comes.
	timeout time.Duration

	excused atomic.Bool // a living owner hears what it would hear of a rival: its transaction timed out, or an InitProducerID or AddPartitionsToTxn of its own came late

	mu   sync.Mutex
	ids  map[string]*txnID
	n    int
	lags []lag
}

// txnID is what kfake does not remember about a transactional id.
type txnID struct {
	turn    chan struct{} // one token: requests on one id are served one after the other
	until   time.Time     // markers are written until then
	initial bool          // initialised, and no transaction ended since
	given   int16         // the epoch that the last InitProducerID gave out
	owner   int16         // the epoch that the last blind one gave out
	floor   int16         // no epoch below it is current any more
	used    int16         // the last epoch before the id expired; -1: it never did
	opened  time.Time     // when the open transaction got its first batch; zero: none that is known
}

func newCoordinator(adm *kadm.Client, tr *trace, watch *watch, cfg config, prepare func(int) time.Duration) *coordinator {
	return &coordinator{adm: adm, tr: tr, watch: watch, tv2: cfg.tv2, timeout: cfg.timeout + cfg.sweeper, prepare: prepare, ids: map[string]*txnID{}}
}

func (c *coordinator) id(name string) *txnID {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.ids[name]
	if id == nil {
		id = &txnID{turn: make(chan struct{}, 1), used: -1}
		c.ids[name] = id
	}
	return id
}

// exchange answers a request itself, or lets kfake do so.
func (c *coordinator) exchange(p parcel, server net.Conn, who string) ([]byte, error) {
	switch req := p.req.(type) {
	case *kmsg.InitProducerIDRequest:
		if req.TransactionalID != nil {
			return c.init(req, p.frame, server, who)
		}
	case *kmsg.EndTxnRequest:
		return c.end(req, p.frame, server, who)
	case *kmsg.ProduceRequest:
		if req.TransactionID != nil {
			return c.produce(req, p.frame, server, who)
		}
	case *kmsg.FetchRequest:
		answer, err := forward(p.frame, server)
		if err == nil {
			answer = c.unmarked(req, p.frame, answer)
		}
		return answer, err
	}
	return forward(p.frame, server)
}

// state is what kfake holds of an id; found false when it does not know it or does not tell.
func (c *coordinator) state(name string) (st kadm.DescribedTransaction, found bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	all, err := c.adm.DescribeTransactions(ctx, name)
	if err != nil {
		return st, false
	}
	st, found = all[name]
	return st, found && st.Err == nil
}

func (c *coordinator) end(req *kmsg.EndTxnRequest, frame []byte, server net.Conn, who string) ([]byte, error) {
	id := c.id(req.TransactionalID)
	id.turn <- struct{}{}
	defer func() { <-id.turn }()
	st, found := c.state(req.TransactionalID)
	if !found {
		return forward(frame, server)
	}
	refuse := func(e *kerr.Error, why string) ([]byte, error) {
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = e.Code
		c.tr.add(who, "COORDINATOR %s: %s", e.Message, why)
		return encodeAnswer(frame, resp), nil
	}
	current := req.ProducerEpoch == st.ProducerEpoch
	ongoing := st.State == "Ongoing"
	switch {
	case req.ProducerID != st.ProducerID:
		return refuse(kerr.InvalidProducerIDMapping, "another producer id")
	case time.Now().Before(id.until) && (req.Version >= 5 || current):
		return refuse(kerr.ConcurrentTransactions, "markers are being written")
	case !ongoing && req.ProducerEpoch < id.given:
		return refuse(kerr.ProducerFenced, "the id was initialised since")
	case !ongoing && current && req.Commit && (req.Version >= 5 || id.initial):
		return refuse(kerr.InvalidTxnState, "commit at the current epoch, nothing is open")
	}
	stable := c.ledgerStable()
	answer, err := forward(frame, server)
	if err != nil {
		return nil, err
	}
	if resp, ok := decodeAnswer(frame, req, answer).(*kmsg.EndTxnResponse); ok && resp.ErrorCode == 0 {
		if resp.ProducerEpoch >= 0 && resp.ProducerID == st.ProducerID {
			id.floor = resp.ProducerEpoch
		}
		id.opened = time.Time{}
		if ongoing {
			id.initial = false
			id.until = c.markers(stable)
			if req.Commit {
				c.watch.committed(who, keyOf(req))
			}
		}
	}
	return answer, nil
}

func (c *coordinator) init(req *kmsg.InitProducerIDRequest, frame []byte, server net.Conn, who string) ([]byte, error) {
	id := c.id(*req.TransactionalID)
	id.turn <- struct{}{}
	defer func() { <-id.turn }()
	answer := func(code int16, pid int64, epoch int16, why string) ([]byte, error) {
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, pid, epoch
		c.tr.add(who, "COORDINATOR InitProducerID %s: %s", *req.TransactionalID, why)
		return encodeAnswer(frame, resp), nil
	}
	st, found := c.state(*req.TransactionalID)
	if errors.Is(st.Err, kerr.TransactionalIDNotFound) {
		c.excused.Store(c.excused.Load() || id.given > 0) // whoever had it hears what it would hear of a rival
		*id = txnID{turn: id.turn, used: max(id.used, id.given, id.floor)}
	}
	ongoing := found && st.State == "Ongoing"
	blind := req.ProducerID < 0
	switch {
	case time.Now().Before(id.until):
		return answer(kerr.ConcurrentTransactions.Code, -1, -1, "markers are being written")
	case !blind && found && (req.ProducerID != st.ProducerID || req.ProducerEpoch < id.owner || req.ProducerEpoch < st.ProducerEpoch-1):
		return answer(kerr.ProducerFenced.Code, -1, -1, "a rival has initialised the id")
	case !blind && found && req.ProducerEpoch == st.ProducerEpoch-1 && !ongoing:
		// Our own request again, or our own EndTxn has bumped it; or the timeout has, which only TV2 forgives.
		if !c.tv2 && st.ProducerEpoch != id.given {
			if !id.opened.IsZero() && time.Since(id.opened) >= c.timeout {
				c.excused.Store(true)
			}
			return answer(kerr.ProducerFenced.Code, -1, -1, "the transaction timed out")
		}
		id.initial, id.given = true, st.ProducerEpoch
		return answer(0, st.ProducerID, st.ProducerEpoch, "repeated")
	}
	stable := c.ledgerStable()
	req.TransactionTimeoutMillis = int32(c.timeout.Milliseconds())
	out, err := forward(encodeRequest(frame, req), server)
	if err != nil {
		return nil, err
	}
	resp, ok := decodeAnswer(frame, req, out).(*kmsg.InitProducerIDResponse)
	if !ok || resp.ErrorCode != 0 {
		return out, nil
	}
	for again := *req; resp.ProducerEpoch <= id.used; {
		// kfake gives an expired id its old producer id again, from epoch 0; a real coordinator takes a new one. At least no (producer id, epoch)
		// must come twice.
		again.ProducerID, again.ProducerEpoch = resp.ProducerID, resp.ProducerEpoch
		if out, err = forward(encodeRequest(frame, &again), server); err != nil {
			return nil, err
		}
		if resp, ok = decodeAnswer(frame, req, out).(*kmsg.InitProducerIDResponse); !ok || resp.ErrorCode != 0 {
			return out, nil
		}
	}
	reopened := !c.tv2 && id.opened.IsZero() // by an AddPartitionsToTxn of its own that was held up until after the commit
	id.floor, id.opened = resp.ProducerEpoch, time.Time{}
	if ongoing {
		c.excused.Store(c.excused.Load() || reopened && !blind)
		// kfake has aborted it and bumped once. A real coordinator answers so and bumps again when it is asked again.
		id.until, id.initial = c.markers(stable), false
		return answer(kerr.ConcurrentTransactions.Code, -1, -1, "aborting what was open")
	}
	id.initial, id.given = true, resp.ProducerEpoch
	if blind {
		id.owner = resp.ProducerEpoch
	}
	return out, nil
}
