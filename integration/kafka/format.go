package kafka

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// format prepares the node's data folder. StorageTool is a JVM of its own that takes as long as half a
// broker start, and what it writes depends only on version, feature and node id: so it runs once for each of
// these, and later clusters copy the small result.
func (c *Cluster) format(ctx context.Context, n *Node) error {
	template := filepath.Join(c.libs, "..", fmt.Sprintf("formatted-%s-tv%d-node%d", c.opts.Version, c.opts.TransactionVersion, n.ID))
	if _, err := os.Stat(template); err == nil {
		return copyFormatted(template, n)
	}
	if err := c.runStorageTool(ctx, n); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(template), "formatted-")
	if err != nil {
		return fmt.Errorf("kafka: format: %w", err)
	}
	defer os.RemoveAll(tmp)
	fresh := filepath.Join(tmp, "data")
	if err := os.CopyFS(fresh, os.DirFS(n.dataDir())); err != nil {
		return fmt.Errorf("kafka: format: %w", err)
	}
	if err := os.Rename(fresh, template); err != nil && !os.IsExist(err) {
		return fmt.Errorf("kafka: format: %w", err)
	}
	return nil
}

func copyFormatted(template string, n *Node) error {
	if err := os.CopyFS(n.dataDir(), os.DirFS(template)); err != nil {
		return fmt.Errorf("kafka: format: %w", err)
	}
	return nil
}

func (c *Cluster) runStorageTool(ctx context.Context, n *Node) error {
	args := append(startupFlags(), "-cp", classPath(c.libs), "kafka.tools.StorageTool",
		"format", "-t", clusterID, "-c", n.propertiesPath())
	if c.opts.TransactionVersion != 0 {
		args = append(args, "--feature", fmt.Sprintf("transaction.version=%d", c.opts.TransactionVersion))
	}
	out, err := exec.CommandContext(ctx, c.java, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kafka: format node %d of Kafka %s: %w\n%s", n.ID, c.opts.Version, err, out)
	}
	return nil
}
