package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// wrap puts a compressed payload into a batch that claims one record.
func wrap(payload []byte, codec Codec) (Header, []byte) {
	raw := make([]byte, HeaderSize, HeaderSize+len(payload))
	raw = append(raw, payload...)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	raw[16], raw[22], raw[60] = 2, byte(codec), 1
	h, err := ParseHeader(raw)
	if err != nil {
		panic(err)
	}
	return h, raw
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// writeAll compresses parts with one writer, flushed between them if it can be.
func writeAll(w io.WriteCloser, parts ...[]byte) {
	for _, p := range parts {
		must(w.Write(p))
		if f, ok := w.(interface{ Flush() error }); ok {
			must(0, f.Flush())
		}
	}
	must(0, w.Close())
}

// zstdTestWindow is larger than the short sample and smaller than the others.
const zstdTestWindow = 128 << 10

// encodings are payload in every form that a codec may write it in.
func encodings(payload []byte) map[string]struct {
	codec Codec
	b     []byte
} {
	type encoded = struct {
		codec Codec
		b     []byte
	}
	out := map[string]encoded{}
	half := len(payload) / 2
	var buf bytes.Buffer
	add := func(name string, codec Codec) {
		out[name] = encoded{codec, bytes.Clone(buf.Bytes())}
		buf.Reset()
	}
	writeAll(gzip.NewWriter(&buf), payload)
	add("gzip", Gzip)
	writeAll(gzip.NewWriter(&buf), payload[:half])
	writeAll(gzip.NewWriter(&buf), payload[half:])
	add("gzip of two members", Gzip)
	buf.Write(snappy.Encode(nil, payload))
	add("snappy, one block", Snappy)
	buf.WriteString("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	for _, part := range [][]byte{payload[:half], {}, payload[half:]} {
		block := snappy.Encode(nil, part)
		buf.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
		buf.Write(block)
	}
	add("snappy, xerial", Snappy)
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for flags := range 8 {
			w := lz4.NewWriter(&buf)
			options := []lz4.Option{lz4.BlockSizeOption(size), lz4.ChecksumOption(flags&1 != 0), lz4.BlockChecksumOption(flags&2 != 0)}
			if flags&4 != 0 {
				options = append(options, lz4.SizeOption(uint64(len(payload))))
			}
			must(0, w.Apply(options...))
			writeAll(w, payload[:half], payload[half:])
			add(fmt.Sprintf("lz4 %s %03b", size, flags), Lz4)
		}
	}
	writeAll(lz4.NewWriter(&buf), payload[:half])
	writeAll(lz4.NewWriter(&buf), payload[half:])
	add("lz4 of two frames", Lz4)
	for level := zstd.SpeedFastest; level <= zstd.SpeedBestCompression; level++ {
		writeAll(must(zstd.NewWriter(&buf, zstd.WithEncoderLevel(level), zstd.WithWindowSize(zstdTestWindow))), payload[:half], payload[half:])
		add("zstd stream "+level.String(), Zstd)
	}
	enc := must(zstd.NewWriter(nil, zstd.WithWindowSize(zstdTestWindow)))
	buf.Write(enc.EncodeAll(payload, nil))
	add("zstd with size", Zstd)
	buf.WriteString("\x50\x2a\x4d\x18\x03\x00\x00\x00abc") // a skippable frame
	buf.Write(enc.EncodeAll(payload[:half], nil))
	buf.Write(enc.EncodeAll(payload[half:], nil))
	add("zstd of frames", Zstd)
	return out
}

// samplePayloads are compressible, not compressible, and larger than the blocks of all codecs but lz4's largest.
func samplePayloads() map[string][]byte {
	rng := rand.New(rand.NewPCG(7, 8))
	noise := make([]byte, 300_001)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	return map[string][]byte{
		"short": []byte("a short one"),
		"text":  bytes.Repeat([]byte("some text that is repeated; "), 20_000),
		"noise": noise,
		"mixed": append(bytes.Repeat([]byte{0}, 200_000), noise...),
	}
}

// Every encoding decompresses to what went in, and franz-go's decompressor, a second implementation, says the same.
func TestPayloadOfEveryEncoding(t *testing.T) {
	d := NewDecoder(testLimit)
	theirs := kgo.DefaultDecompressor()
	for sample, payload := range samplePayloads() {
		for name, e := range encodings(payload) {
			h, raw := wrap(e.b, e.codec)
			got, err := d.Payload(raw, h)
			if err != nil || !bytes.Equal(got, payload) {
				t.Errorf("%s, %s: %d bytes, %v", sample, name, len(got), err)
			}
			if other, err := theirs.Decompress(e.b, kgo.CompressionCodecType(e.codec)); err != nil || !bytes.Equal(other, payload) {
				t.Errorf("%s, %s: franz-go reads %d bytes, %v", sample, name, len(other), err)
			}
		}
	}
}

// Exactly the limit passes and one byte more does not; of zstd's windows see zstdDecoders.
func TestLimitIsExact(t *testing.T) {
	for sample, payload := range samplePayloads() {
		for name, e := range encodings(payload) {
			h, raw := wrap(e.b, e.codec)
			if e.codec == Zstd && len(payload) < zstdTestWindow {
				continue
			}
			if got, err := NewDecoder(len(payload)).Payload(raw, h); err != nil || !bytes.Equal(got, payload) {
				t.Errorf("%s, %s: %v at the limit", sample, name, err)
			}
			_, err := NewDecoder(len(payload)-1).Payload(raw, h)
			var size *DecompressedSizeError
			if !errors.As(err, &size) || size.Limit != len(payload)-1 || size.Codec != e.codec || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, %s: %v beyond the limit", sample, name, err)
			}
		}
	}
}

// A batch that decompresses to 64 MiB fails at a limit of 1 MiB with no more memory than a few blocks.
func TestBombs(t *testing.T) {
	bomb := make([]byte, 64<<20)
	for name, e := range map[string]func(w io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return must(gzip.NewWriterLevel(w, gzip.BestSpeed)) },
		"lz4":  func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser { return must(zstd.NewWriter(w)) },
	} {
		var buf bytes.Buffer
		writeAll(e(&buf), bomb)
		checkBomb(t, name, buf.Bytes())
	}
	checkBomb(t, "snappy", snappy.Encode(nil, bomb))
	checkBomb(t, "snappy", []byte("\xff\xff\xff\xff\x0f\x00")) // claims 4 GiB
	checkBomb(t, "zstd", must(zstd.NewWriter(nil)).EncodeAll(bomb, nil))
}

func checkBomb(t *testing.T, name string, payload []byte) {
	t.Helper()
	codec := must(ParseCodec(name))
	h, raw := wrap(payload, codec)
	d := NewDecoder(1 << 20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := d.Payload(raw, h)
	runtime.ReadMemStats(&after)
	var size *DecompressedSizeError
	if !errors.As(err, &size) {
		t.Errorf("%s: %v", name, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 {
		t.Errorf("%s: allocated %d MiB for %d bytes", name, used>>20, len(payload))
	}
}

// Truncated and damaged payloads are errors, and never more than the limit.
func TestPayloadDamaged(t *testing.T) {
	d := NewDecoder(1 << 20)
	rng := rand.New(rand.NewPCG(9, 9))
	payload := samplePayloads()["text"][:5000]
	for name, e := range encodings(payload) {
		for n := 1; n < len(e.b); n += 1 + len(e.b)/50 {
			h, raw := wrap(e.b[:n], e.codec)
			got, err := d.Payload(raw, h)
			// A cut between two members, frames or blocks leaves a valid payload, which the Reader then finds too short.
			if err == nil && len(got) >= len(payload) {
				t.Errorf("%s: cut at %d of %d gives all %d bytes", name, n, len(e.b), len(got))
			}
			bad := bytes.Clone(e.b)
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
			h, raw = wrap(bad, e.codec)
			if got, err := d.Payload(raw, h); err == nil && len(got) > 1<<20 {
				t.Errorf("%s: damaged gives %d bytes", name, len(got))
			}
		}
	}
}

func TestPayloadEmptied(t *testing.T) {
	h := Header{Length: 49, Magic: 2, Attributes: int16(Lz4)}
	if got, err := NewDecoder(1).Payload(make([]byte, HeaderSize), h); err != nil || len(got) != 0 {
		t.Errorf("%x, %v", got, err)
	}
	if _, err := NewDecoder(1).Payload(make([]byte, HeaderSize-1), h); !errors.Is(err, ErrTruncated) {
		t.Errorf("a byte is missing: %v", err)
	}
}

// Blocks that refer to the one before, which librdkafka may be told to write: two blocks by hand, the second repeats
// eight bytes of the first and adds five.
func TestLz4LinkedBlocks(t *testing.T) {
	frame := "\x04\x22\x4d\x18\x40\x40\xc0" + "\x09\x00\x00\x00\x80abcdefgh" + "\x09\x00\x00\x00\x04\x08\x00\x50vwxyz" + "\x00\x00\x00\x00"
	h, raw := wrap([]byte(frame), Lz4)
	d := NewDecoder(100)
	if got, err := d.Payload(raw, h); string(got) != "abcdefghabcdefghvwxyz" {
		t.Errorf("%q, %v", got, err)
	}
	// The same second block has nothing to refer to when blocks are independent, or as the first of a frame.
	for _, bad := range []string{"\x04\x22\x4d\x18\x60\x40\x82" + frame[7:], frame[:7] + frame[20:], frame + frame[:7] + frame[20:]} {
		h, raw := wrap([]byte(bad), Lz4)
		if got, err := d.Payload(raw, h); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %q, %v", bad, got, err)
		}
	}
}

// A rare large batch does not keep its memory; ordinary ones share one buffer.
func TestDecoderRetains(t *testing.T) {
	d := NewDecoder(64 << 20)
	large, small := snappy.Encode(nil, make([]byte, retainLimit+1)), snappy.Encode(nil, make([]byte, 1000))
	for _, b := range [][]byte{large, small} {
		h, raw := wrap(b, Snappy)
		must(d.Payload(raw, h))
	}
	if cap(d.buf) > retainLimit {
		t.Errorf("%d bytes are kept", cap(d.buf))
	}
}
