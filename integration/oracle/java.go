package oracle

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"kafkabridge/integration/kafka"
)

//go:embed Oracle.java
var program []byte

//go:embed log4j2.properties
var logging []byte

// java is a run of a JVM that has the jars of the newest Kafka: its clients read brokers of every version, and
// so one reader judges them all.
type java struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	dir    string
}

// newJava prepares a run of a class of Kafka's or of Oracle itself.
func newJava(ctx context.Context, class string, args ...string) (*java, error) {
	path, err := kafka.Java()
	if err != nil {
		return nil, err
	}
	libs, err := kafka.Libs(ctx, kafka.Current)
	if err != nil {
		return nil, err
	}
	classes, err := compiled(ctx, path, libs)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	j := &java{dir: dir}
	if err := os.WriteFile(filepath.Join(dir, "log4j2.properties"), logging, 0o644); err != nil {
		j.close()
		return nil, fmt.Errorf("oracle: %w", err)
	}
	j.cmd = exec.CommandContext(ctx, path, append([]string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
		"-Dlog4j2.configurationFile=" + filepath.Join(dir, "log4j2.properties"),
		"-cp", classes + string(filepath.ListSeparator) + filepath.Join(libs, "*"), class}, args...)...)
	j.cmd.Dir = dir
	j.cmd.Stderr = &j.stderr
	return j, nil
}

func (j *java) close() { _ = os.RemoveAll(j.dir) }

// lines runs the program and hands every line of its output to f, without the line's end and valid only during
// the call. It fails when the program does, with what that wrote to standard error.
func (j *java) lines(split bufio.SplitFunc, f func(line []byte) error) error {
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("oracle: %w", err)
	}
	if err := j.cmd.Start(); err != nil {
		return fmt.Errorf("oracle: %w", err)
	}
	scan := bufio.NewScanner(out)
	scan.Buffer(make([]byte, 1<<20), 64<<20)
	scan.Split(split)
	for scan.Scan() && err == nil {
		err = f(scan.Bytes())
	}
	if err == nil {
		err = scan.Err()
	}
	_, _ = io.Copy(io.Discard, out) // let the program end; what counts was read or has failed
	if waitErr := j.cmd.Wait(); waitErr != nil && err == nil {
		err = waitErr
	}
	if err != nil {
		return fmt.Errorf("oracle: %w\n%s", err, j.stderr.Bytes())
	}
	return nil
}
