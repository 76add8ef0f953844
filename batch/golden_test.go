package batch

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goldenFiles returns what Kafka's own classes wrote, by name; see testdata/Golden.java.
func goldenFiles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/golden/*.bin")
	if err != nil || len(paths) < 20 {
		t.Fatalf("found %d golden files, want 20 (%v)", len(paths), err)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(p), ".bin")] = b
	}
	return files
}

// What Kafka wrote reads as Kafka itself reads it.
func TestGoldenReads(t *testing.T) {
	for name, b := range goldenFiles(t) {
		if name == "magic1" {
			continue
		}
		want, err := os.ReadFile(filepath.Join("testdata/golden", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := dump(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestGoldenMagic1(t *testing.T) {
	_, _, rest, err := Next(goldenFiles(t)["magic1"])
	var magic *UnsupportedMagicError
	if !errors.As(err, &magic) || magic.Magic != 1 || magic.Offset != 33 {
		t.Errorf("got %v, want magic 1 at offset 33", err)
	}
	if len(rest) == 0 {
		t.Error("the refused bytes are gone from rest")
	}
}

// Every cut of a response ends cleanly behind its last whole batch.
func TestGoldenCuts(t *testing.T) {
	whole := goldenFiles(t)["sequence"]
	ends := map[int]bool{0: true}
	for b := whole; len(b) > 0; {
		_, raw, rest, err := Next(b)
		if err != nil {
			t.Fatal(err)
		}
		ends[len(whole)-len(rest)] = len(raw) > 0
		b = rest
	}
	if len(ends) != 6 {
		t.Fatalf("%d ends, want those of 5 batches", len(ends))
	}
	for n := range whole {
		_, err := dump(whole[:n])
		if ends[n] && err != nil || !ends[n] && !errors.Is(err, ErrTruncated) {
			t.Errorf("cut at %d (an end: %t): %v", n, ends[n], err)
		}
	}
}

// Uncompressed, our encoding of what Kafka encoded is the same bytes: one encoding, two writers.
func TestGoldenEncodesTheSame(t *testing.T) {
	b := goldenFiles(t)["none"]
	h, raw, _, err := Next(b)
	if err != nil {
		t.Fatal(err)
	}
	got := reencode(t, h, raw, None)
	// Kafka's file has a first offset and a leader epoch, which the CRC does not cover.
	want := bytes.Clone(raw)
	copy(want, got[:8])
	copy(want[12:16], got[12:16])
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
}

// reencode decodes a batch and builds it anew, stamped without a producer.
func reencode(t testing.TB, h Header, raw []byte, codec Codec) []byte {
	t.Helper()
	payload, err := NewDecoder(testLimit).Payload(raw, h)
	if err != nil {
		t.Fatal(err)
	}
	var b Builder
	var r Reader
	var rec Record
	for r.Reset(h, payload); r.Next(&rec); {
		if err := b.Append(&rec); err != nil {
			t.Fatal(err)
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	out, err := b.Finish(nil, new(Compressor), codec)
	if err != nil {
		t.Fatal(err)
	}
	Stamp(out, -1, -1, -1, false)
	return out
}

// Handing on: Kafka's batch with our header is the batch that Kafka would have made with that header.
func TestStampOfGolden(t *testing.T) {
	files := goldenFiles(t)
	stamped := bytes.Clone(files["lz4"])
	Stamp(stamped, 42, 3, 17, true)
	want := bytes.Clone(files["transactional"]) // the same records, written by Kafka with this producer
	copy(want, make([]byte, 8))
	copy(want[12:16], []byte{0xff, 0xff, 0xff, 0xff})
	if !bytes.Equal(stamped, want) {
		t.Errorf("got  %x\nwant %x", stamped[:HeaderSize], want[:HeaderSize])
	}
	for _, name := range []string{"deletehorizon", "logappendtime", "transactional"} {
		b := bytes.Clone(files[name])
		Stamp(b, -1, -1, -1, false)
		h, err := ParseHeader(b)
		if err != nil || CheckCRC(b) != nil || h.HasDeleteHorizon() || h.LogAppendTime() || h.IsTransactional() ||
			h.ProducerID != -1 || h.ProducerEpoch != -1 || h.FirstSequence != -1 || h.FirstOffset != 0 || h.PartitionLeaderEpoch != -1 {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

func TestHandOn(t *testing.T) {
	files := goldenFiles(t)
	for name, want := range map[string]string{
		"none": "", "lz4": "", "transactional": "", "deletehorizon": "", "zstd22-big": "",
		"logappendtime": "log_append_time", "compacted": "gaps", "emptied": "gaps",
	} {
		h, err := ParseHeader(files[name])
		reason, ok := h.HandOn()
		if err != nil || reason != want || ok != (want == "") {
			t.Errorf("%s: %q, %t, want %q (%v)", name, reason, ok, want, err)
		}
	}
	_, _, rest, err := Next(files["sequence"])
	if err != nil {
		t.Fatal(err)
	}
	marker, err := ParseHeader(rest)
	if reason, ok := marker.HandOn(); err != nil || ok || reason != "control" {
		t.Errorf("marker: %q, %t (%v)", reason, ok, err)
	}
}

// TestWriteForKafka writes batches of ours for Golden.java to read; see there.
func TestWriteForKafka(t *testing.T) {
	dir := os.Getenv("BATCH_GOLDEN_OUT")
	if dir == "" {
		t.Skip("BATCH_GOLDEN_OUT is not set")
	}
	for codec := None; codec <= Zstd; codec++ {
		writeForKafka(t, filepath.Join(dir, "noise-to-"+codec.String()), noiseBatch(t, codec))
	}
	for name, b := range goldenFiles(t) {
		if name == "magic1" || name == "sequence" || name == "emptied" {
			continue
		}
		h, raw, _, err := Next(b)
		if err != nil {
			t.Fatal(err)
		}
		for codec := None; codec <= Zstd; codec++ {
			writeForKafka(t, filepath.Join(dir, name+"-to-"+codec.String()), reencode(t, h, raw, codec))
		}
		Stamp(raw, 7, 8, 9, true)
		writeForKafka(t, filepath.Join(dir, name+"-stamped"), raw)
	}
}

// noiseBatch holds what no codec makes smaller.
func noiseBatch(t *testing.T, codec Codec) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(13, 14))
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	raw := build(t, new(Builder), new(Compressor), []plainRecord{{value: noise}, {value: noise[:70_000]}}, codec)
	Stamp(raw, -1, -1, -1, false)
	return raw
}

func writeForKafka(t *testing.T, path string, b []byte) {
	t.Helper()
	text, err := dump(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path+".bin", b, 0o644), os.WriteFile(path+".txt", []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}
