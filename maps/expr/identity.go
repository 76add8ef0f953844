package expr

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"kafkabridge/bridge"
)

// ID stands for a value: the first 128 bits of the SHA-256 of its canonical form, which is durable in checkpoints. Two
// different values have the same ID with a probability of 2^-128; among a million million remembered values there is a pair
// with about 10^-15. Nobody can make two on purpose in fewer than 2^64 attempts.
type ID [16]byte

// deepest is how deep an identifying value may be nested.
const deepest = 100

// Identity evaluates a program and gives the ID of what comes out; known is false for null, which identifies nothing. Values
// have the same ID when they have the same type and content. Numbers count as one type where they are whole and in
// 64 bits (1, 1u and 1.0), text and bytes as two. Members of maps have no order.
func (p *Program) Identity(in *Input, r *bridge.Record) (id ID, known bool, err error) {
	out, err := p.eval(in, r)
	if err != nil {
		return ID{}, false, err
	}
	if out == types.NullValue {
		return ID{}, false, nil
	}
	if in.canonical, err = appendCanonical(in.canonical[:0], out, 0); err != nil {
		return ID{}, false, err
	}
	sum := sha256.Sum256(in.canonical)
	return ID(sum[:len(ID{})]), true, nil
}

// appendCanonical writes a value as a letter for its type, and its content, so that no two are written alike.
func appendCanonical(b []byte, v ref.Val, depth int) ([]byte, error) {
	switch v := v.(type) {
	case types.Null:
		return append(b, 'n'), nil
	case types.Bool:
		if v {
			return append(b, 't'), nil
		}
		return append(b, 'f'), nil
	case types.Int:
		return number64(b, 'i', uint64(v)), nil
	case types.Uint:
		if v <= math.MaxInt64 {
			return number64(b, 'i', uint64(v)), nil
		}
		return number64(b, 'u', uint64(v)), nil
	case types.Double:
		if i := int64(v); v == types.Double(math.Trunc(float64(v))) && v >= -(1<<63) && v < 1<<63 {
			return number64(b, 'i', uint64(i)), nil
		}
		return number64(b, 'd', math.Float64bits(float64(v))), nil
	case types.String:
		return append(number64(b, 's', uint64(len(v))), v...), nil
	case types.Bytes:
		return append(number64(b, 'b', uint64(len(v))), v...), nil
	case types.Timestamp:
		return number64(number64(b, 'T', uint64(v.Unix())), 'N', uint64(v.Nanosecond())), nil
	case types.Duration:
		return number64(b, 'D', uint64(v.Duration)), nil
	case traits.Mapper:
		return canonicalMap(b, v, depth+1)
	case traits.Lister:
		return canonicalList(b, v, depth+1)
	case *types.Err:
		return b, v
	}
	return b, fmt.Errorf("a value of type %s identifies nothing", v.Type().TypeName())
}

func number64(b []byte, kind byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, kind), n)
}

func canonicalList(b []byte, l traits.Lister, depth int) ([]byte, error) {
	if depth > deepest {
		return b, fmt.Errorf("the value is nested deeper than %d", deepest)
	}
	b = append(b, 'l')
	var err error
	for it := l.Iterator(); it.HasNext() == types.True; {
		if b, err = appendCanonical(b, it.Next(), depth); err != nil {
			return b, err
		}
	}
	return append(b, 'e'), nil
}

func canonicalMap(b []byte, m traits.Mapper, depth int) ([]byte, error) {
	if depth > deepest {
		return b, fmt.Errorf("the value is nested deeper than %d", deepest)
	}
	var members [][]byte
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		member, err := appendCanonical(nil, key, depth)
		if err != nil {
			return b, err
		}
		if member, err = appendCanonical(member, m.Get(key), depth); err != nil {
			return b, err
		}
		members = append(members, member)
	}
	slices.SortFunc(members, bytes.Compare)
	b = append(b, 'm')
	for _, member := range members {
		b = append(b, member...)
	}
	return append(b, 'e'), nil
}
