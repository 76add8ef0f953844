package snapshot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"kafkabridge/semantics"
)

// golden reads a file of hexadecimal bytes with comments.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenBytes(t *testing.T) {
	p := semantics.Positions{}
	topic := semantics.SourceTopic{Source: "a", Topic: "to"}
	p.Set(topic, semantics.TopicID{0: 255, 15: 15}, 2, semantics.Position{Offset: 0, LeaderEpoch: -1})
	p.Set(topic, semantics.TopicID{0: 255, 15: 15}, 0, semantics.Position{Offset: 127, LeaderEpoch: 4})
	want := semantics.Checkpoint{
		Epoch: 300, Semantic: semantics.ExactlyOnce, Status: semantics.Proposed, Incarnation: "i1", Positions: p,
		State:       map[string][]byte{"\xc3(": {0, 255, 16}},
		Transaction: semantics.Transaction{ID: "t", ProducerID: 4000, ProducerEpoch: 3, EndTxnVersion: 5},
		Empty:       true, LedgerTopicID: semantics.TopicID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		StartedMs: 1, TimeoutMs: 900000,
	}
	file := golden(t, "checkpoint-v1.hex")
	got, err := decode(file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
	b, err := encode(want)
	if err != nil || !bytes.Equal(b, file) {
		t.Fatalf("%v\ngot  %x\nwant %x", err, b, file)
	}
	if got, want := withStatus(file, semantics.Decided), append([]byte{1, 2}, file[2:len(file)-4]...); !bytes.Equal(got[:len(got)-4], want) {
		t.Fatalf("status decided\ngot  %x\nwant %x", got, want)
	}
	meta := golden(t, "bridge-v1.hex")
	if got := encodeMeta("orders", 1); !bytes.Equal(got, meta) {
		t.Fatalf("got %x, want %x", got, meta)
	}
	if name, format, err := decodeMeta(meta); name != "orders" || format != 1 || err != nil {
		t.Fatal(name, format, err)
	}
	if got, want := checkpointKey(300), []byte{'c', 1, 0, 0, 0, 0, 0, 0, 1, 0x2c}; !bytes.Equal(got, want) {
		t.Fatalf("key %x, want %x", got, want)
	}
}

// TestEveryDamageIsNoticed cuts the value and flips each of its bits; resealed damage must not decode to something that encodes
// to other bytes.
func TestEveryDamageIsNoticed(t *testing.T) {
	file := golden(t, "checkpoint-v1.hex")
	for n := range file {
		if _, err := decode(file[:n]); err == nil {
			t.Errorf("cut to %d bytes it is accepted", n)
		}
	}
	for i := range file {
		for bit := range 8 {
			b := bytes.Clone(file)
			b[i] ^= 1 << bit
			if _, err := decode(b); err == nil {
				t.Errorf("byte %d bit %d flipped: accepted", i, bit)
			}
			strict(t, seal(b[:len(b)-crcBytes]))
		}
	}
	if _, err := decode(seal([]byte{2})); !errors.Is(err, errNewer) {
		t.Errorf("format 2: %v", err)
	}
	if _, err := decode(seal(append(bytes.Clone(file[:len(file)-crcBytes]), 0))); err == nil {
		t.Error("a byte after the end is accepted")
	}
	// A count of 2^63 topics in a value of 50 bytes must not be allocated.
	huge := bytes.Clone(file[:4])
	huge = append(huge, 2, 0)
	huge = append(huge, make([]byte, 4+4+16+3)...)
	huge = append(huge, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)
	if _, err := decode(seal(huge)); err == nil || !strings.Contains(err.Error(), "elements in") {
		t.Errorf("2^63 topics: %v", err)
	}
}

// strict: what decodes encodes to the same bytes.
func strict(t testing.TB, b []byte) {
	c, err := decode(b)
	if err != nil {
		return
	}
	again, err := encode(c)
	if err != nil || !bytes.Equal(again, b) {
		t.Errorf("%x decodes to %+v, which is %x (%v)", b, c, again, err)
	}
}
