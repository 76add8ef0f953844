package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"kafkabridge/semantics"
)

// errNewer is what decoding reports for a version that this program does not know.
var errNewer = errors.New("written by a newer version")

// unseal checks the CRC and returns what it covers.
func unseal(b []byte) ([]byte, error) {
	if len(b) < crcBytes {
		return nil, fmt.Errorf("%d bytes are too short for a checksum", len(b))
	}
	body := b[:len(b)-crcBytes]
	if want, got := binary.BigEndian.Uint32(b[len(body):]), castagnoli(body); want != got {
		return nil, fmt.Errorf("checksum is %08x, the bytes have %08x", want, got)
	}
	return body, nil
}

// decodeMeta reads the value of metaKey. A newer format is reported before the rest is looked at, because the rest may
// mean anything then.
func decodeMeta(value []byte) (bridge string, format uint64, err error) {
	body, err := unseal(value)
	if err != nil {
		return "", 0, err
	}
	d := decoder{b: body}
	format = d.uvarint()
	if d.err == nil && format > storeFormat {
		return "", format, fmt.Errorf("format %d, this program knows up to %d: %w", format, storeFormat, errNewer)
	}
	bridge = d.string()
	return bridge, format, d.end()
}

// decode reads one checkpoint. It accepts exactly what encode writes: shortest integers, keys in ascending order, nothing
// after the end. Memory is bounded by len(value).
func decode(value []byte) (semantics.Checkpoint, error) {
	var c semantics.Checkpoint
	body, err := unseal(value)
	if err != nil {
		return c, err
	}
	d := decoder{b: body}
	if v := d.byte(); d.err == nil && v != valueFormat {
		if v > valueFormat {
			return c, fmt.Errorf("value format %d, this program knows up to %d: %w", v, valueFormat, errNewer)
		}
		return c, fmt.Errorf("value format %d has never existed", v)
	}
	c.Status = semantics.Status(d.oneOf("status", byte(semantics.Proposed), byte(semantics.Aborted)))
	c.Semantic = semantics.Semantic(d.oneOf("semantic", byte(semantics.None), byte(semantics.ExactlyOnce)))
	flags := d.oneOf("flags", 0, flagsKnown)
	c.Empty = flags&flagEmpty != 0
	if c.Epoch = semantics.Epoch(d.varint()); d.err == nil && c.Epoch < 1 {
		d.fail("epoch %d", c.Epoch)
	}
	c.Incarnation = d.string()
	c.Transaction = d.transaction()
	c.Follows = d.transaction()
	copy(c.LedgerTopicID[:], d.take(len(c.LedgerTopicID)))
	c.StartedMs, c.TimeoutMs, c.SavedMs = d.varint(), d.varint(), d.varint()
	c.Positions = d.positions(flags&flagPositions != 0)
	c.State = d.state(flags&flagState != 0)
	return c, d.end()
}

// decoder reads from b and remembers the first error; after that every read returns zero.
type decoder struct {
	b   []byte
	at  int
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("at byte %d: %w", d.at, fmt.Errorf(format, args...))
	}
}

func (d *decoder) left() int { return len(d.b) - d.at }

func (d *decoder) end() error {
	if d.err == nil && d.left() > 0 {
		d.fail("%d bytes after the end", d.left())
	}
	return d.err
}

// take returns the next n bytes, not copied.
func (d *decoder) take(n int) []byte {
	if d.err != nil || n > d.left() {
		d.fail("%d bytes wanted, %d there", n, d.left())
		return nil
	}
	d.at += n
	return d.b[d.at-n : d.at]
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) oneOf(what string, low, high byte) byte {
	v := d.byte()
	if d.err == nil && (v < low || v > high) {
		d.fail("%s %d is unknown", what, v)
	}
	return v
}

func (d *decoder) uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.at:])
	// A longer encoding of the same number ends in a zero byte; two encodings of one checkpoint must not exist.
	if n <= 0 || (n > 1 && d.b[d.at+n-1] == 0) {
		d.fail("no shortest integer")
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) within(what string, low, high int64) int64 {
	v := d.varint()
	if d.err == nil && (v < low || v > high) {
		d.fail("%s %d is out of range", what, v)
		return 0
	}
	return v
}

// count reads the number of elements that follow, each at least min bytes long: no more than the rest can hold.
func (d *decoder) count(min int) int {
	n := d.uvarint()
	if d.err == nil && n > uint64(d.left()/min) {
		d.fail("%d elements in %d bytes", n, d.left())
		return 0
	}
	return int(n)
}

func (d *decoder) string() string { return string(d.take(d.count(1))) }

func (d *decoder) transaction() semantics.Transaction {
	return semantics.Transaction{
		ID:            d.string(),
		ProducerID:    d.varint(),
		ProducerEpoch: int16(d.within("producer epoch", math.MinInt16, math.MaxInt16)),
		EndTxnVersion: int16(d.within("EndTxn version", math.MinInt16, math.MaxInt16)),
	}
}
