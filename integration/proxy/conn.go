package proxy

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"
)

// ahead is the number of frames that are read while an earlier one waits; more stay with their sender.
const ahead = 16

// maxPending bounds the requests that wait for their answers on a connection. Only requests that get none (Produce
// with acks=0) can pile up, until the next answer.
const maxPending = 1 << 14

// conn is one connection of a client to a broker.
type conn struct {
	network *Network
	id      int64
	node    int32
	client  net.Conn
	broker  net.Conn

	once   sync.Once
	cutted chan struct{} // closed by cut

	mu      sync.Mutex
	pending []*Frame // requests on their way or at the broker, in order
}

// arrival is a frame and when it was read.
type arrival struct {
	frame *Frame
	at    time.Time
}

// carry works until both directions have ended.
func (c *conn) carry() {
	var both sync.WaitGroup
	both.Go(func() { c.pump(Request, c.client, c.broker) })
	both.Go(func() { c.pump(Answer, c.broker, c.client) })
	both.Wait()
	c.cut()
}

// cut closes both ends.
func (c *conn) cut() {
	c.once.Do(func() {
		close(c.cutted)
		_ = c.client.Close()
		_ = c.broker.Close()
	})
}

// pump carries one direction to its end: everything that its sender wrote arrives, also after the sender's end.
func (c *conn) pump(d Direction, from, to net.Conn) {
	arrivals := make(chan arrival, ahead)
	var reading sync.WaitGroup
	reading.Go(func() { c.read(d, from, arrivals) })
	broken := false
	for a := range arrivals {
		switch {
		case !c.passes(a):
			continue
		case broken: // the client is gone; the broker's answers still count
		case writePayload(to, a.frame.payload) == nil:
		case d == Request:
			c.cut() // the broker is gone, and so are its answers
		default:
			broken = true
		}
	}
	reading.Wait()
	closeWrite(to)
}

// read reads frames until the sender's end, or until the connection is cut.
func (c *conn) read(d Direction, from net.Conn, arrivals chan<- arrival) {
	defer close(arrivals)
	for {
		f, err := c.next(d, from)
		if err != nil {
			c.network.failed(err)
			return
		}
		select {
		case arrivals <- arrival{f, time.Now()}:
		case <-c.cutted:
			return
		}
	}
}

// next reads one frame and matches an answer with its request.
func (c *conn) next(d Direction, from net.Conn) (*Frame, error) {
	payload, err := readPayload(from)
	if err != nil {
		return nil, fmt.Errorf("proxy: node %d, %s: %w", c.node, d, err)
	}
	f := &Frame{Node: c.node, Conn: c.id, Direction: d, payload: payload}
	if d == Request {
		err = f.requestHeader()
		c.expect(f)
	} else {
		err = c.match(f)
	}
	if err != nil {
		c.cut()
		return nil, fmt.Errorf("proxy: node %d, %s: %w", c.node, d, err)
	}
	return f, nil
}

func (c *conn) expect(f *Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == maxPending {
		c.pending = c.pending[1:]
	}
	c.pending = append(c.pending, f)
}

// match finds an answer's request. Brokers answer in order: older requests than it get no answer any more.
func (c *conn) match(f *Frame) error {
	f.CorrelationID = int32(binary.BigEndian.Uint32(f.payload)) // readPayload wants at least these four bytes
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, req := range c.pending {
		if req.CorrelationID == f.CorrelationID {
			f.request, f.Key, f.Version = req, req.Key, req.Version
			c.pending = append([]*Frame(nil), c.pending[i+1:]...) // a copy, so that the frames before it are freed
			return nil
		}
	}
	return fmt.Errorf("%w: an answer to no request, correlation id %d", errNotKafka, f.CorrelationID)
}

// passes applies the rules to a frame; false: it does not go on.
func (c *conn) passes(a arrival) bool {
	for _, rule := range c.network.current() {
		if !rule.takes(a.frame) {
			continue
		}
		if rule.rule.Fired != nil {
			rule.rule.Fired(a.frame)
		}
		if !c.wait(rule.departs(a.at, a.frame.Size())) || !c.obeys(rule) {
			c.network.observed(a.frame, false)
			return false
		}
	}
	if c.isCut() {
		c.network.observed(a.frame, false)
		return false
	}
	c.network.observed(a.frame, true)
	return true
}

// obeys carries out a rule's action; false: the frame does not go on.
func (c *conn) obeys(a *Active) bool {
	switch a.rule.Action {
	case Pass:
		return true
	case Hold:
		return c.held(a)
	case Drop:
		return false
	case Cut:
		c.cut()
		return false
	}
	panic(fmt.Sprintf("proxy: unknown action %d", a.rule.Action))
}

// held waits until the rule is gone.
func (c *conn) held(a *Active) bool {
	select {
	case <-a.gone:
	case <-c.cutted:
		return false
	}
	if a.discard {
		c.cut()
		return false
	}
	return true
}

// wait waits until a moment; false: the connection was cut meanwhile.
func (c *conn) wait(until time.Time) bool {
	left := time.Until(until)
	if left <= 0 {
		return !c.isCut()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.cutted:
		return false
	}
}

func (c *conn) isCut() bool {
	select {
	case <-c.cutted:
		return true
	default:
		return false
	}
}

// closeWrite tells the receiver that nothing more comes.
func closeWrite(c net.Conn) {
	if half, can := c.(interface{ CloseWrite() error }); can {
		_ = half.CloseWrite() // the only error is a connection that is closed already
		return
	}
	_ = c.Close()
}
