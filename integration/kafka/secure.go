package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Secure are two listeners beside the plain one, and Kafka's own authorizer. Whoever comes over the plain listener or TLS
// without SASL is ANONYMOUS and may do everything, so that the harness, the traffic and the oracle need no rights; users of
// the SASL listener may do what ACLs allow them. SCRAM users are made with kadm's AlterUserSCRAMs.
type Secure struct {
	// SASL and TLS are the listeners' addresses. TLS does not ask for a client's certificate.
	SASL, TLS string
	// CAFile holds the certificate that signed the TLS listener's, which is for "localhost" and 127.0.0.1.
	CAFile string

	users  map[string]string
	keys   string // PEM of the TLS listener
	reauth time.Duration
}

// NewSecure chooses ports and writes the files to dir. users are those of SASL/PLAIN with their passwords, which must
// hold no quotation mark. After reauth a SASL connection must authenticate again; 0: never.
func NewSecure(dir string, users map[string]string, reauth time.Duration) (*Secure, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	ca, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	cert, key, err := ca.Issue("localhost", 24*time.Hour)
	if err != nil {
		return nil, err
	}
	s := &Secure{
		SASL: fmt.Sprintf("127.0.0.1:%d", ports[0]), TLS: fmt.Sprintf("127.0.0.1:%d", ports[1]),
		CAFile: filepath.Join(dir, "ca.pem"), keys: filepath.Join(dir, "broker.pem"), users: users, reauth: reauth,
	}
	err = errors.Join(os.WriteFile(s.CAFile, ca.PEM, 0o600), os.WriteFile(s.keys, append(key, cert...), 0o600))
	if err != nil {
		return nil, fmt.Errorf("kafka: secure listeners: %w", err)
	}
	return s, nil
}

// addTo completes a node's properties.
func (s *Secure) addTo(p map[string]string) {
	if s == nil {
		return
	}
	more := fmt.Sprintf(",SASL://%s,TLS://%s", s.SASL, s.TLS)
	p["listeners"] += more
	p["advertised.listeners"] += more
	p["listener.security.protocol.map"] += ",SASL:SASL_PLAINTEXT,TLS:SSL"
	p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
	p["super.users"] = "User:ANONYMOUS"
	var users strings.Builder
	for name, password := range s.users {
		fmt.Fprintf(&users, " user_%s=\"%s\"", name, password)
	}
	const sasl = "listener.name.sasl."
	p[sasl+"sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-512"
	p[sasl+"plain.sasl.jaas.config"] = "org.apache.kafka.common.security.plain.PlainLoginModule required" + users.String() + ";"
	p[sasl+"scram-sha-512.sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	if s.reauth > 0 {
		p[sasl+"connections.max.reauth.ms"] = fmt.Sprint(s.reauth.Milliseconds())
	}
	const tls = "listener.name.tls.ssl."
	p[tls+"keystore.type"], p[tls+"keystore.location"] = "PEM", s.keys
	p[tls+"client.auth"] = "none"
}

// Authority signs certificates for tests.
type Authority struct {
	// PEM is its own certificate.
	PEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority with a key of its own.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("kafka: certificates: %w", err)
	}
	template := certificate("test CA", 24*time.Hour)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("kafka: certificates: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("kafka: certificates: %w", err)
	}
	return &Authority{PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert: cert, key: key}, nil
}

// Issue returns a certificate for a name (and for 127.0.0.1, when that is localhost) and its key, both PEM, which is valid
// from a minute ago on, for so long from now.
func (a *Authority) Issue(name string, valid time.Duration) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("kafka: certificates: %w", err)
	}
	template := certificate(name, valid)
	template.DNSNames = []string{name}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if name == "localhost" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("kafka: certificates: %w", err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, fmt.Errorf("kafka: certificates: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

func certificate(name string, valid time.Duration) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(valid)}
}
