package txn

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/semantics"
)

// Sink is the sink cluster as one bridge uses it. Its parts share one client and the knowledge about leaders and
// coordinators; each is safe for the concurrency that its own methods state.
type Sink struct {
	Producer    *Producer
	Coordinator *Coordinator
	Ledger      *Ledger
	Topics      *Topics

	opts   Options
	limits *limits
}

// New makes the parts; it sends nothing. cl is used for raw requests and kadm only and stays the caller's: it needs no
// special options, because acks and request versions are pinned per request here. Zero options get their defaults;
// wrong ones are one Misconfigured error.
func New(opts Options, cl *kgo.Client, log hclog.Logger) (*Sink, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, semantics.Misconfigured("sink options", "%w", err)
	}
	if log == nil {
		log = hclog.NewNullLogger()
	}
	adm := kadm.NewClient(cl)
	lim := &limits{cl: cl, adm: adm, opts: opts, log: log}
	leaders := newLeaders(cl, log)
	topics := newTopics(cl, adm, opts, log)
	coordinator := newCoordinator(opts, cl, adm, lim, log)
	producer := newProducer(opts, cl, leaders, coordinator, topics, log)
	ledger := newLedger(opts, cl, adm, leaders, producer, log)
	return &Sink{
		Producer: producer, Coordinator: coordinator, Ledger: ledger, Topics: topics,
		opts: opts, limits: lim,
	}, nil
}

// Check reads the broker's limits: call it before anything else on a start. Under ExactlyOnce it refuses brokers
// before 3.6 and a transaction timeout above the broker's maximum (Fatal, exit 2). It repeats while no broker answers
// and ctx lives.
func (s *Sink) Check(ctx context.Context) error {
	if s.opts.Semantic != semantics.ExactlyOnce {
		return nil
	}
	return s.limits.check(ctx)
}

// Close abandons what is queued, waits for the requests in flight and stops all goroutines. The client stays open. An
// open transaction stays open: only EndTxn or its timeout ends it.
func (s *Sink) Close() error {
	if err := s.Producer.close(); err != nil {
		return fmt.Errorf("close the sink: %w", err)
	}
	return nil
}
