package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

// parts says which parts of a record are compared.
type parts struct{ key, value, timestamp, headers bool }

func (p parts) String() string {
	var names []string
	for _, n := range []struct {
		on   bool
		name string
	}{{p.key, "key"}, {p.value, "value"}, {p.timestamp, "timestamp"}, {p.headers, "headers"}} {
		if n.on {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ", ")
}

// comparedParts leaves out what a map of the chain rewrites. A map that drops records, makes several of one, or chooses their topic
// cannot be followed without running it, and then the maps would be checked against themselves.
func comparedParts(o bridge.Options) (parts, error) {
	p := parts{true, true, true, true}
	for i, m := range o.Maps {
		switch m.Kind {
		case "headers":
			p.headers = false
		case "mask":
			p.value = false
		case "key":
			p.key = false
		case "timestamp":
			p.timestamp = false
		default:
			return p, semantics.Misconfigured(fmt.Sprintf("bridge %q", o.Name), "verify cannot follow map %d (%s): it may drop records, make several of one, or choose their topic; compare such a bridge by what its records mean", i+1, m.Kind)
		}
	}
	if p == (parts{}) {
		return p, semantics.Misconfigured(fmt.Sprintf("bridge %q", o.Name), "verify has nothing to compare: the maps rewrite every part of a record")
	}
	return p, nil
}

// fingerprint is a record's fingerprint over the parts that are compared. Two that differ have the same one with a chance of one in
// 2^64 for each pair, if nobody looks for such a pair.
type fingerprint [16]byte

// printer makes fingerprints; not for several goroutines.
type printer struct {
	parts parts
	h     hash.Hash
	buf   [8]byte
}

func newPrinter(p parts) *printer { return &printer{parts: p, h: sha256.New()} }

// number and bytes keep lengths apart, and null from empty.
func (p *printer) number(n int64) {
	binary.BigEndian.PutUint64(p.buf[:], uint64(n))
	p.h.Write(p.buf[:])
}

func (p *printer) bytes(b []byte) {
	if b == nil {
		p.number(-1)
		return
	}
	p.number(int64(len(b)))
	p.h.Write(b)
}

func (p *printer) print(r *kgo.Record) (out fingerprint) {
	p.h.Reset()
	if p.parts.key {
		p.bytes(r.Key)
	}
	if p.parts.value {
		p.bytes(r.Value)
	}
	if p.parts.timestamp {
		p.number(r.Timestamp.UnixMilli())
	}
	if p.parts.headers {
		p.number(int64(len(r.Headers)))
		for _, h := range r.Headers {
			p.bytes([]byte(h.Key))
			p.bytes(h.Value)
		}
	}
	var sum [sha256.Size]byte
	copy(out[:], p.h.Sum(sum[:0]))
	return out
}
