package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdSupervisor hears what systemd would hear.
func cmdSupervisor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "supervisor PATH|@NAME")
	name := args[0]
	if strings.HasPrefix(name, "@") {
		name += strconv.Itoa(os.Getpid()) // abstract names are the machine's
	} else {
		name = ts.MkAbs(name)
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	ts.Check(err)
	f, err := os.Create(ts.MkAbs("supervisor"))
	ts.Check(err)
	done := make(chan struct{})
	go hear(c, f, done)
	ts.Defer(func() {
		_ = c.Close()
		<-done
	})
	ts.Setenv("NOTIFY_SOCKET", name)
}

func hear(c *net.UnixConn, f *os.File, done chan<- struct{}) {
	defer close(done)
	defer f.Close()
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		_, _ = f.WriteString(strings.ReplaceAll(strings.TrimSpace(string(b[:n])), "\n", " | ") + "\n")
	}
}

func cmdHeard(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "heard REGEXP")
	awaitText(ts, "supervisor", args[0])
}

// cmdCertificate makes a new authority each time, so that what was made before is of another.
func cmdCertificate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "certificate NAME")
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	ts.Check(err)
	writePEM(ts, "ca.pem", "CERTIFICATE", der)
	for _, name := range []string{args[0], "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} // bridge status gets in with it all the same
		if name == "client" {
			usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: usages,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * time.Hour)}, ca, key.Public(), caKey)
		ts.Check(err)
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		ts.Check(err)
		writePEM(ts, name+".key", "PRIVATE KEY", raw)
		writePEM(ts, name+".pem", "CERTIFICATE", der)
	}
}

func writePEM(ts *testscript.TestScript, name, kind string, der []byte) {
	path := ts.MkAbs(name)
	ts.Check(os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	ts.Check(os.Rename(path+".new", path))
}

func cmdAsk(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 4, "ask CODE METHOD URL REGEXP [HEADER: VALUE | cert:NAME ...]")
	re, err := regexp.Compile(args[3])
	ts.Check(err)
	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	if b, err := os.ReadFile(ts.MkAbs("ca.pem")); err == nil {
		conf.RootCAs.AppendCertsFromPEM(b)
	}
	header := http.Header{}
	for _, a := range args[4:] {
		name, value, _ := strings.Cut(a, ":")
		if name != "cert" {
			header.Set(name, strings.TrimSpace(value))
			continue
		}
		pair, err := tls.LoadX509KeyPair(ts.MkAbs(value+".pem"), ts.MkAbs(value+".key"))
		ts.Check(err)
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: conf}}
	var last string
	defer func() { ts.Logf("[answer]\n%s", last) }()
	eventually(ts, strings.Join(args, " "), func() bool {
		req, err := http.NewRequest(args[1], args[2], nil)
		ts.Check(err)
		req.Header = header
		resp, err := client.Do(req)
		if err != nil {
			last = err.Error()
			return false
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		last = resp.Status + "\n" + string(b)
		return err == nil && strconv.Itoa(resp.StatusCode) == args[0] && re.Match(b)
	})
	_, err = io.WriteString(ts.Stdout(), last)
	ts.Check(err)
}
