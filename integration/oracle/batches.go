package oracle

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"strings"
)

// Batch is a record batch as it lies in the broker's log.
type Batch struct {
	BaseOffset int64
	Count      int
	Size       int // bytes, with the header
	Codec      string
	Control    bool
}

// Kafka 3 and 4 print the same names. A compacted batch may have count 0.
var batchLine = regexp.MustCompile(`^baseOffset: (\d+) .*count: (\d+) .*isControl: (\w+) .*size: (\d+) .*compresscodec: (\w+)`)

// Batches reads segment files of a broker's log, in order, with Kafka's own DumpLogSegments. It tells whether a
// batch came through as it was: number of records, size and codec are those of the source.
func Batches(ctx context.Context, files []string) ([]Batch, error) {
	j, err := newJava(ctx, "org.apache.kafka.tools.DumpLogSegments", "--files", strings.Join(files, ","))
	if err != nil {
		return nil, err
	}
	defer j.close()
	var all []Batch
	err = j.lines(bufio.ScanLines, func(line []byte) error {
		m := batchLine.FindSubmatch(line)
		if m == nil {
			return nil // headings
		}
		var b Batch
		b.Codec, b.Control = string(m[5]), string(m[3]) == "true"
		if _, err := fmt.Sscan(string(m[1])+" "+string(m[2])+" "+string(m[4]), &b.BaseOffset, &b.Count, &b.Size); err != nil {
			return fmt.Errorf("batch line %q: %w", line, err)
		}
		all = append(all, b)
		return nil
	})
	return all, err
}
