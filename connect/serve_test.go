package connect

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// surface listens with TLS and tells for each connection what came of it: how many certificates the client sent, or the error.
func surface(t *testing.T, conf *tls.Config) (addr string, came <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	out := make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s := tls.Server(c, conf)
			if err := s.Handshake(); err != nil {
				out <- err.Error()
			} else {
				out <- fmt.Sprint(len(s.ConnectionState().PeerCertificates))
			}
			s.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String(), out
}

// visit makes a handshake and returns the server's certificate's serial number, and what the server saw.
func visit(t *testing.T, addr string, came <-chan string, conf *tls.Config) (serial, saw string, err error) {
	t.Helper()
	c, err := tls.Dial("tcp", addr, conf)
	if err != nil {
		return "", <-came, err
	}
	defer c.Close()
	_, _ = c.Read(make([]byte, 1)) // TLS 1.3: the server's verdict comes after the client's handshake
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String(), <-came, nil
}

func TestServerCertificateIsReadAgain(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	o := ServerTLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	install := func(serial int64) {
		cert, key := ca.issue(t, "localhost", serial)
		write(t, o.KeyFile, key)
		write(t, o.CertFile, cert)
	}
	install(21)
	var log buffer
	conf, err := o.ServerConfig(hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log}))
	must(t, err)
	addr, came := surface(t, conf)
	expect := func(want string) {
		t.Helper()
		mine, err := o.ClientConfig()
		must(t, err)
		if serial, _, err := visit(t, addr, came, mine); err != nil || serial != want {
			t.Errorf("certificate %s, %v, want %s", serial, err, want)
		}
	}
	expect("21")
	before, err := o.ClientConfig()
	must(t, err)
	install(22)
	expect("22")
	if _, _, err := visit(t, addr, came, before); !errors.Is(err, ErrOtherCertificate) {
		t.Errorf("whoever answers with another certificate is believed: %v", err)
	}
	must(t, os.WriteFile(o.KeyFile, []byte("junk"), 0o600))
	expect("22")
	expect("22")
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
	install(23)
	expect("23")
}

func TestClientCertificates(t *testing.T) {
	ca, own := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	cert, key := own.issue(t, "localhost", 31)
	o := ServerTLS{CertFile: write(t, filepath.Join(dir, "s.crt"), cert), KeyFile: write(t, filepath.Join(dir, "s.key"), key), ClientCAFile: write(t, filepath.Join(dir, "ca"), ca.pem)}
	conf, err := o.ServerConfig(hclog.NewNullLogger())
	must(t, err)
	addr, came := surface(t, conf)
	with := func(a *authority) *tls.Config {
		c := &tls.Config{InsecureSkipVerify: true}
		if a != nil {
			cert, key := a.issue(t, "scraper", 32)
			pair, err := tls.X509KeyPair(cert, key)
			must(t, err)
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		return c
	}
	mine, err := o.ClientConfig()
	must(t, err)
	for _, c := range []struct {
		who  string
		conf *tls.Config
		want string
	}{
		{"a probe", with(nil), "0"},
		{"who has a certificate of the authority", with(ca), "1"},
		{"bridge status", mine, "1"},
		{"a stranger", with(newAuthority(t)), "unknown authority"},
		{"one of the server's own authority, which is not the clients'", with(own), "unknown authority"},
	} {
		if _, saw, _ := visit(t, addr, came, c.conf); !strings.Contains(saw, c.want) {
			t.Errorf("%s: %s, want %s", c.who, saw, c.want)
		}
	}
	write(t, o.ClientCAFile, newAuthority(t).pem)
	if _, saw, _ := visit(t, addr, came, with(ca)); !strings.Contains(saw, "unknown authority") {
		t.Errorf("the authority was replaced, and yet: %s", saw)
	}
}

func TestSecretShowsNothing(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "token"), []byte(planted+"\n"))
	for _, s := range []*Secret{NewSecret(planted, nil), NewSecret(planted, NewSecretFile(path, planted))} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
			if text := fmt.Sprintf(verb, s) + fmt.Sprintf(verb, struct{ S *Secret }{s}); strings.Contains(text, planted) || strings.Contains(text, fmt.Sprintf("%x", planted)) {
				t.Errorf("%s: %s", verb, text)
			}
		}
		if s.Text(hclog.NewNullLogger()) != planted {
			t.Error("it is another")
		}
	}
	renewed := NewSecret(planted, NewSecretFile(path, planted))
	write(t, path, []byte("next"))
	if got := renewed.Text(hclog.NewNullLogger()); got != "next" {
		t.Errorf("the file was replaced, and yet: %s", got)
	}
}

// TestTokenThatNoHeaderCarries: a file that is replaced by such a token would lock everybody out, and say no more than that it was replaced.
func TestTokenThatNoHeaderCarries(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "token"), []byte("first\n"))
	f, text, err := OpenSecretFile(path)
	must(t, err)
	s := NewSecret(text, f)
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &out})
	for _, bad := range []string{"two words-" + planted, planted + "\n\n", planted + "ü"} {
		write(t, path, []byte(bad))
		if got := s.Text(log); got != "first" {
			t.Errorf("%q counts", got)
		}
	}
	if !strings.Contains(out.String(), "without spaces") || strings.Contains(out.String(), planted) || strings.Contains(out.String(), "replaced") {
		t.Errorf("said: %s", out.String())
	}
	write(t, path, []byte("second"))
	if got := s.Text(log); got != "second" {
		t.Errorf("%q counts", got)
	}
}
