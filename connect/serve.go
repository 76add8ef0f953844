package connect

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// ServerTLS is TLS of the daemon's own HTTP surface. The files are read again for every new connection, so a renewed
// certificate needs no restart.
type ServerTLS struct {
	CertFile, KeyFile string // both are needed
	ClientCAFile      string // whose client certificates count; empty: none is asked for
}

// ErrOtherCertificate says that who answers does not have the certificate of ServerTLS.CertFile.
var ErrOtherCertificate = errors.New("tls: who answers has another certificate than cert_file")

// ServerConfig is for the side that listens. It reads the files once, so that a wrong path is reported here.
//
// With ClientCAFile a client may come without a certificate, since the probes of an orchestrator have none: whoever serves
// decides by the connection's PeerCertificates, which are verified when there are any, what such a client may see.
func (t *ServerTLS) ServerConfig(log hclog.Logger) (*tls.Config, error) {
	files := &renewed{read: t.load, whose: "server", log: log}
	if _, err := files.config(); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.config() }}, nil
}

func (t *ServerTLS) load() (*tls.Config, error) {
	own, err := keyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, err
	}
	// Without tickets: a session that is resumed would be one that the present client_ca_file has not seen.
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, SessionTicketsDisabled: true}
	if t.ClientCAFile == "" {
		return cfg, nil
	}
	if cfg.ClientCAs, err = pool("client_ca_file", t.ClientCAFile); err != nil {
		return nil, err
	}
	cfg.ClientAuth = tls.RequestClientCert
	cfg.VerifyConnection = func(s tls.ConnectionState) error { return admit(s.PeerCertificates, cfg.ClientCAs, own.Leaf) }
	return cfg, nil
}

// admit refuses a client certificate that counts for nothing. The server's own counts: who has its key can be nobody else
// than who runs the daemon, and so bridge status gets in with what its configuration has.
func admit(sent []*x509.Certificate, roots *x509.CertPool, own *x509.Certificate) error {
	if len(sent) == 0 || bytes.Equal(sent[0].Raw, own.Raw) {
		return nil
	}
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	_, err := sent[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("tls: the client's certificate: %w", err)
	}
	return nil
}

// ClientConfig is for who asks the daemon on this machine with the daemon's own files. It trusts exactly the certificate in
// CertFile: names, authorities and ends of certificates are for those who come from elsewhere.
func (t *ServerTLS) ClientConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	var own []byte
	if t.ClientCAFile != "" {
		pair, err := keyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, err
		}
		own = pair.Leaf.Raw
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	} else {
		var err error
		if own, err = leaf(t.CertFile); err != nil { // the key may be for the daemon's eyes only
			return nil, err
		}
	}
	cfg.InsecureSkipVerify = true // what follows is stricter
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, own) {
			return ErrOtherCertificate
		}
		return nil
	}
	return cfg, nil
}

// leaf is the first certificate of a file.
func leaf(path string) ([]byte, error) {
	rest, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tls: cert_file: %w", err)
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("tls: cert_file %s holds no PEM certificate", path)
		}
		if block.Type == "CERTIFICATE" {
			return block.Bytes, nil
		}
	}
}

// Secret is a token for an HTTP header that is fixed, or that of a file which may be replaced while the process runs. It never prints
// it. Safe for concurrent use.
type Secret struct {
	text string
	file *SecretFile
}

// NewSecret takes the text, and the file that it came from, if it came from one; the file is the Secret's from then on.
func NewSecret(text string, file *SecretFile) *Secret {
	if file != nil {
		file.fits = InHeader
	}
	return &Secret{text, file}
}

// InHeader is an error when no HTTP header can carry the token, which would lock everybody out. It does not show the token.
func InHeader(token string) error {
	if strings.ContainsFunc(token, invisible) {
		return errors.New("a token may hold letters, digits and signs of ASCII only, without spaces and line breaks: it is sent in an HTTP header")
	}
	return nil
}

// invisible is whatever is not visible ASCII.
func invisible(r rune) bool { return r <= ' ' || r > '~' }

// Text is the secret now: a file is read again. What is wrong with the file goes to log, and what was read before is returned.
func (s *Secret) Text(log hclog.Logger) string {
	if s.file != nil {
		return s.file.read(log)
	}
	return s.text
}

// Format never shows the secret, whatever the verb.
func (s *Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }
