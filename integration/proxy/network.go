package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Network is a set of proxies, one per broker, with common rules and observers. Its methods are safe for concurrent
// use. Close ends it.
type Network struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // every goroutine of the network

	mu        sync.Mutex
	rules     []*Active // never changed in place
	listeners []net.Listener
	conns     map[*conn]struct{}
	made      int64 // connections
	err       error

	watching  sync.Mutex // serializes calls of observers
	observers []func(f *Frame, forwarded bool)
}

// New returns a network without brokers and rules.
func New() *Network {
	ctx, cancel := context.WithCancel(context.Background())
	return &Network{ctx: ctx, cancel: cancel, conns: map[*conn]struct{}{}}
}

// Listen accepts connections at addr and carries each to the broker's own address. The broker has to advertise addr,
// or clients go past the proxy.
func (n *Network) Listen(node int32, addr, upstream string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("proxy: node %d: %w", node, err)
	}
	n.Serve(node, l, func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", upstream)
	})
	return nil
}

// Serve is Listen with any listener and any way to the broker. The network closes l.
func (n *Network) Serve(node int32, l net.Listener, dial func(context.Context) (net.Conn, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = append(n.listeners, l)
	n.work.Go(func() { n.accept(node, l, dial) })
}

// accept runs until the listener is closed.
func (n *Network) accept(node int32, l net.Listener, dial func(context.Context) (net.Conn, error)) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		n.work.Go(func() { n.connect(node, client, dial) })
	}
}

// connect carries one connection to its end. A broker that cannot be reached closes it.
func (n *Network) connect(node int32, client net.Conn, dial func(context.Context) (net.Conn, error)) {
	broker, err := dial(n.ctx)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &conn{network: n, node: node, client: client, broker: broker, cutted: make(chan struct{})}
	n.mu.Lock()
	n.made++
	c.id = n.made
	n.conns[c] = struct{}{}
	n.mu.Unlock()
	if n.ctx.Err() != nil {
		c.cut() // Close may have looked at the connections before this one was among them
	}
	c.carry()
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

// Add puts a rule in force. Rules act in the order in which they were added; a frame that one of them drops or cuts
// does not come to the next.
func (n *Network) Add(r Rule) *Active {
	a := newActive(n, r)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = append(slices.Clone(n.rules), a)
	if r.For > 0 {
		a.timer = time.AfterFunc(r.For, a.Remove)
	}
	return a
}

func (n *Network) forget(a *Active) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = slices.DeleteFunc(slices.Clone(n.rules), func(b *Active) bool { return a == b })
}

func (n *Network) current() []*Active {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules
}

// Observe calls see for every frame, one at a time, in the moment before it is written to its receiver, or when it is
// dropped or cut (forwarded is false then). A request is seen before its answer. see must be quick and must not call
// the network.
func (n *Network) Observe(see func(f *Frame, forwarded bool)) {
	n.watching.Lock()
	defer n.watching.Unlock()
	n.observers = append(n.observers, see)
}

func (n *Network) observed(f *Frame, forwarded bool) {
	n.watching.Lock()
	defer n.watching.Unlock()
	for _, see := range n.observers {
		see(f, forwarded)
	}
}

// Break closes every connection; new ones are accepted.
func (n *Network) Break() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.cut()
	}
}

// Err is the first thing seen that is not Kafka's protocol (its connection was cut), or nil. A test that uses a
// network should end by asking.
func (n *Network) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

func (n *Network) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil && errors.Is(err, errNotKafka) {
		n.err = err
	}
}

// Close ends listeners, rules and connections, and returns when all goroutines have ended. What is held is lost. It
// may be called twice.
func (n *Network) Close() {
	n.cancel()
	n.mu.Lock()
	listeners, rules := n.listeners, n.rules
	n.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	n.Break()
	for _, a := range rules {
		a.Discard()
	}
	n.work.Wait()
}
