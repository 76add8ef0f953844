package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"
)

// patch returns a copy of b with big-endian bytes written at an offset of the layout in doc.go.
func patch(b []byte, at int, value any) []byte {
	out := bytes.Clone(b)
	var buf bytes.Buffer
	if err := binary.Write(&buf, binary.BigEndian, value); err != nil {
		panic(err)
	}
	copy(out[at:], buf.Bytes())
	return out
}

func TestParseHeaderRefuses(t *testing.T) {
	good := goldenFiles(t)["none"] // 12 records, last offset delta 11, 6896 bytes or so
	if _, err := ParseHeader(good); err != nil {
		t.Fatal(err)
	}
	compressed := goldenFiles(t)["lz4"]
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":              {nil, ErrTruncated},
		"16 bytes":             {good[:16], ErrTruncated},
		"17 bytes":             {good[:17], ErrTruncated},
		"header only":          {good[:HeaderSize], ErrTruncated},
		"a byte missing":       {good[:len(good)-1], ErrTruncated},
		"huge length":          {patch(good, 8, int32(math.MaxInt32)), ErrTruncated},
		"negative length":      {patch(good, 8, int32(-1)), ErrCorrupt},
		"length below 49":      {patch(good, 8, int32(48)), ErrCorrupt},
		"magic 3":              {patch(good, 16, int8(3)), ErrCorrupt},
		"magic -1":             {patch(good, 16, int8(-1)), ErrCorrupt},
		"negative offset":      {patch(good, 0, int64(-1)), ErrCorrupt},
		"offset overflows":     {patch(good, 0, int64(math.MaxInt64-11)), ErrCorrupt},
		"negative delta":       {patch(good, 23, int32(-1)), ErrCorrupt},
		"negative count":       {patch(good, 57, int32(-1)), ErrCorrupt},
		"count beyond delta":   {patch(good, 57, int32(13)), ErrCorrupt},
		"count beyond payload": {patch(patch(good, 23, int32(5000)), 57, int32(5000)), ErrCorrupt},
		"no payload":           {patch(compressed[:HeaderSize], 8, int32(49)), ErrCorrupt},
		"codec 5":              {patch(good, 21, int16(5)), ErrCorrupt},
		"codec 7":              {patch(good, 21, int16(7)), ErrCorrupt},
	} {
		if _, err := ParseHeader(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for magic := range int8(2) {
		var e *UnsupportedMagicError
		if _, err := ParseHeader(patch(good, 16, magic)); !errors.As(err, &e) || e.Magic != magic || errors.Is(err, ErrCorrupt) {
			t.Errorf("magic %d: %v", magic, err)
		}
	}
	if h, err := ParseHeader(patch(good, 0, int64(math.MaxInt64-12))); err != nil || h.NextOffset() != math.MaxInt64 {
		t.Errorf("the last possible offset: %v, next %d", err, h.NextOffset())
	}
}

func TestNext(t *testing.T) {
	if _, raw, rest, err := Next(nil); err != io.EOF || raw != nil || rest != nil {
		t.Errorf("at the end: %v %v %v, want io.EOF", raw, rest, err)
	}
	b := append(bytes.Clone(goldenFiles(t)["lz4"]), 1, 2, 3)
	_, raw, rest, err := Next(b)
	if err != nil || len(rest) != 3 || len(raw)+3 != len(b) {
		t.Fatalf("%d and %d of %d bytes, %v", len(raw), len(rest), len(b), err)
	}
	if cap(raw) != len(raw) {
		t.Error("appending to raw would overwrite the next batch")
	}
	if _, _, left, err := Next(rest); !errors.Is(err, ErrTruncated) || len(left) != 3 {
		t.Errorf("a partial batch: %v, %d bytes left", err, len(left))
	}
}

// A flipped bit anywhere behind the CRC field is found; the first offset and the leader epoch are not covered.
func TestCheckCRC(t *testing.T) {
	b := bytes.Clone(goldenFiles(t)["lz4"])
	for i := range b {
		b[i] ^= 0x10
		err := CheckCRC(b)
		if covered := i >= 17; covered != errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		b[i] ^= 0x10
	}
	if err := CheckCRC(b[:60]); !errors.Is(err, ErrTruncated) {
		t.Errorf("60 bytes: %v", err)
	}
}

func TestStampKeepsControl(t *testing.T) {
	b := patch(goldenFiles(t)["none"], 21, int16(attrControl))
	Stamp(b, 1, 2, 3, true)
	if h, err := ParseHeader(b); err != nil || !h.IsControl() {
		t.Errorf("a marker became a batch of records: %+v, %v", h, err)
	}
}

// The same arguments give the same bytes: a resend after a lost answer must not differ.
func TestStampTwice(t *testing.T) {
	b := bytes.Clone(goldenFiles(t)["zstd"])
	Stamp(b, math.MaxInt64, math.MaxInt16, math.MaxInt32, true)
	again := bytes.Clone(b)
	Stamp(again, math.MaxInt64, math.MaxInt16, math.MaxInt32, true)
	h, err := ParseHeader(b)
	if !bytes.Equal(b, again) || err != nil || h.ProducerID != math.MaxInt64 || h.ProducerEpoch != math.MaxInt16 ||
		h.FirstSequence != math.MaxInt32 || !h.IsTransactional() || CheckCRC(b) != nil {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestCodecNames(t *testing.T) {
	for c, name := range map[Codec]string{None: "none", Gzip: "gzip", Snappy: "snappy", Lz4: "lz4", Zstd: "zstd"} {
		if got, err := ParseCodec(name); c.String() != name || got != c || err != nil {
			t.Errorf("%d: %s, parsed %d, %v", c, c, got, err)
		}
	}
	if c, err := ParseCodec("Uncompressed"); c != None || err != nil {
		t.Errorf("uncompressed: %v %v", c, err)
	}
	if _, err := ParseCodec("brotli"); err == nil {
		t.Error("brotli is no codec of Kafka")
	}
}
