package connect

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/hashicorp/go-hclog"
)

// dialer opens connections. Safe for concurrent use.
type dialer struct {
	files *renewed // nil: plain text
	net   net.Dialer
}

func newDialer(t *TLS, log hclog.Logger) (*dialer, error) {
	d := &dialer{net: net.Dialer{Timeout: dialTimeout}}
	if t == nil {
		return d, nil
	}
	d.files = &renewed{read: func() (*tls.Config, error) { return load(t) }, whose: "client", log: log}
	if _, err := d.files.config(); err != nil {
		return nil, err
	}
	if t.InsecureSkipVerify {
		log.Warn("tls: insecure_skip_verify is on: anyone may pose as the broker")
	}
	return d, nil
}

// dial has the signature of kgo.Dialer. Its errors name the address.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := d.net.DialContext(ctx, network, addr)
	if err != nil || d.files == nil {
		return conn, err // a *net.OpError, which kgo looks at and which names the address
	}
	cfg, err := d.files.config()
	if err != nil {
		_ = conn.Close() // nothing was sent
		return nil, err
	}
	if cfg = cfg.Clone(); cfg.ServerName == "" {
		if cfg.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			_ = conn.Close() // nothing was sent
			return nil, fmt.Errorf("broker address %q: %w", addr, err)
		}
	}
	secure := tls.Client(conn, cfg)
	shake, cancelShake := context.WithTimeout(ctx, handshakeTimeout)
	defer cancelShake()
	if err := secure.HandshakeContext(shake); err != nil {
		_ = conn.Close() // nothing was sent
		if shake.Err() != nil && ctx.Err() == nil {
			return nil, &handshakeTimeoutError{addr}
		}
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return secure, nil
}

// handshakeTimeoutError is a peer that accepts the connection and says nothing. It is not a timeout in net.Error's sense:
// kgo would dial again and again within one request, and the cause would never be told.
type handshakeTimeoutError struct{ addr string }

func (e *handshakeTimeoutError) Error() string {
	return fmt.Sprintf("TLS handshake with %s: no answer within %s", e.addr, handshakeTimeout)
}

func load(t *TLS) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CAFile != "" {
		roots, err := pool("ca_file", t.CAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = roots
	}
	if t.CertFile == "" {
		return cfg, nil
	}
	cert, err := keyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, err
	}
	cfg.Certificates = []tls.Certificate{cert}
	return cfg, nil
}
