package connect

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate for the name (and 127.0.0.1 when it is localhost) in PEM.
func (a *authority) issue(t *testing.T, name string, serial int64) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if name == "localhost" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func (a *authority) server(t *testing.T, name string) *tls.Config {
	t.Helper()
	cert, key := a.issue(t, name, 2)
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, b []byte) string {
	t.Helper()
	must(t, os.WriteFile(path+".new", b, 0o600))
	must(t, os.Rename(path+".new", path))
	return path
}

func cluster(t *testing.T, opts ...kfake.Opt) []string {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	must(t, err)
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

// buffer is an io.Writer for logs of many goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// tryOut makes a client, checks it and returns the error with everything that was logged at trace.
func tryOut(t *testing.T, o Options) (string, error) {
	t.Helper()
	var log buffer
	cl, err := Client(o, hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log}), kgo.ConnIdleTimeout(time.Minute))
	must(t, err)
	defer cl.Close()
	err = Check(context.Background(), cl, o)
	return log.String(), err
}

func TestSASL(t *testing.T) {
	for _, mechanism := range []string{Plain, ScramSHA256, ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			brokers := cluster(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "jane", planted))
			log, err := tryOut(t, Options{Brokers: brokers, SASL: &SASL{Mechanism: mechanism, Username: "jane", Password: planted}})
			if err != nil || strings.Contains(log, planted) || !strings.Contains(log, "sasl") {
				t.Fatalf("%v\n%s", err, log)
			}
			log, err = tryOut(t, Options{Brokers: brokers, SASL: &SASL{Mechanism: mechanism, Username: "jane", Password: planted + "-wrong"}})
			if err == nil || strings.Contains(log+err.Error(), planted) {
				t.Fatalf("%v\n%s", err, log)
			}
			t.Log(err)
			if !strings.Contains(err.Error(), "authentication") || !strings.Contains(err.Error(), brokers[0]) {
				t.Fatal(err)
			}
		})
	}
}

// hangsUp closes each connection when something comes that it does not understand.
func hangsUp(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = c.Read(make([]byte, 1<<16)) // all of it: what is left unread would make a reset of the end
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func TestUsualMistakes(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	caFile := write(t, filepath.Join(t.TempDir(), "ca.pem"), ca.pem)
	otherFile := write(t, filepath.Join(t.TempDir(), "other.pem"), other.pem)
	user := &SASL{Mechanism: Plain, Username: "jane", Password: planted}
	plain := cluster(t)
	sasl := cluster(t, kfake.EnableSASL(), kfake.Superuser(Plain, "jane", planted))
	secure := cluster(t, kfake.TLS(ca.server(t, "localhost")))
	elsewhere := cluster(t, kfake.TLS(ca.server(t, "kafka.example")))
	mutual := ca.server(t, "localhost")
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	mutual.ClientCAs.AddCert(ca.cert)
	mtls := cluster(t, kfake.TLS(mutual))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	for _, c := range []struct {
		name string
		o    Options
		want string // empty: it works
	}{
		{"plain", Options{Brokers: plain}, ""},
		{"tls", Options{Brokers: secure, TLS: &TLS{CAFile: caFile}}, ""},
		{"server name", Options{Brokers: elsewhere, TLS: &TLS{CAFile: caFile, ServerName: "kafka.example"}}, ""},
		{"no verification", Options{Brokers: elsewhere, TLS: &TLS{InsecureSkipVerify: true}}, ""},
		{"wrong mechanism", Options{Brokers: sasl, SASL: &SASL{Mechanism: OAuthBearer, TokenURL: "http://127.0.0.1:1/", ClientID: "x", ClientSecret: planted}}, "does not offer SASL mechanism OAUTHBEARER"},
		{"no sasl", Options{Brokers: sasl}, "wants SASL"},
		{"tls to a plain port", Options{Brokers: plain, TLS: &TLS{}}, "plain port"},
		{"tls to a plain port that hangs up", Options{Brokers: []string{hangsUp(t)}, TLS: &TLS{}}, "plain port"}, // as Kafka's do
		{"plain to a tls port", Options{Brokers: secure}, "port speaks TLS"},
		{"sasl without tls to a tls port", Options{Brokers: secure, SASL: user}, "port speaks TLS"},
		{"unknown CA", Options{Brokers: secure, TLS: &TLS{CAFile: otherFile}}, "unknown CA"},
		{"host name", Options{Brokers: elsewhere, TLS: &TLS{CAFile: caFile}}, "another host name"},
		{"no client certificate", Options{Brokers: mtls, TLS: &TLS{CAFile: caFile}}, "wants a client certificate"},
		{"nobody listens", Options{Brokers: []string{closed.Addr().String()}}, "refuses connections"},
		{"no such host", Options{Brokers: []string{"no-such-host.invalid:9092"}}, `"no-such-host.invalid" cannot be resolved`},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			log, err := tryOut(t, c.o)
			t.Logf("%v", err)
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), c.o.Brokers[0]) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v: want one line that names the broker", err)
			}
			if strings.Contains(log+fmt.Sprint(err), planted) {
				t.Errorf("secret in %v\n%s", err, log)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("took %s", d)
			}
		})
	}
}

// TestCertificateRotation replaces certificate, key and CA on disk between connections, by rename and by a swapped symlink.
func TestCertificateRotation(t *testing.T) {
	ca := newAuthority(t)
	serials := make(chan string, 16)
	conf := ca.server(t, "localhost")
	conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	conf.ClientCAs.AddCert(ca.cert)
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		serials <- s.PeerCertificates[0].SerialNumber.String()
		return nil
	}
	addr := cluster(t, kfake.TLS(conf))[0]
	dir := t.TempDir()
	o := TLS{CAFile: write(t, filepath.Join(dir, "ca.pem"), ca.pem), CertFile: filepath.Join(dir, "now", "tls.crt"), KeyFile: filepath.Join(dir, "now", "tls.key")}
	install := func(serial int64) {
		target := filepath.Join(dir, fmt.Sprint(serial))
		must(t, os.Mkdir(target, 0o700))
		cert, key := ca.issue(t, "client", serial)
		write(t, filepath.Join(target, "tls.crt"), cert)
		write(t, filepath.Join(target, "tls.key"), key)
		must(t, os.Symlink(target, filepath.Join(dir, "next")))
		must(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "now")))
	}
	install(11)
	d, err := newDialer(&o, hclog.NewNullLogger())
	must(t, err)
	expect := func(want string) {
		t.Helper()
		conn, err := d.dial(context.Background(), "tcp", addr)
		must(t, err)
		defer conn.Close()
		select {
		case got := <-serials:
			if got != want {
				t.Fatalf("the broker saw certificate %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the broker saw no certificate")
		}
	}
	expect("11")
	install(12)
	expect("12")
	// In the middle of a rotation in place: the new key beside the old certificate.
	_, key := ca.issue(t, "client", 13)
	write(t, o.KeyFile, key)
	expect("12")
	cert, key := ca.issue(t, "client", 14)
	write(t, o.KeyFile, key)
	write(t, o.CertFile, cert)
	expect("14")
	write(t, o.CAFile, newAuthority(t).pem)
	if _, err := d.dial(context.Background(), "tcp", addr); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Fatalf("the CA was replaced, and yet: %v", err)
	}
}

// TestAuthorityRotation: the brokers' certificates get another authority. ca_file first holds both, as a bundle, then the new one alone; it
// is read for each connection of one client, so nothing is started again, and the old authority is refused from then on.
func TestAuthorityRotation(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	old, renewed := cluster(t, kfake.TLS(before.server(t, "localhost")))[0], cluster(t, kfake.TLS(after.server(t, "localhost")))[0]
	file := write(t, filepath.Join(t.TempDir(), "ca.pem"), before.pem)
	var log buffer
	d, err := newDialer(&TLS{CAFile: file}, hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log}))
	must(t, err)
	expect := func(stage, addr string, believed bool) {
		t.Helper()
		conn, err := d.dial(context.Background(), "tcp", addr)
		switch {
		case err == nil:
			must(t, conn.Close())
			if !believed {
				t.Errorf("%s: %s is believed", stage, addr)
			}
		case believed || !strings.Contains(err.Error(), "unknown authority") || !strings.Contains(err.Error(), addr):
			t.Errorf("%s: %v", stage, err)
		}
	}
	both := func(stage string, ofOld, ofNew bool) {
		t.Helper()
		expect(stage+", the old certificate", old, ofOld)
		expect(stage+", the new certificate", renewed, ofNew)
	}
	both("before", true, false)
	write(t, file, slices.Concat(before.pem, after.pem))
	both("a bundle", true, true)
	write(t, file, after.pem)
	both("after", false, true)
	must(t, os.WriteFile(file, nil, 0o600)) // in the middle of being written in place
	both("an empty file", false, true)
	if n := strings.Count(log.String(), "ca_file "+file+" holds no PEM certificate"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
}

func TestWrongFilesAreReportedAtOnce(t *testing.T) {
	dir := t.TempDir()
	junk := write(t, filepath.Join(dir, "junk"), []byte("junk"))
	for want, o := range map[string]TLS{
		"no such file":         {CAFile: filepath.Join(dir, "missing")},
		"holds no PEM":         {CAFile: junk},
		"cert_file, key_file":  {CertFile: junk, KeyFile: filepath.Join(dir, "missing")},
		"key is not supported": {CertFile: junk, KeyFile: junk},
	} {
		if _, err := Client(Options{Brokers: []string{"a:1"}, TLS: &o}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
