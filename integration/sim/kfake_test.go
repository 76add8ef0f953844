package sim

import (
	"encoding/binary"
	"math"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wholeAborted raises the limit of the whole answer in a Fetch request. An answer that kfake cuts off at that limit lacks the list of aborted
// transactions of its last partition (handleFetch leaves the loop before it looks them up), and their records look committed. The
// limits per partition stay, and after those kfake makes the list.
func wholeAborted(frame []byte) {
	if requestKey(frame) != kmsg.Fetch {
		return
	}
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	at := bodyAt(frame)
	if req.IsFlexible() {
		at++ // no tags
	}
	if req.Version < 15 {
		at += 4 // replica id
	}
	binary.BigEndian.PutUint32(frame[at+8:], math.MaxInt32) // behind max wait and min bytes
}

// bubbleDecompressor is kgo's, except for zstd: kgo closes its zstd decoders in finalizers, which run outside of the bubble and may not touch
// a channel that was made inside.
type bubbleDecompressor struct{ kgo.Decompressor }

func (d bubbleDecompressor) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec != kgo.CodecZstd {
		return d.Decompressor.Decompress(src, codec)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return dec.DecodeAll(src, nil)
}
