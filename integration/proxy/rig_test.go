package proxy

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wired is a Network over pipes, so that it works in a synctest bubble, with a broker that answers every request
// with its correlation id and body, and notes what it got.
type wired struct {
	*Network
	t      *testing.T
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu  sync.Mutex
	got []kmsg.Key
}

func newWired(t *testing.T) *wired {
	w := &wired{Network: New(), t: t, accept: make(chan net.Conn), closed: make(chan struct{})}
	w.Serve(1, w, w.dialBroker)
	t.Cleanup(w.Network.Close)
	return w
}

func (w *wired) Accept() (net.Conn, error) {
	select {
	case c := <-w.accept:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wired) Addr() net.Addr { return &net.TCPAddr{} }

// Close is the listener's: it wins over the Network's of the same name, which tests reach by its field.
func (w *wired) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wired) dialBroker(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go w.serve(far)
	return near, nil
}

// serve answers each request with its own bytes behind the correlation id.
func (w *wired) serve(c net.Conn) {
	defer c.Close()
	for {
		payload, err := readPayload(c)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.got = append(w.got, kmsg.Key(binary.BigEndian.Uint16(payload)))
		w.mu.Unlock()
		if writePayload(c, payload[4:]) != nil {
			return
		}
	}
}

func (w *wired) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}

// client is one connection.
type client struct {
	t *testing.T
	net.Conn
	next int32
}

func (w *wired) client() *client {
	near, far := net.Pipe()
	w.accept <- far
	w.t.Cleanup(func() { near.Close() })
	return &client{t: w.t, Conn: near}
}

// send writes a request and returns its correlation id.
func (c *client) send(req kmsg.Request) int32 {
	c.t.Helper()
	c.next++
	b := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, c.next)
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
	return c.next
}

// answer reads one answer within a time; 0: there was none.
func (c *client) answer(within time.Duration) int32 {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(within))
	payload, err := readPayload(c)
	if err != nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(payload))
}

// closed reports whether the connection ends within a time.
func (c *client) closed(within time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF
}

func endTxn(commit bool) kmsg.Request {
	req := kmsg.NewPtrEndTxnRequest()
	req.Version, req.TransactionalID, req.Commit = 5, "x", commit
	return req
}

func heartbeat() kmsg.Request {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = 4
	return req
}

var commits = When(func(r *kmsg.EndTxnRequest) bool { return r.Commit })
