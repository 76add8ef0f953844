package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// When the end of a certificate is warned about: so long before, and no more often than expiryAgain, since whoever connects
// decides how often it is looked at.
const (
	expiryWarning = 24 * time.Hour
	expiryAgain   = time.Hour
)

// renewed is a TLS configuration whose files are read again for every connection. Comparing modification times was rejected:
// they do not change when a symlink is swapped to a file that is as old. Safe for concurrent use.
type renewed struct {
	read  func() (*tls.Config, error)
	whose string // certificate it is, for the log
	log   hclog.Logger

	mu      sync.Mutex
	last    *tls.Config // from the files when they could last be read
	trouble string      // what was warned about; empty: all is well
	warned  time.Time   // of the certificate's end
}

// config reads the files. A pair that cannot be used is most likely being replaced at this moment; the last good one serves
// until it can. It fails only when there never was one.
func (r *renewed) config() (*tls.Config, error) {
	cfg, err := r.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if r.last == nil {
			return nil, err
		}
		if r.trouble != err.Error() { // once, not at every connection
			r.trouble = err.Error()
			r.log.Warn("tls: the files cannot be used; going on with what was read before", "error", err)
		}
		return r.last, nil
	}
	r.trouble = ""
	r.ends(cfg)
	r.last = cfg
	return cfg, nil
}

// ends warns about a certificate that ends. The caller holds mu.
func (r *renewed) ends(cfg *tls.Config) {
	if len(cfg.Certificates) == 0 || !r.warned.IsZero() && time.Since(r.warned) < expiryAgain {
		return
	}
	leaf := cfg.Certificates[0].Leaf
	// A third of its life: certificates that live for an hour, and are renewed, would always be warned about.
	if time.Until(leaf.NotAfter) < min(expiryWarning, leaf.NotAfter.Sub(leaf.NotBefore)/3) {
		r.warned = time.Now()
		r.log.Warn("tls: the "+r.whose+" certificate ends soon or has ended", "subject", leaf.Subject.String(), "not_after", leaf.NotAfter)
	}
}

// pool reads the certificates that the attribute of that name trusts.
func pool(name, path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tls: %s: %w", name, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: %s %s holds no PEM certificate", name, path)
	}
	return roots, nil
}

// keyPair reads cert_file and key_file.
func keyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil {
		return cert, nil
	}
	var path *os.PathError
	if errors.As(err, &path) {
		return cert, fmt.Errorf("tls: cert_file, key_file: %w", err)
	}
	return cert, fmt.Errorf("tls: cert_file %s and key_file %s: %w (an encrypted key is not supported)", certFile, keyFile, err)
}
