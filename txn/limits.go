package txn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/semantics"
)

// limits is what the brokers can do and allow.
type limits struct {
	cl   *kgo.Client
	adm  *kadm.Client
	opts Options
	log  hclog.Logger

	mu         sync.Mutex
	maxTimeout time.Duration // transaction.max.timeout.ms; 0 when it could not be read
}

// capabilities is the least that all reachable brokers can do.
type capabilities struct {
	endTxn        int16 // highest request versions
	addPartitions int16
	initProducer  int16
	txnVersion    int16 // finalized transaction.version; 0 where the feature is unknown
}

const (
	keyInitProducerID     int16 = 22
	keyAddPartitionsToTxn int16 = 24
	keyEndTxn             int16 = 26
)

// check refuses what cannot work, with the way out.
func (l *limits) check(ctx context.Context) error {
	const op = "check the sink's brokers"
	caps, err := l.capabilities(ctx, op)
	if err != nil {
		return err
	}
	// AddPartitionsToTxn version 4 came with Kafka 3.6 (KIP-890, part 1), and with it the verification that a produce
	// request belongs to an open transaction.
	if caps.addPartitions < 4 {
		return semantics.Misconfigured(op, "semantic EXACTLY_ONCE needs Kafka 3.6 or newer in the sink cluster (AddPartitionsToTxn is offered up to version %d, 3.6 has 4): "+
			"older brokers do not verify that a late produce request belongs to an open transaction, so an aborted one could be opened again", caps.addPartitions)
	}
	l.readMaxTimeout(ctx)
	if limit := l.max(); limit > 0 && l.opts.TransactionTimeout > limit {
		return l.timeoutRefused(op)
	}
	l.log.Debug("sink brokers", "transaction_version", caps.txnVersion, "end_txn", caps.endTxn, "max_transaction_timeout", l.max().String())
	return nil
}

// endTxnVersion is 5 where transaction.version 2 is finalized, else 4. It is asked anew at each fence, because an
// operator can raise the feature while the bridge runs.
func (l *limits) endTxnVersion(ctx context.Context) (int16, error) {
	caps, err := l.capabilities(ctx, "choose the EndTxn version")
	switch {
	case err != nil:
		return 0, err
	case caps.txnVersion >= 2 && caps.endTxn >= 5:
		return 5, nil
	default:
		return min(4, caps.endTxn), nil
	}
}

// capabilities asks every broker and keeps the least; it needs an answer of one at least. A broker that is down now has
// no say: the others of its cluster are as new, or will be.
func (l *limits) capabilities(ctx context.Context, op string) (capabilities, error) {
	var caps capabilities
	err := repeat(ctx, l.log, op, func(ctx context.Context) error {
		brokers, err := l.adm.ListBrokers(ctx)
		if errors.Is(err, kerr.SaslAuthenticationFailed) && !l.opts.RenewedCredentials || errors.Is(err, kerr.UnsupportedSaslMechanism) {
			return semantics.Misconfigured(op, "the sink's brokers refuse the credentials of the sasl block: %w", err)
		}
		if err != nil {
			return again(err)
		}
		answers := make([]*kmsg.ApiVersionsResponse, len(brokers))
		errs := make([]error, len(brokers))
		var all sync.WaitGroup
		for i, b := range brokers {
			all.Go(func() { answers[i], errs[i] = l.ask(ctx, b.NodeID) }) // a frozen one must not hold the others up
		}
		all.Wait()
		answered := false
		for _, resp := range answers {
			switch {
			case resp == nil:
			case !answered:
				caps, answered = parseCapabilities(resp), true
			default:
				caps = caps.least(parseCapabilities(resp))
			}
		}
		if !answered {
			return again(fmt.Errorf("none of %d brokers answers: %w", len(brokers), errors.Join(errs...)))
		}
		return nil
	})
	return caps, err
}

func (l *limits) ask(ctx context.Context, node int32) (*kmsg.ApiVersionsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit/3)
	defer cancel()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "kafkabridge", "1"
	kresp, err := l.cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("api versions of broker %d: %w", node, err)
	}
	resp, ok := kresp.(*kmsg.ApiVersionsResponse)
	if !ok {
		return nil, fmt.Errorf("api versions of broker %d: answered with %T", node, kresp)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("api versions of broker %d: %w", node, err)
	}
	return resp, nil
}

func parseCapabilities(resp *kmsg.ApiVersionsResponse) capabilities {
	caps := capabilities{endTxn: -1, addPartitions: -1, initProducer: -1}
	for _, k := range resp.ApiKeys {
		switch k.ApiKey {
		case keyEndTxn:
			caps.endTxn = k.MaxVersion
		case keyAddPartitionsToTxn:
			caps.addPartitions = k.MaxVersion
		case keyInitProducerID:
			caps.initProducer = k.MaxVersion
		}
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			caps.txnVersion = f.MaxVersionLevel
		}
	}
	return caps
}

func (c capabilities) least(o capabilities) capabilities {
	return capabilities{
		endTxn: min(c.endTxn, o.endTxn), addPartitions: min(c.addPartitions, o.addPartitions),
		initProducer: min(c.initProducer, o.initProducer), txnVersion: min(c.txnVersion, o.txnVersion),
	}
}

// readMaxTimeout reads transaction.max.timeout.ms of a broker. Where that is not allowed the first InitProducerID says
// it (INVALID_TRANSACTION_TIMEOUT).
func (l *limits) readMaxTimeout(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	brokers, err := l.adm.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		l.log.Debug("read transaction.max.timeout.ms: no brokers", "error", err)
		return
	}
	configs, err := l.adm.DescribeBrokerConfigs(ctx, brokers[0].NodeID)
	if err != nil {
		l.log.Debug("read transaction.max.timeout.ms", "error", err)
		return
	}
	for _, rc := range configs {
		for _, c := range rc.Configs {
			if c.Key != "transaction.max.timeout.ms" || c.Value == nil {
				continue
			}
			if ms, err := strconv.ParseInt(*c.Value, 10, 32); err == nil && ms > 0 {
				l.mu.Lock()
				l.maxTimeout = time.Duration(ms) * time.Millisecond
				l.mu.Unlock()
			}
		}
	}
}

func (l *limits) max() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.maxTimeout
}

func (l *limits) timeoutRefused(op string) error {
	limit := "lower (its DescribeConfigs is not allowed to us)"
	if m := l.max(); m > 0 {
		limit = m.String()
	}
	return semantics.Misconfigured(op, "transaction_timeout = %s is above what the sink's brokers allow: transaction.max.timeout.ms is %s; lower transaction_timeout or raise the broker's setting",
		l.opts.TransactionTimeout, limit)
}
