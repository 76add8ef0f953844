package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
)

// caseICases are public cases of family I, authentication and secrets; those that need Kafka's authorizer and listeners
// are in case_i_kafka_test.go.
func caseICases() map[string]func(*testing.T, *kfakeSuite) {
	return map[string]func(*testing.T, *kfakeSuite){
		"CaseI4CertificateRotated": caseI4Certificates,
		"CaseI5SecretNeverShown":   caseI5Secrets,
	}
}

// mixedListener takes TLS and plain text on one port: the bridge comes with TLS, the harness without.
type mixedListener struct {
	net.Listener
	tls *tls.Config

	mu      sync.Mutex
	secure  map[net.Conn]bool // open now
	serials map[string]bool   // of all client certificates that were accepted
}

func (l *mixedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &mixedConn{Conn: c, l: l}, nil
}

// cut closes the TLS connections.
func (l *mixedListener) cut() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.secure {
		_ = c.Close() // the only error is one that is closed already
		n++
	}
	clear(l.secure)
	return n
}

func (l *mixedListener) seen(c net.Conn, serial string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secure[c], l.serials[serial] = true, true
}

// mixedConn finds out with the first byte which of the two it is. Who reads is not who writes, so only Read and Write, which
// come after it, use what was found.
type mixedConn struct {
	net.Conn // the raw one
	found    net.Conn
	l        *mixedListener
	once     sync.Once
	err      error
}

func (c *mixedConn) Read(b []byte) (int, error) {
	c.once.Do(c.begin)
	if c.err != nil {
		return 0, c.err
	}
	return c.found.Read(b)
}

func (c *mixedConn) Write(b []byte) (int, error) {
	c.once.Do(c.begin)
	if c.err != nil {
		return 0, c.err
	}
	return c.found.Write(b)
}

func (c *mixedConn) begin() {
	first := make([]byte, 1)
	if _, c.err = c.Conn.Read(first); c.err != nil {
		return
	}
	c.found = &prefixConn{Conn: c.Conn, prefix: first}
	const handshake = 0x16 // a TLS record; a Kafka request begins with a length below 16 MiB, so with 0
	if first[0] != handshake {
		return
	}
	secure := tls.Server(c.found, c.l.tls)
	if c.err = secure.Handshake(); c.err != nil {
		_ = c.Conn.Close() // nothing was said
		return
	}
	c.found = secure
	c.l.seen(c.Conn, secure.ConnectionState().PeerCertificates[0].SerialNumber.String())
}

// prefixConn gives back what was read ahead.
type prefixConn struct {
	net.Conn
	prefix []byte
}

func (c *prefixConn) Read(b []byte) (int, error) {
	if len(c.prefix) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.prefix)
	c.prefix = c.prefix[n:]
	return n, nil
}

// caseI4Certificates: mutual TLS with client certificates that live for four seconds and are renewed each second, in turn by
// renaming files and by swapping a symlink, while all connections are cut again and again. The process stays, and every
// record arrives once.
func caseI4Certificates(t *testing.T, suite *kfakeSuite) {
	ca, err := kafka.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	l := &mixedListener{tls: mutualTLS(t, ca), secure: map[net.Conn]bool{}, serials: map[string]bool{}}
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2, "in")
	r.onBroker(kfake.ListenFn(func(network, address string) (net.Listener, error) {
		inner, err := net.Listen(network, address)
		l.Listener = inner
		return l, err
	}))
	certs := &certificates{t: t, ca: ca, dir: r.dir}
	certs.renew()
	block := daemon.Nested(fmt.Sprintf("ca_file = %q\ncert_file = %q\nkey_file = %q", certs.file("ca.pem"), certs.file("tls.crt"), certs.file("tls.key")))
	r.cfg.Sources[0].Attrs["tls"], r.cfg.Sink.Attrs["tls"] = block, block
	d := r.start("")
	r.ready(d)
	p := r.plan(3000)
	p.PerSecond = 1000
	wait := r.background(p)
	cuts := 0
	for range 6 {
		<-time.After(time.Second) // a certificate's age
		certs.renew()
		cuts += l.cut()
	}
	n := wait().Committed
	r.published(d)
	l.mu.Lock()
	t.Logf("%d connections cut, %d certificates used", cuts, len(l.serials))
	if len(l.serials) < 3 || cuts < 6 {
		t.Errorf("the broker saw %d certificates and %d connections were cut", len(l.serials), cuts)
	}
	l.mu.Unlock()
	r.says(r.terminate(d), "recovered") // the same process as at first
	r.exactlyOnce(verdict{}, n)
}

func mutualTLS(t *testing.T, ca *kafka.Authority) *tls.Config {
	t.Helper()
	cert, key, err := ca.Issue("localhost", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}

// onBroker gives the rig another broker, which has the same topics.
func (r *kfakeRig) onBroker(opts ...kfake.Opt) {
	r.t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(r.parts, append(r.in, r.out)...)}, opts...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cluster.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	r.cluster, r.cl, r.admin = cluster, cl, kadm.NewClient(cl)
	r.cfg.Sources[0].Attrs["brokers"], r.cfg.Sink.Attrs["brokers"] = cluster.ListenAddrs(), cluster.ListenAddrs()
}

// certificates are a client's files, behind a symlink as Kubernetes mounts a secret: now → <number>.
type certificates struct {
	t   *testing.T
	ca  *kafka.Authority
	dir string
	n   int
}

func (c *certificates) file(name string) string { return filepath.Join(c.dir, "now", name) }

// renew replaces all files: by a swapped symlink, and every second time by renames in place.
func (c *certificates) renew() {
	c.t.Helper()
	cert, key, err := c.ca.Issue("client", 4*time.Second)
	c.must(err)
	files := map[string][]byte{"ca.pem": c.ca.PEM, "tls.crt": cert, "tls.key": key}
	c.n++
	if c.n%2 == 0 {
		for name, content := range files {
			c.must(os.WriteFile(c.file(name)+".new", content, 0o600))
			c.must(os.Rename(c.file(name)+".new", c.file(name)))
		}
		return
	}
	target := filepath.Join(c.dir, fmt.Sprint("certificates-", c.n))
	c.must(os.Mkdir(target, 0o700))
	for name, content := range files {
		c.must(os.WriteFile(filepath.Join(target, name), content, 0o600))
	}
	next := filepath.Join(c.dir, "next")
	c.must(os.Symlink(target, next))
	c.must(os.Rename(next, filepath.Join(c.dir, "now")))
}

func (c *certificates) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// caseI5Secrets runs every command that the binary knows at level trace: with a right and a wrong password, and with a file
// that is wrong beside it. The password never shows: not in what they write, not over HTTP, not in the state directory.
func caseI5Secrets(t *testing.T, suite *kfakeSuite) {
	const secret = "S3cr3t-XYZ"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "jane", secret),
		kfake.SeedTopics(2, "in", "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	r := newKfakeRig(t, suite, "EXACTLY_ONCE", 2)
	file := filepath.Join(r.dir, "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := r.commands()
	if len(commands) < 6 {
		t.Fatalf("only the commands %q were found", commands)
	}
	for name, password := range map[string]string{
		"env": `env("SECRET")`, "file": fmt.Sprintf("file(%q)", file), "literal": fmt.Sprintf("%q", secret), "wrong": fmt.Sprintf("%q", secret+"-wrong"),
		"no expression": fmt.Sprintf("%q + 1", secret), "unclosed": `"` + secret, "unknown": fmt.Sprintf("%q\nnonsense = %q", secret, secret),
	} {
		cfg := r.cfg.Clone()
		for _, attrs := range []daemon.Attrs{cfg.Sources[0].Attrs, cfg.Sink.Attrs} {
			attrs["brokers"] = cluster.ListenAddrs()
			attrs["sasl"] = daemon.Nested("mechanism = \"PLAIN\"\nusername = \"jane\"\npassword = " + password)
		}
		cfg.Restart["attempts"] = 1 // so that run ends, too
		path := filepath.Join(r.dir, strings.ReplaceAll(name, " ", "-")+".hcl")
		text := strings.Replace(cfg.HCL(), `"debug"`, `"trace"`, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range commands {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			cmd := exec.CommandContext(ctx, suite.binary, append(strings.Fields(command), "-c", path)...)
			cmd.Env = append(os.Environ(), "SECRET="+secret)
			cmd.Dir = r.dir
			out, err := cmd.CombinedOutput()
			cancel()
			if strings.Contains(string(out), "S3cr3t") {
				t.Errorf("%s, %s (%v) shows the secret:\n%s", name, command, err, out)
			}
			if name == "env" && command == "run --until-end" && (err != nil || !strings.Contains(string(out), "[TRACE]")) {
				t.Errorf("run with the right password: %v\n%s", err, out)
			}
		}
	}
	seen := 0
	err = filepath.WalkDir(r.state(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		seen++
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "S3cr3t") {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files of state, %v", seen, err)
	}
	t.Logf("%d commands: %q", len(commands), commands)
}

// commands are those that --help lists, with an argument where one is needed.
func (r *kfakeRig) commands() (all []string) {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), r.suite.binary, "--help").CombinedOutput()
	if err != nil {
		r.t.Fatalf("--help: %v\n%s", err, out)
	}
	_, list, _ := strings.Cut(string(out), "Commands:")
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") {
			continue
		}
		var words []string
		for _, w := range strings.Fields(line) {
			switch {
			case strings.HasPrefix(w, "<"):
				words = append(words, "1")
			case !strings.HasPrefix(w, "[") && !strings.HasPrefix(w, "--"):
				words = append(words, w)
			}
		}
		command := strings.Join(words, " ")
		if command == "run" {
			command = "run --until-end"
		}
		all = append(all, command)
	}
	return all
}
