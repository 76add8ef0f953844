package oracle

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Isolation levels of a reader.
const (
	Committed   = "read_committed"
	Uncommitted = "read_uncommitted"
)

// Read reads topics from their beginning to the last stable offsets (or, uncommitted, the high watermarks) they
// have now, and hands every record to f, in order per partition. Several minutes of silence end it with an
// error; records that arrive while it reads are left out.
func Read(ctx context.Context, bootstrap []string, isolation string, topics []string, f func(Record) error) error {
	j, err := newJava(ctx, "Oracle", append([]string{strings.Join(bootstrap, ","), isolation}, topics...)...)
	if err != nil {
		return err
	}
	defer j.close()
	ends := 0
	err = j.lines(bufio.ScanLines, func(line []byte) error {
		if bytes.HasPrefix(line, []byte("E ")) {
			ends++
			return nil
		}
		r, err := parse(line)
		if err != nil {
			return err
		}
		return f(r)
	})
	if err == nil && ends == 0 {
		return fmt.Errorf("oracle: it ended before the ends of %v", topics)
	}
	return err
}

// ReadAll collects what Read sees: for small topics.
func ReadAll(ctx context.Context, bootstrap []string, isolation string, topics ...string) ([]Record, error) {
	var all []Record
	err := Read(ctx, bootstrap, isolation, topics, func(r Record) error {
		all = append(all, r)
		return nil
	})
	return all, err
}

func parse(line []byte) (Record, error) {
	fields := bytes.Split(line, []byte(" "))
	if len(fields) != 9 || string(fields[0]) != "R" {
		return Record{}, fmt.Errorf("not a record line: %q", line[:min(len(line), 200)])
	}
	r := Record{Topic: string(fields[1])}
	var errs [6]error
	partition, err := strconv.ParseInt(string(fields[2]), 10, 32)
	r.Partition, errs[0] = int32(partition), err
	r.Offset, errs[1] = strconv.ParseInt(string(fields[3]), 10, 64)
	r.Timestamp, errs[2] = strconv.ParseInt(string(fields[4]), 10, 64)
	r.Key, errs[3] = parseBytes(fields[5])
	r.Value, errs[4] = parseBytes(fields[6])
	hash, err := strconv.ParseInt(string(fields[8]), 10, 32)
	r.KeyHash, errs[5] = int32(hash), err
	for _, err := range errs {
		if err != nil {
			return Record{}, fmt.Errorf("record line %q: %w", line[:min(len(line), 200)], err)
		}
	}
	r.Headers, err = parseHeaders(fields[7])
	return r, err
}

func parseHeaders(field []byte) ([]Header, error) {
	if string(field) == "." {
		return nil, nil
	}
	var all []Header
	for pair := range bytes.SplitSeq(field, []byte(",")) {
		k, v, found := bytes.Cut(pair, []byte("="))
		if !found {
			return nil, fmt.Errorf("not a header: %q", pair)
		}
		key, err := parseBytes(k)
		if err != nil {
			return nil, fmt.Errorf("header key %q: %w", k, err)
		}
		value, err := parseBytes(v)
		if err != nil {
			return nil, fmt.Errorf("header value %q: %w", v, err)
		}
		all = append(all, Header{Key: string(key), Value: value})
	}
	return all, nil
}

// parseBytes: "-" is null, "x" and hex are bytes, also none.
func parseBytes(field []byte) ([]byte, error) {
	if string(field) == "-" {
		return nil, nil
	}
	if len(field) == 0 || field[0] != 'x' {
		return nil, fmt.Errorf("not bytes: %q", field)
	}
	b := make([]byte, (len(field)-1)/2)
	if _, err := hex.Decode(b, field[1:]); err != nil {
		return nil, fmt.Errorf("not hex: %w", err)
	}
	return b, nil
}
