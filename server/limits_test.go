package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// pipes is a listener whose connections are in memory, so that time can be virtual.
type pipes struct {
	waiting  chan net.Conn
	closed   chan struct{}
	accepted atomic.Int64
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.waiting:
		p.accepted.Add(1)
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.closed); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// connection is the server's end of a pipe; it comes from this machine and tells when the server closes it.
type connection struct {
	net.Conn
	ended chan struct{}
	once  atomic.Bool
}

func (c *connection) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
}

func (c *connection) Close() error {
	if c.once.CompareAndSwap(false, true) {
		close(c.ended)
	}
	return c.Conn.Close()
}

// dial is a client, and what is closed when the server gives it up.
func (p *pipes) dial() (client net.Conn, ended <-chan struct{}) {
	client, end := net.Pipe()
	c := &connection{Conn: end, ended: make(chan struct{})}
	p.waiting <- c
	return client, c.ended
}

// inBubble serves in virtual time.
func inBubble(t *testing.T, o Options, f func(p *pipes, log hclog.Logger)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{waiting: make(chan net.Conn, 2*maxConnections), closed: make(chan struct{})}
		log := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: io.Discard})
		s := New("v", []Bridge{shows(busy())}, NewMetrics(), log.Named("http"))
		s.Use(o)
		s.start(p)
		f(p, log)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowClients: whoever does not get on loses the connection, and so cannot keep it from others.
func TestSlowClients(t *testing.T) {
	const get, put = "GET /status HTTP/1.1\r\nHost: localhost\r\n", "PUT /log?level=info HTTP/1.1\r\nHost: localhost\r\n"
	for name, c := range map[string]struct {
		o     Options
		sends string
		drips string // a byte each second after that
		reads bool
		after time.Duration
	}{
		"says nothing":                       {reads: true, after: 5 * time.Second},
		"no TLS handshake":                   {o: Options{TLS: &tls.Config{}}, reads: true, after: 5 * time.Second},
		"half a header":                      {sends: get, reads: true, after: 5 * time.Second},
		"a header in drips":                  {sends: get, drips: "X-A: " + strings.Repeat("a", 100), reads: true, after: 5 * time.Second},
		"a body in drips":                    {sends: put + "Content-Length: 100\r\n\r\n", drips: strings.Repeat("a", 100), reads: true, after: 5 * time.Second},
		"does not read":                      {sends: get + "\r\n", after: 30 * time.Second},
		"keeps the connection, asks nothing": {sends: get + "\r\n", reads: true, after: 10 * time.Second},
	} {
		inBubble(t, c.o, func(p *pipes, _ hclog.Logger) {
			began := time.Now()
			client, ended := p.dial()
			var talking sync.WaitGroup
			talking.Go(func() { talk(client, c.sends, c.drips) })
			if c.reads {
				talking.Go(func() { _, _ = io.Copy(io.Discard, client) })
			}
			select {
			case <-ended:
			case <-time.After(time.Hour):
			}
			if took := time.Since(began); took < c.after || took > c.after+time.Second { // net/http waits half a second before it closes
				t.Errorf("%s: the connection ended after %s, want %s", name, took, c.after)
			}
			_ = client.Close()
			talking.Wait()
		})
	}
}

func talk(c net.Conn, at, drips string) {
	if _, err := io.WriteString(c, at); err != nil {
		return
	}
	for i := range drips {
		time.Sleep(time.Second)
		if _, err := c.Write([]byte{drips[i]}); err != nil {
			return
		}
	}
}

// TestTooMuch: what no request needs is refused before it is read.
func TestTooMuch(t *testing.T) {
	const put = "PUT /log?level=debug HTTP/1.1\r\nHost: localhost\r\n"
	for name, c := range map[string]struct {
		sends string
		code  int
		level hclog.Level
	}{
		"header":         {"GET /status HTTP/1.1\r\nHost: localhost\r\nX-A: " + strings.Repeat("a", 32<<10) + "\r\n\r\n", 431, hclog.Info},
		"body":           {put + "Content-Length: 5000\r\n\r\n" + strings.Repeat("a", 5000), 413, hclog.Info},
		"announced body": {put + "Content-Length: 1000000000000\r\n\r\n", 413, hclog.Info},
		"chunks":         {put + "Transfer-Encoding: chunked\r\n\r\n5\r\nlevel\r\n0\r\n\r\n", 413, hclog.Info},
		"a small header": {put + "X-A: " + strings.Repeat("a", 8<<10) + "\r\n\r\n", 200, hclog.Debug},
		"a small body":   {put + "Content-Length: 5\r\n\r\nlevel", 200, hclog.Debug},
	} {
		inBubble(t, Options{}, func(p *pipes, log hclog.Logger) {
			client, ended := p.dial()
			defer client.Close()
			go talk(client, c.sends, "")
			resp, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			_ = resp.Body.Close()
			if resp.StatusCode != c.code || log.GetLevel() != c.level {
				t.Errorf("%s: %d, level %s, want %d, %s", name, resp.StatusCode, log.GetLevel(), c.code, c.level)
			}
			if c.code != 200 {
				select {
				case <-ended:
				case <-time.After(time.Second):
					t.Errorf("%s: the connection is kept", name)
				}
			}
		})
	}
}

// TestConnectionLimit: one more waits until one of the others has ended.
func TestConnectionLimit(t *testing.T) {
	inBubble(t, Options{}, func(p *pipes, _ hclog.Logger) {
		var clients []net.Conn
		for range 256 + 1 {
			c, _ := p.dial()
			clients = append(clients, c)
		}
		synctest.Wait()
		if n := p.accepted.Load(); n != 256 {
			t.Errorf("%d connections at once, want 256", n)
		}
		_ = clients[0].Close()
		go func() { _, _ = fmt.Fprint(clients[256], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
		if resp, err := http.ReadResponse(bufio.NewReader(clients[256]), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("one has ended, and the one that waited gets %v, %v", resp, err)
		}
		for _, c := range clients {
			_ = c.Close()
		}
	})
}
