package expr

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// number is a JSON number in CEL, or an error where CEL has none that is near enough.
func (in *Input) number(raw []byte) ref.Val {
	text := view(raw)
	if !bytes.ContainsAny(raw, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return in.ints.put(types.Int(i))
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return types.Uint(u)
		}
		return types.NewErr("the number %s has more than 64 bits", excerpt(text))
	}
	f, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) || f == 0 && !zero(text) {
		return types.NewErr("the number %s is not in the range of a double", excerpt(text))
	}
	if in.exact && !holds(f, text) {
		return types.NewErr("the number %s has more digits than a double", excerpt(text))
	}
	return in.doubles.put(types.Double(f))
}

func excerpt(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return strings.Clone(text)
}

// holds says whether f is the double that stands for exactly the decimal number in text: whether writing it gives it back.
func holds(f float64, text string) bool {
	if len(text) <= 15 {
		return true // 15 digits always come back
	}
	d1, e1 := decimal(text)
	d2, e2 := decimal(strconv.FormatFloat(math.Abs(f), 'e', -1, 64))
	return d1 == d2 && (e1 == e2 || d1 == "")
}

// decimal splits a JSON number into its digits, without zeros at both ends, and the exponent of 0.digits; the sign is lost.
func decimal(text string) (digits string, exponent int) {
	mantissa, e, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	if e != "" {
		n, err := strconv.Atoi(e)
		if err != nil {
			return text, 0 // out of all ranges; never equal to what FormatFloat writes
		}
		exponent = n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent += len(whole)
	digits = whole + fraction
	trimmed := strings.TrimLeft(digits, "0")
	exponent -= len(digits) - len(trimmed)
	return strings.TrimRight(trimmed, "0"), exponent
}

func zero(text string) bool {
	digits, _ := decimal(text)
	return digits == ""
}
