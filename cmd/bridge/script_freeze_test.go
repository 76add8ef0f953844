package main

import (
	"net"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// freezer makes a broker's listeners that can fall silent: then its connections stay open, new ones are accepted, and nothing
// that is sent is read any more, as on a frozen machine or behind a firewall that swallows packets.
type freezer struct {
	frozen chan struct{} // closed by freeze
	once   sync.Once
}

func newFreezer() *freezer { return &freezer{frozen: make(chan struct{})} }

func (f *freezer) freeze() { f.once.Do(func() { close(f.frozen) }) }

func (f *freezer) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return &freezableListener{l, f}, nil
}

type freezableListener struct {
	net.Listener
	f *freezer
}

func (l *freezableListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &freezableConn{Conn: c, f: l.f, closed: make(chan struct{})}, nil
}

type freezableConn struct {
	net.Conn
	f      *freezer
	closed chan struct{}
	once   sync.Once
}

// Read hands over nothing that came after the freeze.
func (c *freezableConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.f.frozen:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *freezableConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func cmdFreeze(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "freeze NAME")
	ts.Value(clustersKey{}).(clusters)[args[0]].freeze()
}
