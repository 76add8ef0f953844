package batch

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// oneRecord is a record written by hand from the format: length 11, attributes 0, timestamp delta 1, offset delta 0, key
// "k", value "v", one header "h" = null.
var oneRecord = string([]byte{11 * 2, 0, 2, 0, 2, 'k', 2, 'v', 2, 2, 'h', 1})

func header(records, lastDelta int32) Header {
	return Header{FirstOffset: 100, FirstTimestamp: 1000, Magic: 2, NumRecords: records, LastOffsetDelta: lastDelta}
}

// readAll returns how many records were read and the error.
func readAll(h Header, payload string) (int, error) {
	var r Reader
	var rec Record
	n := 0
	for r.Reset(h, []byte(payload)); r.Next(&rec); n++ {
		rec.Headers.AppendTo(nil)
	}
	return n, r.Err()
}

func TestReaderByHand(t *testing.T) {
	var r Reader
	var rec Record
	r.Reset(header(1, 0), []byte(oneRecord))
	if !r.Next(&rec) {
		t.Fatal(r.Err())
	}
	if got, want := dumpRecord(&rec), "record offset=100 timestamp=1001 key=0x6b value=0x76 headers=0x68:null,\n"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if r.Next(&rec) || r.Err() != nil {
		t.Errorf("a second record, or %v", r.Err())
	}
}

func TestReaderRefuses(t *testing.T) {
	edit := func(at int, c byte) string {
		b := []byte(oneRecord)
		b[at] = c
		return string(b)
	}
	second := edit(3, 2) // offset delta 1
	for name, c := range map[string]struct {
		h       Header
		payload string
		good    int    // records before the bad one
		want    string // in the error
	}{
		"fewer records":              {header(2, 1), oneRecord, 1, "length"},
		"more records":               {header(1, 1), oneRecord + second, 1, "12 bytes behind the last"},
		"trailing byte":              {header(1, 0), oneRecord + "\x00", 1, "behind the last"},
		"no records, some bytes":     {header(0, 0), "\x00", 0, "behind the last"},
		"cut":                        {header(1, 0), oneRecord[:11], 0, "length"},
		"empty record":               {header(1, 0), "\x00", 0, "length"},
		"length -1":                  {header(1, 0), "\x01" + oneRecord[1:], 0, "length of -1"},
		"length beyond the end":      {header(1, 0), edit(0, 12*2), 0, "length"},
		"length too short":           {header(1, 0), edit(0, 10*2) + "", 0, "header"},
		"length too long":            {header(1, 0), edit(0, 12*2) + "x", 0, "behind its headers"},
		"length of 6 bytes":          {header(1, 0), "\x80\x80\x80\x80\x80\x00" + oneRecord[1:], 0, "length"},
		"length of 33 bits":          {header(1, 0), "\x96\x80\x80\x80\x10" + oneRecord[1:], 0, "length"},
		"offset delta negative":      {header(1, 0), edit(3, 1), 0, "offset delta -1"},
		"offset delta too large":     {header(1, 0), second, 0, "offset delta 1"},
		"offset delta repeated":      {header(2, 5), oneRecord + oneRecord, 1, "offset delta 0"},
		"offset delta decreasing":    {header(2, 5), second + oneRecord, 1, "offset delta 0"},
		"key length -2":              {header(1, 0), edit(4, 3), 0, "key"},
		"key beyond the record":      {header(1, 0), edit(4, 100), 0, "key"},
		"value length -2":            {header(1, 0), edit(6, 3), 0, "value"},
		"value beyond the record":    {header(1, 0), edit(6, 100), 0, "value"},
		"header count -1":            {header(1, 0), edit(8, 1), 0, "headers"},
		"header count -1, no more":   {header(1, 0), "\x0e\x00\x02\x00\x02k\x01\x01", 0, "headers"},
		"header count too large":     {header(1, 0), edit(8, 126), 0, "headers"},
		"header count one too large": {header(1, 0), edit(8, 4), 0, "header"},
		"header count too small":     {header(1, 0), edit(8, 0), 0, "behind its headers"},
		"header key null":            {header(1, 0), edit(9, 1), 0, "header key"},
		"header key beyond":          {header(1, 0), edit(9, 8), 0, "header key"},
		"header value length -2":     {header(1, 0), edit(11, 3), 0, "header value"},
		"header value beyond":        {header(1, 0), edit(11, 2), 0, "header value"},
		"timestamp without an end":   {header(1, 0), "\x16\x00" + strings.Repeat("\x80", 10), 0, "timestamp"},
		"timestamp of 11 bytes":      {header(1, 0), "\x26\x00" + strings.Repeat("\x80", 10) + "\x00\x00\x01\x01\x00\x00\x00\x00", 0, "timestamp"},
	} {
		n, err := readAll(c.h, c.payload)
		if !errors.Is(err, ErrCorrupt) || n != c.good {
			t.Errorf("%s: %d records, %v; want %d and an error", name, n, err, c.good)
		} else if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "offset 100") {
			t.Errorf("%s: %q does not name the batch and %q", name, err, c.want)
		}
	}
}

// Gaps between offsets are what compaction leaves.
func TestReaderGaps(t *testing.T) {
	b := []byte(oneRecord)
	b[3] = 2 * 40
	if n, err := readAll(header(2, 63), oneRecord+string(b)); n != 2 || err != nil {
		t.Errorf("%d records, %v", n, err)
	}
}

// A longer encoding of a number than needed is odd, but every Kafka client reads it.
func TestReaderLongVarint(t *testing.T) {
	if n, err := readAll(header(1, 0), "\x96\x80\x80\x80\x00"+oneRecord[1:]); n != 1 || err != nil {
		t.Errorf("%d records, %v", n, err)
	}
}

// A map that appends to a view must not write into the next field.
func TestViewsAreCapped(t *testing.T) {
	payload := []byte(oneRecord)
	var r Reader
	var rec Record
	r.Reset(header(1, 0), payload)
	if !r.Next(&rec) {
		t.Fatal(r.Err())
	}
	_ = append(rec.Key, 'X')
	_ = append(rec.Value, 'X')
	_ = append(rec.Headers.Raw(), 'X')
	_ = append(rec.Headers.AppendTo(nil)[0].Key, 'X')
	if !bytes.Equal(payload, []byte(oneRecord)) {
		t.Errorf("the payload has changed: %x", payload)
	}
}
