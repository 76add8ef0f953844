package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/gzip"
)

// DefaultDecompressedLimit is a limit for [NewDecoder] in bytes. Brokers take batches of 1 MiB by default, so this
// leaves room for raised limits and good ratios.
const DefaultDecompressedLimit = 64 << 20

// retainLimit is what a Decoder keeps of its buffer, in bytes: one rare big batch must not stay in memory forever.
const retainLimit = 8 << 20

// Decoder decompresses payloads into a buffer that it uses again and again. One goroutine owns it.
//
// The codecs are those of franz-go. Its Decompressor is not used because the one that is exported bounds the
// decompressed size at 2 GiB (only a kgo client can set less) and allocates the result for every batch.
type Decoder struct {
	limit int
	buf   []byte
	src   bytes.Reader
	gzip  gzip.Reader
	zstd  zstdDecoders
}

// NewDecoder returns a decoder that refuses payloads of more than limit decompressed bytes. However much a batch claims
// to hold, decompressing it costs about twice the limit at most (a buffer and the larger one that it grows into) and
// keeps 8 MiB at most. A limit too small refuses valid batches.
func NewDecoder(limit int) *Decoder {
	return &Decoder{limit: min(max(limit, 1), math.MaxInt32)}
}

// Payload returns the records of a whole raw batch with header h, decompressed: a view of raw when it is not
// compressed, otherwise a view of the decoder's buffer, valid until the next call.
//
// It answers a [*DecompressedSizeError] beyond the limit and an error that wraps [ErrCorrupt] when the codec cannot
// read the payload. It does not check the CRC.
func (d *Decoder) Payload(raw []byte, h Header) ([]byte, error) {
	if len(raw) != h.Size() {
		return nil, ErrTruncated
	}
	src := raw[HeaderSize:]
	if h.NumRecords == 0 && len(src) == 0 {
		return src, nil // compaction leaves empty batches, which no codec wrote
	}
	if h.Codec() == None {
		return src, nil // in memory already, so the limit has nothing to protect
	}
	if cap(d.buf) > retainLimit {
		d.buf = nil
	}
	out, err := d.decompress(src, h.Codec())
	switch {
	case errors.Is(err, errLimit) || err == nil && len(out) > d.limit:
		return nil, &DecompressedSizeError{Offset: h.FirstOffset, Codec: h.Codec(), Size: len(src), Limit: d.limit}
	case err != nil:
		return nil, fmt.Errorf("%w: batch at offset %d: %s: %w", ErrCorrupt, h.FirstOffset, h.Codec(), err)
	}
	d.buf = out
	return out, nil
}

// errLimit is answered by the codecs below when the decompressed bytes would exceed the limit.
var errLimit = errors.New("decompressed size exceeds the limit")

func (d *Decoder) decompress(src []byte, codec Codec) ([]byte, error) {
	dst := d.buf[:0]
	switch codec {
	case None:
		return nil, errors.New("nothing to decompress") // Payload has answered it
	case Gzip:
		return d.gunzip(dst, src)
	case Snappy:
		return unsnappy(dst, src, d.limit)
	case Lz4:
		return unlz4(dst, src, d.limit)
	case Zstd:
		return d.zstd.decompress(dst, src, d.limit)
	}
	return nil, fmt.Errorf("unknown codec %d", codec)
}

// gunzip appends all members of src to dst.
func (d *Decoder) gunzip(dst, src []byte) ([]byte, error) {
	d.src.Reset(src)
	defer d.src.Reset(nil)
	if err := d.gzip.Reset(&d.src); err != nil {
		return nil, err
	}
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, max(4*len(src), 4096))
		}
		// One byte more than the limit tells "exactly the limit" from "more".
		room := dst[len(dst):min(cap(dst), d.limit+1)]
		n, err := d.gzip.Read(room)
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > d.limit:
			return nil, errLimit
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return nil, err
		}
	}
}
