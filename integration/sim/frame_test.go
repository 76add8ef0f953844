package sim

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func requestKey(frame []byte) kmsg.Key { return kmsg.Key(binary.BigEndian.Uint16(frame[4:])) }

// name is a request's in the trace.
func name(frame []byte) string {
	return fmt.Sprintf("%s#%d", requestKey(frame).Name(), int32(binary.BigEndian.Uint32(frame[8:])))
}

func label(frame []byte, req kmsg.Request) string { return name(frame) + " " + summary(req) }

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
	req := kmsg.RequestForKey(int16(requestKey(frame)))
	if req == nil {
		return nil
	}
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	at := bodyAt(frame)
	if req.IsFlexible() {
		at++ // no tags: kgo sends none
	}
	if req.ReadFrom(frame[at:]) != nil {
		return nil
	}
	return req
}

// bodyAt is where the body begins, behind length, key, version, correlation id and client id.
func bodyAt(frame []byte) int {
	at := 14
	if n := int16(binary.BigEndian.Uint16(frame[12:])); n > 0 {
		at += int(n)
	}
	return at
}

// encodeRequest is frame with another body.
func encodeRequest(frame []byte, req kmsg.Request) []byte {
	at := bodyAt(frame)
	if req.IsFlexible() {
		at++
	}
	out := req.AppendTo(append([]byte{}, frame[:at]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
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

// decodeAnswer parses an answer to req; nil when it cannot.
func decodeAnswer(request []byte, req kmsg.Request, answer []byte) kmsg.Response {
	if req == nil {
		return nil
	}
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
