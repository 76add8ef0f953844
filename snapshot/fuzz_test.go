package snapshot

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/metrics"
	"testing"

	"kafkabridge/semantics"
)

// allocated is what the process has allocated so far, in bytes, large objects exactly.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// bounded decodes what may be hostile: memory follows from the size of the value, whatever it claims, and an error is short.
// A map entry takes some forty bytes for the three that it has in the value.
func bounded(t testing.TB, b []byte) {
	before := allocated()
	_, err := decode(b)
	if n := allocated() - before; n > 64*uint64(len(b))+1<<20 {
		t.Fatalf("%d bytes allocate %d (%v)", len(b), n, err)
	}
	if err != nil && len(err.Error()) > 4*len(b)+1000 {
		t.Fatalf("an error of %d bytes", len(err.Error()))
	}
}

// FuzzDecode: no bytes make the decoder panic or allocate without bound, and what decodes encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	file := golden(f, "checkpoint-v1.hex")
	f.Add(file[:len(file)-crcBytes])
	b, err := encode(full(300, semantics.Proposed))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-crcBytes])
	f.Fuzz(func(t *testing.T, body []byte) {
		sealed := seal(bytes.Clone(body)) // or the fuzzer would never get past the checksum
		bounded(t, sealed)
		bounded(t, body)
		strict(t, sealed)
		strict(t, body)
		if bridge, format, err := decodeMeta(sealed); err == nil && !bytes.Equal(encodeMeta(bridge, format), sealed) {
			t.Errorf("%x decodes to bridge %q, format %d, which is other bytes", sealed, bridge, format)
		}
	})
}

// FuzzCheckpoint: every checkpoint that encodes decodes to the same, also after its status was changed in place.
func FuzzCheckpoint(f *testing.F) {
	f.Add(uint64(1), int64(1), "6f1c", "orders-0", int64(4001), int16(17), int64(1_700_000_000_000), []byte("state"))
	f.Add(uint64(2), int64(1)<<62, "", "", int64(-1), int16(-1), int64(-1)<<63, []byte{})
	f.Add(uint64(3), int64(-7), "\xff\xfe", "a\x00b", int64(1)<<62, int16(32766), int64(0), []byte{0, 255})
	f.Fuzz(func(t *testing.T, seed uint64, epoch int64, incarnation, id string, pid int64, pepoch int16, ms int64, state []byte) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := semantics.Checkpoint{
			Epoch: semantics.Epoch(epoch), Semantic: semantics.Semantic(rng.IntN(5)), Status: semantics.Status(rng.IntN(5)), Incarnation: incarnation,
			Transaction: semantics.Transaction{ID: id, ProducerID: pid, ProducerEpoch: pepoch, EndTxnVersion: int16(rng.IntN(7))},
			Empty:       seed&1 != 0, StartedMs: ms, TimeoutMs: -ms, SavedMs: ms / 3,
		}
		if seed&2 != 0 {
			c.Follows = semantics.Transaction{ID: incarnation, ProducerID: -pid, ProducerEpoch: -pepoch}
			c.LedgerTopicID = semantics.TopicID{byte(pid), 15: byte(ms)}
		}
		if seed&4 != 0 {
			c.Positions = oddPositions(rng, id)
		}
		if seed&8 != 0 {
			c.State = map[string][]byte{id: bytes.Clone(state), "": {}}
		}
		checkEncoding(t, c)
	})
}

func oddPositions(rng *rand.Rand, name string) semantics.Positions {
	p := semantics.Positions{}
	for i := range rng.IntN(5) {
		topic := semantics.SourceTopic{Source: fmt.Sprint(name, i%2), Topic: fmt.Sprint(i, name)}
		p[topic] = semantics.TopicPositions{ID: semantics.TopicID{byte(rng.Uint32())}, Partitions: map[int32]semantics.Position{}}
		for range rng.IntN(5) {
			p[topic].Partitions[int32(rng.Uint32())] = semantics.Position{Offset: int64(rng.Uint64()), LeaderEpoch: int32(rng.Uint32())}
		}
	}
	return p
}

func checkEncoding(t *testing.T, c semantics.Checkpoint) {
	b, err := encode(c)
	valid := c.Epoch >= 1 && c.Status >= semantics.Proposed && c.Status <= semantics.Aborted && c.Semantic >= semantics.None && c.Semantic <= semantics.ExactlyOnce
	if valid != (err == nil) {
		t.Fatalf("%+v encodes with %v", c, err)
	}
	if err != nil {
		return
	}
	// bytes.Clone makes nil of what is empty and nil only; the decoder gives empty for empty.
	for k, v := range c.State {
		if v == nil {
			c.State[k] = []byte{}
		}
	}
	for _, status := range []semantics.Status{c.Status, semantics.Decided, semantics.Aborted} {
		want := c
		want.Status = status
		got, err := decode(withStatus(b, status))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
	}
}
