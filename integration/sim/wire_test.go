package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is the network between one process and the brokers. It understands Kafka's frames: every request and every answer meets a
// fault of the plan. What the process has sent may still arrive after its death.
type wire struct {
	who    string
	net    dialer // the brokers' side
	coord  *coordinator
	faults *faults
	tr     *trace

	mu      sync.Mutex
	dead    bool
	clear   time.Time             // nothing passes before this moment
	clients map[net.Conn]struct{} // the process's ends
	pumps   sync.WaitGroup
}

type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

var errDead = errors.New("the process is dead")

// dial is the process's way to the brokers.
func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !w.await(ctx) {
		return nil, fmt.Errorf("dial %s: %w", address, context.Cause(ctx))
	}
	server, err := w.net.DialContext(ctx, network, address)
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
	w.pumps.Go(func() { w.pump(client, far, server) })
	return client, nil
}

// cut makes the network silent for d: nothing is lost, everything waits, connections stay.
func (w *wire) cut(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clear = time.Now().Add(d)
}

// await waits until the network is not silent.
func (w *wire) await(ctx context.Context) bool {
	for {
		w.mu.Lock()
		left := time.Until(w.clear)
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

// pump carries the frames of one connection, one request at a time, as a broker serves them.
func (w *wire) pump(client, far, server net.Conn) {
	defer func() {
		_ = server.Close()
		_ = far.Close()
		w.mu.Lock()
		delete(w.clients, client)
		w.mu.Unlock()
	}()
	for {
		frame, err := readFrame(far)
		if err != nil {
			return
		}
		if !w.exchange(frame, far, server) {
			return
		}
	}
}

// exchange deals with one request; false ends the connection.
func (w *wire) exchange(frame []byte, far, server net.Conn) bool {
	key, corr := int16(binary.BigEndian.Uint16(frame[4:])), int32(binary.BigEndian.Uint32(frame[8:]))
	wholeAborted(frame)
	f := w.faults.next(kmsg.Key(key))
	id := fmt.Sprintf("%s#%d", kmsg.NameForKey(key), corr)
	if f.kind != faultNone {
		w.tr.add(w.who, "FAULT %s %s", id, f)
	}
	sent := time.Now()
	quiet := key == int16(kmsg.Fetch) && f.kind == faultNone
	if !quiet {
		w.tr.add(w.who, "-> %s %s", id, summary(frame))
	}
	if f.kind == faultRequestLost {
		return false
	}
	if f.kind == faultRequestLate {
		time.Sleep(f.delay)
	}
	w.await(context.Background())
	if !w.alive() && !f.outlives {
		w.tr.add(w.who, "died before %s arrived", id)
		return false
	}
	if key == int16(kmsg.InitProducerID) && time.Since(sent) > 3*time.Second {
		w.coord.excused.Store(true) // its sender may have repeated it, and gets fenced by its own request
	}
	answer, err := w.coord.exchange(frame, server, w.who)
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
	w.await(context.Background())
	if !quiet {
		w.tr.add(w.who, "<- %s %s", id, answerSummary(frame, answer))
	}
	_, err = far.Write(answer)
	return err == nil
}

// readFrame reads one frame, length included.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// forward sends a frame to the broker and reads its answer.
func forward(frame []byte, server net.Conn) ([]byte, error) {
	if _, err := server.Write(frame); err != nil {
		return nil, err
	}
	return readFrame(server)
}

// decodeRequest parses a frame; nil when it cannot.
func decodeRequest(frame []byte) kmsg.Request {
	req := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(frame[4:])))
	if req == nil {
		return nil
	}
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	body := frame[12:]
	if n := int16(binary.BigEndian.Uint16(body)); n >= 0 { // the client id
		body = body[2+n:]
	} else {
		body = body[2:]
	}
	if req.IsFlexible() {
		body = body[1:] // no tags: kgo sends none
	}
	if req.ReadFrom(body) != nil {
		return nil
	}
	return req
}

// encodeAnswer makes the frame of an answer to request.
func encodeAnswer(request []byte, resp kmsg.Response) []byte {
	out := append([]byte{0, 0, 0, 0}, request[8:12]...)
	if resp.IsFlexible() {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func decodeAnswer(request, answer []byte) kmsg.Response {
	req := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(request[4:])))
	if req == nil {
		return nil
	}
	req.SetVersion(int16(binary.BigEndian.Uint16(request[6:])))
	resp := req.ResponseKind()
	body := answer[8:]
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		body = body[1:]
	}
	if resp.ReadFrom(body) != nil {
		return nil
	}
	return resp
}
