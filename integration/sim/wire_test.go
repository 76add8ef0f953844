package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is the network between one process and the brokers. It understands Kafka's frames: every request and every answer meets a
// fault of the plan. What the process has sent may still arrive after its death.
type wire struct {
	who    string
	coord  *coordinator
	faults *faults
	tr     *trace
	watch  *watch
	// beforeCommit is called with every EndTxn(commit) that the process sends, before it is on its way.
	beforeCommit func(*kmsg.EndTxnRequest)

	mu      sync.Mutex
	dead    bool
	clear   map[*site]time.Time   // nothing passes to or from a site before this moment
	clients map[net.Conn]struct{} // the process's ends
	pumps   sync.WaitGroup
}

var errDead = errors.New("the process is dead")

// dialer is the process's way to the brokers of a site.
func (w *wire) dialer(at *site) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return w.dial(ctx, at, network, address)
	}
}

func (w *wire) dial(ctx context.Context, at *site, network, address string) (net.Conn, error) {
	if !w.await(ctx, at) {
		return nil, fmt.Errorf("dial %s: %w", address, context.Cause(ctx))
	}
	server, err := at.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	client, far := net.Pipe()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		_ = server.Close()
		return nil, errDead
	}
	w.clients[client] = struct{}{}
	l := &line{w: w, at: at, far: far, server: server, sent: make(chan parcel, 256), closed: make(chan struct{})}
	w.pumps.Go(l.receive)
	w.pumps.Go(func() { l.serve(client) })
	return client, nil
}

// cut makes the network to a site silent for d: nothing is lost, everything waits, connections stay.
func (w *wire) cut(d time.Duration, at ...*site) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range at {
		w.clear[s] = time.Now().Add(d)
	}
}

// await waits until the network to a site is not silent.
func (w *wire) await(ctx context.Context, at *site) bool {
	for {
		w.mu.Lock()
		left := time.Until(w.clear[at])
		w.mu.Unlock()
		if left <= 0 {
			return ctx.Err() == nil
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return false
		}
	}
}

// kill closes the process's ends. Requests that were sent stay under way.
func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for c := range w.clients {
		_ = c.Close()
	}
}

func (w *wire) alive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.dead
}

// parcel is one request on its way.
type parcel struct {
	frame []byte
	req   kmsg.Request // nil: not understood
	at    time.Time
}

// line is one connection.
type line struct {
	w           *wire
	at          *site
	far, server net.Conn // the process's side, the broker's
	sent        chan parcel
	closed      chan struct{} // nobody serves any more
}

// receive takes what the process sends in the moment in which it is sent, as a socket's buffer does: the oracle must see the order of
// the process's steps, and what was sent is on its way although the broker is still at the request before.
func (l *line) receive() {
	defer close(l.sent)
	for {
		frame, err := readFrame(l.far)
		if err != nil {
			return
		}
		wholeAborted(frame)
		p := parcel{frame, decodeRequest(frame), time.Now()}
		l.w.note(p)
		select {
		case l.sent <- p:
		case <-l.closed:
			return
		}
	}
}

// note tells the oracle what the process sends.
func (w *wire) note(p parcel) {
	if !w.alive() {
		return // written before its death, read after it
	}
	w.tr.add(w.who, "-> %s", label(p.frame, p.req))
	if end, ok := p.req.(*kmsg.EndTxnRequest); ok && end.Commit && w.beforeCommit != nil {
		w.beforeCommit(end)
	}
	w.watch.sent(w.who, p.req)
}

// serve carries the frames of one connection, one request at a time, as a broker serves them.
func (l *line) serve(client net.Conn) {
	defer func() {
		close(l.closed)
		_ = l.server.Close()
		_ = l.far.Close()
		l.w.mu.Lock()
		delete(l.w.clients, client)
		l.w.mu.Unlock()
	}()
	for p := range l.sent {
		if !l.exchange(p) {
			return
		}
	}
}

// exchange deals with one request; false cuts the connection.
func (l *line) exchange(p parcel) bool {
	w := l.w
	key := requestKey(p.frame)
	f := w.faults.next(key)
	id := name(p.frame)
	if f.kind != faultNone {
		w.tr.add(w.who, "FAULT %s %s", id, f)
	}
	if f.kind == faultRequestLost {
		return false
	}
	if f.kind == faultRequestLate {
		time.Sleep(f.delay)
	}
	w.await(context.Background(), l.at)
	if !w.alive() && !f.outlives {
		w.tr.add(w.who, "died before %s arrived", id)
		return false
	}
	if key == kmsg.InitProducerID && time.Since(p.at) > 3*time.Second {
		w.coord.excused.Store(true) // its sender may have repeated it, and gets fenced by its own request
	}
	answer, err := w.coord.exchange(p, l.server, w.who)
	if err != nil {
		w.tr.add(w.who, "<- %s: connection ended: %v", id, err)
		return false
	}
	if f.kind == faultAnswerLost {
		return false
	}
	if f.kind == faultAnswerLate {
		time.Sleep(f.delay)
	}
	w.await(context.Background(), l.at)
	resp := decodeAnswer(p.frame, p.req, answer)
	w.tr.add(w.who, "<- %s %s", id, answerSummary(resp))
	if w.alive() {
		w.watch.answered(w.who, p.req, resp)
	}
	_, _ = l.far.Write(answer) // what else was sent arrives although nobody hears the answer
	return true
}
