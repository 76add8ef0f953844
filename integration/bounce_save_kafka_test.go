//go:build kafka

package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkabridge/integration/kafka"
)

// saveLimit bounds the saving: it runs after a failed test.
const saveLimit = 3 * time.Minute

// saveBounced keeps what tells where a missing record went, if the test has failed: of every node all logs with their
// leader epochs, producer snapshots and the broker's own log, DumpLogSegments' words about source, sink, ledger and the
// coordinator's log, and of every bridge its debug log and state.
func saveBounced(t *testing.T, c *kafka.Cluster, pairs []*bounced) {
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveLimit) // the test's own context has ended
	defer cancel()
	dir, err := saveFolder(t)
	if err != nil {
		t.Error(err)
		return
	}
	for _, n := range c.Nodes() {
		folder := filepath.Dir(n.LogPath())
		err = errors.Join(err, copyFolder(filepath.Join(dir, filepath.Base(folder)), folder))
	}
	for _, b := range pairs {
		err = errors.Join(err, copyFolder(filepath.Join(dir, b.name), b.dir))
	}
	for _, n := range c.Nodes() {
		err = errors.Join(err, dumpNode(ctx, c, n, pairs, filepath.Join(dir, fmt.Sprintf("node%d.dump", n.ID))))
	}
	t.Logf("logs, dumps and states are in %s", dir)
	if err != nil {
		t.Errorf("not everything could be saved: %v", err)
	}
}

func saveFolder(t *testing.T) (string, error) {
	if *bounceDir == "" {
		return os.MkdirTemp("", "kafkabridge-bounces-")
	}
	dir := filepath.Join(*bounceDir, unique(t)+time.Now().Format("-150405"))
	return dir, os.MkdirAll(dir, 0o755)
}

// copyFolder copies a folder that may still be written to; files that go away meanwhile are left out. Kafka's index
// files are left out too: they are preallocated, large, and follow from the logs.
func copyFolder(dst, src string) error {
	return filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(to, 0o755)
		case !e.Type().IsRegular() || strings.HasSuffix(path, "index"):
			return nil
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, os.WriteFile(to, b, 0o644))
	})
}

// dumpNode writes what DumpLogSegments prints about the topics that matter.
func dumpNode(ctx context.Context, c *kafka.Cluster, n *kafka.Node, pairs []*bounced, file string) error {
	var segments []string
	for _, b := range pairs {
		for _, topic := range []string{b.in[0], b.out, b.ledger()} {
			for p := range int32(bouncePartitions) {
				found, err := n.Segments(topic, p)
				if err != nil && topic != b.ledger() { // the ledger has one partition
					return err
				}
				segments = append(segments, found...)
			}
		}
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	return errors.Join(dumpSegments(ctx, c, out, segments), dumpSegments(ctx, c, out, coordinatorSegments(n), "--transaction-log-decoder"))
}

func coordinatorSegments(n *kafka.Node) []string {
	var all []string
	for p := int32(0); ; p++ {
		found, err := n.Segments("__transaction_state", p)
		if err != nil {
			return all
		}
		all = append(all, found...)
	}
}

func dumpSegments(ctx context.Context, c *kafka.Cluster, out *os.File, files []string, decoder ...string) error {
	java, err := kafka.Java()
	if err != nil {
		return err
	}
	libs, err := kafka.Libs(ctx, kafka.Current)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, java, slices.Concat([]string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
		"-cp", filepath.Join(libs, "*"), "org.apache.kafka.tools.DumpLogSegments", "--print-data-log"},
		decoder, []string{"--files", strings.Join(files, ",")})...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("dump of %d segments of %s: %w", len(files), c, err)
	}
	return nil
}
