package expr

import (
	"errors"
	"fmt"
	"unsafe"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"kafkabridge/bridge"
)

func (p *Program) eval(in *Input, r *bridge.Record) (ref.Val, error) {
	in.begin(r, p.want != Bool)
	out, _, err := p.program.Eval(in)
	if err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	return out, nil
}

func (p *Program) wrong(out ref.Val) error {
	return fmt.Errorf("the expression gives %s, and must give %s", out.Type().TypeName(), p.want)
}

// Bool evaluates a program of the result Bool.
func (p *Program) Bool(in *Input, r *bridge.Record) (bool, error) {
	out, err := p.eval(in, r)
	if err != nil {
		return false, err
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, p.wrong(out)
	}
	return bool(b), nil
}

// Text evaluates a program of the result Text. The text is valid until the next evaluation with in, and no longer than the record.
func (p *Program) Text(in *Input, r *bridge.Record) (string, error) {
	out, err := p.eval(in, r)
	if err != nil {
		return "", err
	}
	s, ok := out.(types.String)
	if !ok {
		return "", p.wrong(out)
	}
	return string(s), nil
}

// Bytes evaluates a program of the result Bytes; nil is null. The bytes must not be written to, and are valid like those of Text.
func (p *Program) Bytes(in *Input, r *bridge.Record) ([]byte, error) {
	out, err := p.eval(in, r)
	if err != nil {
		return nil, err
	}
	switch v := out.(type) {
	case types.Null:
		return nil, nil
	case types.Bytes:
		return append([]byte{}, v...), nil // not nil when it is empty
	case types.String:
		if v == "" {
			return []byte{}, nil
		}
		return unsafe.Slice(unsafe.StringData(string(v)), len(v)), nil
	}
	return nil, p.wrong(out)
}

// Time evaluates a program of the result Time, to Unix milliseconds; parts of a millisecond are cut off.
func (p *Program) Time(in *Input, r *bridge.Record) (int64, error) {
	out, err := p.eval(in, r)
	if err != nil {
		return 0, err
	}
	switch v := out.(type) {
	case types.Int:
		return int64(v), nil
	case types.Timestamp:
		return v.UnixMilli(), nil
	}
	return 0, p.wrong(out)
}
