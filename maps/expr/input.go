package expr

import (
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"kafkabridge/bridge"
	"kafkabridge/maps/document"
)

// Input is a record as expressions see it. One goroutine owns it; the zero value is ready.
type Input struct {
	record  *bridge.Record
	exact   bool // numbers must not be rounded
	own     document.Document
	headers headerMap
	texts   cells[types.String]
	ints    cells[types.Int]
	doubles cells[types.Double]
	times   cells[types.Timestamp]
	objects []*object
	used    int // of objects

	canonical []byte // of an identity
}

// begin takes the record for the next evaluation. What the evaluation before returned is not valid any more.
func (in *Input) begin(r *bridge.Record, exact bool) {
	in.record, in.exact = r, exact
	in.texts.reset()
	in.ints.reset()
	in.doubles.reset()
	in.times.reset()
	in.used = 0
}

// ResolveName implements CEL's Activation: what a variable is.
func (in *Input) ResolveName(name string) (any, bool) {
	switch name {
	case "key":
		return in.text(in.record.Key), true
	case "value":
		return in.text(in.record.Value), true
	case "json":
		return in.json(), true
	case "headers":
		in.headers.in = in
		return &in.headers, true
	case "source":
		return in.texts.put(types.String(in.record.Source)), true
	case "topic":
		return in.texts.put(types.String(in.record.Topic)), true
	case "partition":
		return in.ints.put(types.Int(in.record.Partition)), true
	case "offset":
		return in.ints.put(types.Int(in.record.Offset)), true
	case "timestamp":
		return in.timestamp(), true
	}
	return nil, false
}

// Parent implements CEL's Activation: there is no other.
func (in *Input) Parent() interpreter.Activation { return nil }

func (in *Input) text(b []byte) ref.Val {
	if b == nil {
		return types.NullValue
	}
	return in.texts.put(types.String(view(b)))
}

// CEL knows the years 1 to 9999.
var first, last = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

func (in *Input) timestamp() ref.Val {
	if t := in.record.Timestamp; t < first || t >= last {
		return types.NewErr("the timestamp %d is not in the years 1 to 9999", t)
	}
	return in.times.put(types.Timestamp{Time: time.UnixMilli(in.record.Timestamp).UTC()})
}

func (in *Input) json() ref.Val {
	if in.record.Value == nil {
		return types.NullValue
	}
	root, err := document.Of(in.record, &in.own)
	if err != nil {
		return types.WrapErr(err)
	}
	return in.value(root)
}
