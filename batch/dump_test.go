package batch

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// testLimit is the decompression limit of the tests.
const testLimit = 4 << 20

// dump says what the batches of b hold, in the format of testdata/Golden.java.
func dump(b []byte) (string, error) {
	var s strings.Builder
	dec := NewDecoder(testLimit)
	for {
		h, raw, rest, err := Next(b)
		if errors.Is(err, io.EOF) {
			return s.String(), nil
		}
		if err != nil {
			return s.String(), err
		}
		if err := dumpBatch(&s, dec, h, raw); err != nil {
			return s.String(), err
		}
		b = rest
	}
}

func dumpBatch(s *strings.Builder, dec *Decoder, h Header, raw []byte) error {
	fmt.Fprintf(s, "batch first=%d last=%d size=%d leaderEpoch=%d crc=%08x codec=%s logAppendTime=%t transactional=%t control=%t "+
		"deleteHorizon=%t maxTimestamp=%d pid=%d epoch=%d seq=%d count=%d\n",
		h.FirstOffset, h.LastOffset(), h.Size(), h.PartitionLeaderEpoch, h.CRC, h.Codec(), h.LogAppendTime(), h.IsTransactional(),
		h.IsControl(), h.HasDeleteHorizon(), h.MaxTimestamp, h.ProducerID, h.ProducerEpoch, h.FirstSequence, h.NumRecords)
	if err := CheckCRC(raw); err != nil {
		return err
	}
	payload, err := dec.Payload(raw, h)
	if err != nil {
		return err
	}
	var r Reader
	var rec Record
	for r.Reset(h, payload); r.Next(&rec); {
		s.WriteString(dumpRecord(&rec))
	}
	return r.Err()
}

func dumpRecord(rec *Record) string {
	var s strings.Builder
	fmt.Fprintf(&s, "record offset=%d timestamp=%d key=%s value=%s headers=", rec.Offset, rec.Timestamp, hexOf(rec.Key), hexOf(rec.Value))
	for _, h := range rec.Headers.AppendTo(nil) {
		fmt.Fprintf(&s, "%s:%s,", hexOf(h.Key), hexOf(h.Value))
	}
	return s.String() + "\n"
}

func hexOf(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) <= 64:
		return fmt.Sprintf("0x%x", b)
	}
	return fmt.Sprintf("%d/%08x", len(b), crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
