package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// expiryWarning is how long before its end a client certificate is warned about.
const expiryWarning = 24 * time.Hour

// dialer opens connections. Safe for concurrent use.
type dialer struct {
	tls *TLS // nil: plain text
	net net.Dialer
	log hclog.Logger

	mu   sync.Mutex
	last *tls.Config // from the files when they could last be read
}

func newDialer(t *TLS, log hclog.Logger) (*dialer, error) {
	d := &dialer{tls: t, net: net.Dialer{Timeout: dialTimeout}, log: log}
	if t == nil {
		return d, nil
	}
	if _, err := d.config(); err != nil {
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
	if err != nil || d.tls == nil {
		return conn, err // a *net.OpError, which kgo looks at and which names the address
	}
	cfg, err := d.config()
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

// config reads the files. Connections are rare, so they are simply read each time: comparing modification times was rejected,
// they do not change when a symlink is swapped to a file that is as old. A pair that cannot be used is most likely being
// replaced at this moment; the last good one serves until it can.
func (d *dialer) config() (*tls.Config, error) {
	cfg, err := load(d.tls)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if d.last == nil {
			return nil, err
		}
		d.log.Warn("tls: the files cannot be used; going on with what was read before", "error", err)
		return d.last, nil
	}
	if len(cfg.Certificates) > 0 {
		leaf := cfg.Certificates[0].Leaf
		// A third of its life: certificates that live for an hour, and are renewed, would warn at every connection.
		if left := time.Until(leaf.NotAfter); left < min(expiryWarning, leaf.NotAfter.Sub(leaf.NotBefore)/3) {
			d.log.Warn("tls: the client certificate ends soon or has ended", "cert_file", d.tls.CertFile, "not_after", leaf.NotAfter)
		}
	}
	d.last = cfg
	return cfg, nil
}

func load(t *TLS) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls: ca_file: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls: ca_file %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile == "" {
		return cfg, nil
	}
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			return nil, fmt.Errorf("tls: cert_file, key_file: %w", err)
		}
		return nil, fmt.Errorf("tls: cert_file %s and key_file %s: %w (an encrypted key is not supported)", t.CertFile, t.KeyFile, err)
	}
	cfg.Certificates = []tls.Certificate{cert}
	return cfg, nil
}
