package kafka

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

//go:embed log4j2.properties
var log4j2 []byte

//go:embed log4j.properties
var log4j []byte

// Node is one combined broker and controller. Its methods must not run at the same time as each other.
type Node struct {
	// ID is node.id, counted from 1.
	ID int32

	cluster        *Cluster
	dir            string
	port           int
	controllerPort int
	upstreamPort   int // the proxied listener's own
	proxiedPort    int // what the proxied listener advertises
	proc           *Process
}

// Addr is the address clients use; it stays the same over restarts.
func (n *Node) Addr() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// ProxiedAddr is the address that the second listener of Options.Proxied advertises: a proxy has to listen there and
// carry connections to ProxiedUpstream. Both stay the same over restarts.
func (n *Node) ProxiedAddr() string { return fmt.Sprintf("127.0.0.1:%d", n.proxiedPort) }

// ProxiedUpstream is the address at which the node itself listens for the proxy.
func (n *Node) ProxiedUpstream() string { return fmt.Sprintf("127.0.0.1:%d", n.upstreamPort) }

// LogPath is the file that holds the output of all runs of the node.
func (n *Node) LogPath() string { return filepath.Join(n.dir, "broker.log") }

// PID is the broker's process id.
func (n *Node) PID() int { return n.proc.PID() }

// Running reports whether the process lives (a paused one does).
func (n *Node) Running() bool { return n.proc != nil && n.proc.Running() }

func (n *Node) dataDir() string        { return filepath.Join(n.dir, "data") }
func (n *Node) propertiesPath() string { return filepath.Join(n.dir, "server.properties") }

func (n *Node) writeFiles() error {
	err := errors.Join(
		os.MkdirAll(n.dir, 0o755),
		os.WriteFile(n.propertiesPath(), []byte(n.cluster.serverProperties(n)), 0o644),
		os.WriteFile(filepath.Join(n.dir, "log4j2.properties"), log4j2, 0o644),
		os.WriteFile(filepath.Join(n.dir, "log4j.properties"), log4j, 0o644),
	)
	if err != nil {
		return fmt.Errorf("kafka: node %d: %w", n.ID, err)
	}
	return nil
}

// launch starts the JVM and does not wait until it takes requests.
func (n *Node) launch() error {
	log, err := os.OpenFile(n.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("kafka: node %d: %w", n.ID, err)
	}
	defer log.Close() // the child has its own descriptor
	logging := "-Dlog4j2.configurationFile=" + filepath.Join(n.dir, "log4j2.properties")
	if beforeLog4j2(n.cluster.opts.Version) {
		logging = "-Dlog4j.configuration=file:" + filepath.Join(n.dir, "log4j.properties")
	}
	args := append(startupFlags(), fmt.Sprintf("-Xmx%dm", n.cluster.opts.HeapMiB), logging,
		"-cp", classPath(n.cluster.libs), "kafka.Kafka", n.propertiesPath())
	cmd := exec.Command(n.cluster.java, args...)
	cmd.Dir = n.dir
	cmd.Stdout, cmd.Stderr = log, log
	if n.proc, err = StartProcess(cmd); err != nil {
		return fmt.Errorf("kafka: node %d: %w", n.ID, err)
	}
	return nil
}

// readyPoll is the time between two looks at a booting node.
const readyPoll = 50 * time.Millisecond

// waitReady returns when the node listens and the cluster's metadata lists it: in KRaft that is when the
// controller has unfenced it, and only then can it lead partitions.
func (n *Node) waitReady(ctx context.Context) error {
	for ctx.Err() == nil {
		if !n.Running() {
			if bytes.Contains(n.logTail(), []byte("Address already in use")) {
				return fmt.Errorf("kafka: node %d: %w", n.ID, errPortTaken)
			}
			return fmt.Errorf("kafka: node %d ended while it started, see %s", n.ID, n.LogPath())
		}
		if n.listens() && n.listed(ctx) {
			return nil
		}
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("kafka: node %d is not ready: %w", n.ID, context.Cause(ctx))
}

func (n *Node) listens() bool {
	conn, err := net.DialTimeout("tcp", n.Addr(), time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func (n *Node) listed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	brokers, err := n.cluster.admin.ListBrokers(ctx)
	if err != nil {
		return false
	}
	for _, b := range brokers {
		if b.NodeID == n.ID {
			return true
		}
	}
	return false
}

// Start boots a node that was stopped or killed, on the same port and data, and waits until it is ready.
func (n *Node) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := n.launch(); err != nil {
		return err
	}
	return n.waitReady(ctx)
}

// Kill ends the node with SIGKILL and returns when it is gone.
func (n *Node) Kill() error { return n.proc.Kill() }

// Stop ends the node with SIGTERM, which makes it hand over and flush; it returns when it is gone.
func (n *Node) Stop(ctx context.Context) error {
	if err := n.proc.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if _, err := n.proc.Wait(ctx); err != nil {
		return fmt.Errorf("kafka: stop node %d: %w", n.ID, err)
	}
	return nil
}

// Pause freezes the node (SIGSTOP): its connections stay open and answer nothing.
func (n *Node) Pause() error { return n.proc.Signal(syscall.SIGSTOP) }

// Continue ends a Pause.
func (n *Node) Continue() error { return n.proc.Signal(syscall.SIGCONT) }

// logTailBytes of a node's log go into a failure message.
const logTailBytes = 4 << 10

// logTail is the end of the log without what is of no interest in a failure.
func (n *Node) logTail() []byte {
	b, err := os.ReadFile(n.LogPath())
	if err != nil {
		return []byte(err.Error())
	}
	var kept [][]byte
	for line := range bytes.Lines(b) {
		if !bytes.Contains(line, []byte(" INFO ")) && !bytes.Contains(line, []byte(" = ")) {
			kept = append(kept, line)
		}
	}
	b = bytes.Join(kept, nil)
	return b[max(0, len(b)-logTailBytes):]
}

// Segments lists the log segment files that the node holds of a partition, in the order of their offsets.
func (n *Node) Segments(topic string, partition int32) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(n.dataDir(), fmt.Sprintf("%s-%d", topic, partition), "*.log"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("kafka: node %d has no log of %s/%d", n.ID, topic, partition), err)
	}
	return files, nil // names are offsets of equal length: Glob's order is theirs
}
