package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Direction is the way that a frame goes.
type Direction int

// The two directions.
const (
	Request Direction = iota + 1 // from the client to the broker
	Answer                       // from the broker to the client
)

// String is the direction in words.
func (d Direction) String() string {
	switch d {
	case Request:
		return "request"
	case Answer:
		return "answer"
	}
	return fmt.Sprintf("Direction(%d)", int(d))
}

// maxFrame is above every broker's socket.request.max.bytes (100 MiB): a larger length is not Kafka.
const maxFrame = 128 << 20

// Frame is one request or answer. It is not changed after it was read and may be used by any goroutine.
type Frame struct {
	// Node is the id that Listen or Serve was given for the broker.
	Node int32
	// Conn numbers the connections of a Network, from 1.
	Conn          int64
	Direction     Direction
	Key           kmsg.Key // of an answer: its request's
	Version       int16    // of an answer: its request's
	CorrelationID int32

	payload []byte // header and body, without the length
	request *Frame // an answer's request
}

// Size is the number of bytes on the wire, with the four of the length.
func (f *Frame) Size() int { return 4 + len(f.payload) }

// String names the frame, for logs.
func (f *Frame) String() string {
	return fmt.Sprintf("%s %s v%d #%d, node %d, connection %d, %d bytes", f.Direction, f.Key.Name(), f.Version, f.CorrelationID, f.Node, f.Conn, f.Size())
}

// Request decodes the request; of an answer, the request that it answers.
func (f *Frame) Request() (kmsg.Request, error) {
	if f.Direction == Answer {
		return f.request.Request()
	}
	req := f.Key.Request()
	if req == nil {
		return nil, fmt.Errorf("proxy: %s: unknown key", f)
	}
	req.SetVersion(f.Version)
	r := kbin.Reader{Src: f.payload}
	r.Int16() // key
	r.Int16() // version
	r.Int32() // correlation id
	r.NullableString()
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := errors.Join(r.Complete(), req.ReadFrom(r.Src)); err != nil {
		return nil, fmt.Errorf("proxy: %s: %w", f, err)
	}
	return req, nil
}

// Response decodes an answer; a request has none.
func (f *Frame) Response() (kmsg.Response, error) {
	if f.Direction != Answer {
		return nil, fmt.Errorf("proxy: %s is no answer", f)
	}
	resp := f.Key.Response()
	if resp == nil {
		return nil, fmt.Errorf("proxy: %s: unknown key", f)
	}
	resp.SetVersion(f.Version)
	r := kbin.Reader{Src: f.payload}
	r.Int32() // correlation id
	// An answer to ApiVersions keeps the old header, so that a client can read it whatever the broker's age.
	if resp.IsFlexible() && f.Key != kmsg.ApiVersions {
		kmsg.SkipTags(&r)
	}
	if err := errors.Join(r.Complete(), resp.ReadFrom(r.Src)); err != nil {
		return nil, fmt.Errorf("proxy: %s: %w", f, err)
	}
	return resp, nil
}

// When is a Rule's Match for one kind of request (for an answer: the request that it answers). A frame of another
// kind does not match; nor does one that cannot be decoded.
func When[T kmsg.Request](ok func(T) bool) func(*Frame) bool {
	var kind T
	key := kmsg.Key(kind.Key())
	return func(f *Frame) bool {
		if f.Key != key {
			return false
		}
		req, err := f.Request()
		if err != nil {
			return false
		}
		typed, is := req.(T)
		return is && ok(typed)
	}
}

// readPayload reads one frame; io.EOF is the stream's clean end.
func readPayload(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < 4 || n > maxFrame {
		return nil, fmt.Errorf("%w: a length of %d bytes", errNotKafka, n)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, err
	}
	return payload, nil
}

func writePayload(w io.Writer, payload []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(payload)), uint32(len(payload)))
	_, err := w.Write(append(frame, payload...))
	return err
}

// errNotKafka: what a connection carries cannot be a frame of Kafka.
var errNotKafka = errors.New("not Kafka's protocol")

// requestHeader reads what every request begins with.
func (f *Frame) requestHeader() error {
	if len(f.payload) < 10 {
		return fmt.Errorf("%w: a request of %d bytes", errNotKafka, len(f.payload))
	}
	f.Key = kmsg.Key(binary.BigEndian.Uint16(f.payload))
	f.Version = int16(binary.BigEndian.Uint16(f.payload[2:]))
	f.CorrelationID = int32(binary.BigEndian.Uint32(f.payload[4:]))
	return nil
}
