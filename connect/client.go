package connect

import (
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The limits of every client, stated because waits must be bounded. kgo's own repetition is short: whoever sends a request has
// its own, which knows what an unanswered request may have done.
const (
	dialTimeout      = 10 * time.Second // TCP and TLS together
	handshakeTimeout = 5 * time.Second  // TLS alone; a plain port may just wait for more bytes
	requestOverhead  = 10 * time.Second // beyond what the request itself asks the broker to wait
	retryTimeout     = 10 * time.Second
	requestRetries   = 3
	connIdleTimeout  = 3 * time.Minute
	metadataMinAge   = 250 * time.Millisecond // how soon a moved leader can be asked for again
	metadataMaxAge   = time.Minute
	maxReadBytes     = 256 << 20 // above any fetch answer: 50 MiB by default, and a first batch of up to message.max.bytes
	maxWriteBytes    = 100 << 20 // the brokers' own limit, socket.request.max.bytes
	maxRetryBackoff  = 2 * time.Second
	baseRetryBackoff = 100 * time.Millisecond
)

// Client makes a client that connects when it is first used. It reads the TLS files once, so that a wrong path is
// reported here. extra comes last and wins. The caller closes the client.
func Client(o Options, log hclog.Logger, extra ...kgo.Opt) (*kgo.Client, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = hclog.NewNullLogger()
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID(o.ClientID),
		kgo.WithLogger(&clientLog{log: log, sasl: o.SASL}),
		kgo.RequestTimeoutOverhead(requestOverhead),
		kgo.RetryTimeout(retryTimeout),
		kgo.RequestRetries(requestRetries),
		kgo.RetryBackoffFn(backoff),
		kgo.ConnIdleTimeout(connIdleTimeout),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MetadataMaxAge(metadataMaxAge),
		kgo.BrokerMaxReadBytes(maxReadBytes),
		kgo.BrokerMaxWriteBytes(maxWriteBytes),
		kgo.MaxVersions(nil), // the newest that both sides know
		kgo.DisableClientMetrics(),
	}
	d, err := newDialer(o.TLS, log)
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.Dialer(d.dial))
	if secret := o.Exposed(); secret != "" {
		log.Warn("sasl: "+secret+" goes over the network in plain text: add tls {} and use the TLS port", "mechanism", o.SASL.Mechanism)
	}
	if o.SASL != nil {
		opts = append(opts, kgo.SASL(mechanism(*o.SASL, log)))
	}
	cl, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return cl, nil
}

// backoff doubles from baseRetryBackoff; tries counts from 1.
func backoff(tries int) time.Duration {
	return min(maxRetryBackoff, baseRetryBackoff<<min(tries-1, 10))
}
