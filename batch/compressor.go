package batch

import (
	"bytes"
	"fmt"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Compressor compresses the payloads of batches. One goroutine owns it; the builders of that goroutine share it,
// because codecs need far more memory than an open batch. The zero value is ready; a codec's state is made when the
// codec is first used, with the codec's default level.
type Compressor struct {
	kgo [Zstd + 1]kgo.Compressor // for all but lz4
	buf bytes.Buffer
	lz4 *lz4.Compressor
}

// compress appends payload, compressed, to dst and returns the codec that was really used: the attributes of a batch
// must name that one.
func (c *Compressor) compress(dst, payload []byte, codec Codec) ([]byte, Codec, error) {
	switch codec {
	case None:
		return append(dst, payload...), None, nil
	case Lz4:
		if c.lz4 == nil {
			c.lz4 = new(lz4.Compressor)
		}
		return appendLz4(dst, payload, c.lz4)
	case Gzip, Snappy, Zstd:
	}
	kc, err := c.codec(codec)
	if err != nil {
		return nil, None, err
	}
	if c.buf.Cap() > retainLimit {
		c.buf = bytes.Buffer{}
	}
	c.buf.Reset()
	out, used := kc.Compress(&c.buf, payload)
	if used < kgo.CodecNone || !Codec(used).Valid() {
		return nil, None, fmt.Errorf("compress %d bytes with %s: the codec failed", len(payload), codec)
	}
	return append(dst, out...), Codec(used), nil
}

// codec returns the compressor of franz-go for gzip, snappy or zstd.
func (c *Compressor) codec(codec Codec) (kgo.Compressor, error) {
	if codec.Valid() && c.kgo[codec] != nil {
		return c.kgo[codec], nil
	}
	var option kgo.CompressionCodec
	switch codec {
	case Gzip:
		option = kgo.GzipCompression()
	case Snappy:
		option = kgo.SnappyCompression()
	case Zstd:
		option = kgo.ZstdCompression()
	case None, Lz4:
		return nil, fmt.Errorf("franz-go does not compress %s here", codec)
	default:
		return nil, fmt.Errorf("no compressor for %s", codec)
	}
	kc, err := kgo.DefaultCompressor(option)
	if err != nil {
		return nil, fmt.Errorf("make a compressor for %s: %w", codec, err)
	}
	c.kgo[codec] = kc
	return kc, nil
}
