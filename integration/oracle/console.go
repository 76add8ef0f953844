package oracle

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Separators of the console consumer's output. Control characters, since text payloads hold none of them; a
// topic with arbitrary bytes is read with Read instead.
const (
	fieldSeparator  = "\x1f"
	headerSeparator = "\x1d"
	lineSeparator   = "\x1e"
	nullLiteral     = "\x1anull"
)

// ConsoleSilence is how long the console consumer waits for a record before it stops: it knows no end.
const ConsoleSilence = 5 * time.Second

// Console reads a topic with Kafka's own kafka-console-consumer at read_committed and hands every record to f.
// The payload must be text: the console consumer cannot show other bytes. It returns after ConsoleSilence
// without a record.
func Console(ctx context.Context, bootstrap []string, topic string, f func(Record) error) error {
	args := []string{"--bootstrap-server", strings.Join(bootstrap, ","), "--topic", topic, "--from-beginning",
		"--isolation-level", Committed, "--timeout-ms", fmt.Sprint(ConsoleSilence.Milliseconds()),
		"--group", fmt.Sprintf("oracle-%d", time.Now().UnixNano()),
		"--command-property", "enable.auto.commit=false"}
	for _, p := range []string{"print.timestamp=true", "print.partition=true", "print.offset=true", "print.headers=true",
		"print.key=true", "print.value=true", "key.separator=" + fieldSeparator, "headers.separator=" + headerSeparator,
		"line.separator=" + lineSeparator, "null.literal=" + nullLiteral} {
		args = append(args, "--formatter-property", p)
	}
	j, err := newJava(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", args...)
	if err != nil {
		return err
	}
	defer j.close()
	seen := 0
	err = j.lines(scanRecords, func(line []byte) error {
		r, err := parseConsole(line)
		if err != nil {
			return err
		}
		seen++
		r.Topic = topic
		return f(r)
	})
	if err != nil {
		return err
	}
	// It ends with exit code 0 whatever ended it; what it counted itself is the proof that nothing was lost here.
	if total := fmt.Sprintf("Processed a total of %d messages", seen); !bytes.Contains(j.stderr.Bytes(), []byte(total)) {
		return fmt.Errorf("oracle: %d records read from the console consumer, but it says:\n%s", seen, j.stderr.Bytes())
	}
	return nil
}

// scanRecords splits at lineSeparator.
func scanRecords(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, lineSeparator[0]); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, fmt.Errorf("output ends inside a record: %q", data[:min(len(data), 200)])
	}
	return 0, nil, nil
}

// parseConsole reads CreateTime:n, Partition:n, Offset:n, headers, key, value.
func parseConsole(line []byte) (Record, error) {
	fields := strings.Split(string(line), fieldSeparator)
	if len(fields) != 6 {
		return Record{}, fmt.Errorf("not a console record: %q", line[:min(len(line), 200)])
	}
	var r Record
	var err error
	for i, want := range []struct {
		name string
		set  func(int64)
	}{
		{"CreateTime:", func(n int64) { r.Timestamp = n }},
		{"Partition:", func(n int64) { r.Partition = int32(n) }},
		{"Offset:", func(n int64) { r.Offset = n }},
	} {
		text, found := strings.CutPrefix(fields[i], want.name)
		if !found {
			return r, fmt.Errorf("console record without %s: %q", want.name, line[:min(len(line), 200)])
		}
		n, parseErr := strconv.ParseInt(text, 10, 64)
		if parseErr != nil {
			err = fmt.Errorf("console record %q: %w", line[:min(len(line), 200)], parseErr)
		}
		want.set(n)
	}
	r.Headers = consoleHeaders(fields[3])
	r.Key, r.Value = consoleBytes(fields[4]), consoleBytes(fields[5])
	return r, err
}

func consoleHeaders(field string) []Header {
	if field == "NO_HEADERS" || field == "" {
		return nil
	}
	var all []Header
	for pair := range strings.SplitSeq(field, headerSeparator) {
		k, v, _ := strings.Cut(pair, ":")
		all = append(all, Header{Key: k, Value: consoleBytes(v)})
	}
	return all
}

func consoleBytes(s string) []byte {
	if s == nullLiteral {
		return nil
	}
	return []byte(s)
}
