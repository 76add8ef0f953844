package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// checkTimeout bounds Check.
const checkTimeout = 12 * time.Second

// Check asks the brokers for metadata until one answers, within 12 seconds. An error is one line that names the
// brokers and the likely cause, and never a secret.
func Check(ctx context.Context, cl *kgo.Client, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		return Explain(err, o)
	}
	return nil
}

// Explain puts the likely cause before an error of a request. The error stays wrapped; its text is scrubbed.
func Explain(err error, o Options) error {
	if err == nil {
		return nil
	}
	return &Diagnosis{Cause: cause(err, o), Brokers: o.Brokers, Err: err, sasl: o.SASL}
}

// Diagnosis is a connection failure with its likely cause.
type Diagnosis struct {
	Cause   string // one sentence for the operator
	Brokers []string
	Err     error
	sasl    *SASL
}

// Error is one line.
func (d *Diagnosis) Error() string {
	text := fmt.Sprintf("brokers %s: %s (%v)", strings.Join(d.Brokers, ","), d.Cause, d.Err)
	return strings.ReplaceAll(d.sasl.scrub(text), "\n", " ")
}

// Unwrap is the failure itself.
func (d *Diagnosis) Unwrap() error { return d.Err }

// cause asks in the order of a connection's life: name, TCP, TLS, the first bytes, SASL.
func cause(err error, o Options) string {
	if c := dialCause(err); c != "" {
		return c
	}
	if c := tlsCause(err); c != "" {
		return c
	}
	if c := saslCause(err, o.SASL); c != "" {
		return c
	}
	if c := closedCause(err, o); c != "" {
		return c
	}
	var slow *handshakeTimeoutError
	if errors.As(err, &slow) {
		return slow.addr + " does not answer the TLS handshake, most likely a plain port: remove tls, or use the TLS port"
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
		return "no answer in time: unreachable, or a firewall swallows the packets"
	}
	return "the connection failed"
}

func dialCause(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return fmt.Sprintf("host name %q cannot be resolved", dns.Name)
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return ""
	}
	addr := "the broker"
	if op.Addr != nil {
		addr = op.Addr.String()
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return addr + " refuses connections: the broker is down, or the port is wrong"
	case op.Timeout():
		return addr + " does not answer: unreachable, or a firewall swallows the packets"
	}
	return addr + " is unreachable"
}

func tlsCause(err error) string {
	var ca x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &ca):
		return "the broker's certificate is signed by an unknown CA: set tls ca_file"
	case errors.As(err, &host):
		return "the broker's certificate is for another host name: connect by a name in it, or set tls server_name"
	case errors.As(err, &invalid):
		return "the broker's certificate is not valid"
	case errors.As(err, &header):
		return "the broker's port does not speak TLS: remove tls, or use the TLS port"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls:"):
		return "the broker refuses the TLS connection: it wants a client certificate, or another one (tls cert_file, key_file)"
	case strings.Contains(err.Error(), "tls alert record"): // kgo's finding in the first bytes
		return "the broker's port speaks TLS and the client does not: add tls {}, or use the plain port"
	case strings.Contains(err.Error(), "beginning of an HTTP response"):
		return "this is an HTTP port, not a Kafka broker"
	}
	return ""
}

func saslCause(err error, s *SASL) string {
	var token *tokenError
	var keys *credentialsError
	switch {
	case errors.As(err, &keys):
		return "no AWS credentials could be got for SASL AWS_MSK_IAM: give the process a role (web identity, container or instance), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
	case errors.As(err, &token) && s != nil && s.TokenFile != nil:
		return "there is no usable token for SASL OAUTHBEARER: see to it that token_file is renewed (it is read again for each new connection)"
	case errors.As(err, &token):
		return "no token could be got for SASL OAUTHBEARER: check token_url, client_id, client_secret"
	case errors.Is(err, kerr.SaslAuthenticationFailed) && s != nil && s.TokenFile != nil:
		return "authentication failed: the broker refuses the token of " + s.TokenFile.text() + ": check its audience and issuer" + s.renewed()
	case errors.Is(err, kerr.SaslAuthenticationFailed) && s != nil && s.Mechanism == OAuthBearer:
		return "authentication failed: the broker refuses the token"
	case errors.Is(err, kerr.SaslAuthenticationFailed) && s != nil:
		return "authentication failed: check " + s.who() + s.renewed()
	case errors.Is(err, kerr.UnsupportedSaslMechanism) && s != nil:
		return fmt.Sprintf("the broker does not offer SASL mechanism %s on this port", s.Mechanism)
	case strings.Contains(err.Error(), "cannot determine the region"): // franz-go's word for it
		return "the AWS region is not in the broker's address: set AWS_REGION"
	case errors.Is(err, kerr.IllegalSaslState):
		return "the broker does not expect SASL on this port, or expects it first: check sasl"
	}
	return ""
}

// closedCause is for a connection that the broker closed without a word, which is how Kafka answers what it does not understand.
func closedCause(err error, o Options) string {
	var first *kgo.ErrFirstReadEOF
	closed := errors.As(err, &first) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case !closed:
		return ""
	case strings.Contains(err.Error(), "TLS handshake"), strings.Contains(err.Error(), "client is using TLS when the broker is not"): // kgo's word for it
		return "the broker closed the connection in the TLS handshake, most likely a plain port: remove tls, or use the TLS port"
	case o.TLS == nil && strings.Contains(err.Error(), "api versions negotiation"): // every plain port answers that one, also before SASL
		return "the broker closed the connection at its first bytes, most likely the port speaks TLS: add tls {}, or use the plain port"
	case o.SASL == nil && o.TLS == nil:
		return "the broker closed the connection at once, most likely it wants SASL (add sasl) or TLS (add tls {})"
	case o.SASL == nil:
		return "the broker closed the connection at once, most likely it wants SASL: add sasl"
	}
	return fmt.Sprintf("the broker closed the connection, most likely failed authentication: check %s", o.SASL.who()+o.SASL.renewed())
}

// renewed tells where a secret is looked for again.
func (s *SASL) renewed() string {
	if !s.Renewable() || s.AWS != nil {
		return ""
	}
	return "; its file is read again for each new connection"
}

// who names what is checked in an authentication, without its secret.
func (s *SASL) who() string {
	if s.Mechanism == AWSMSKIAM {
		return "the IAM policy of the process's role: it must allow kafka-cluster:Connect on this cluster"
	}
	if s.TokenFile != nil {
		return fmt.Sprintf("token_file %s (SASL %s)", s.TokenFile.text(), s.Mechanism)
	}
	if s.Mechanism == OAuthBearer {
		return fmt.Sprintf("client_id %q and client_secret (SASL %s)", s.ClientID, s.Mechanism)
	}
	return fmt.Sprintf("username %q and password (SASL %s)", s.Username, s.Mechanism)
}
