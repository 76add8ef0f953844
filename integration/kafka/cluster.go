package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options of a cluster. The zero value is one node of Kafka Current with the broker's own transaction version.
type Options struct {
	// Version of Apache Kafka; default Current.
	Version string
	// TransactionVersion is the finalized feature level, 1 or 2; 0 leaves what the version has as default.
	// Brokers before 4.0 know no 2.
	TransactionVersion int
	// Nodes is the number of combined broker and controller nodes; default 1. Three fit on two cores.
	Nodes int
	// Port is that of the first node; 0: any free one.
	Port int
	// Dir holds data, configuration and logs; default a new temporary folder that Close removes.
	Dir string
	// Properties win over the defaults of server.properties.
	Properties map[string]string
	// HeapMiB is the heap limit of one node in MiB; default 512.
	HeapMiB int
	// Proxied gives every node a second listener for clients, which advertises an address where a proxy is to listen:
	// see Node.ProxiedAddr. Brokers talk to each other past it, and so does whoever starts at Bootstrap.
	Proxied bool
	// Secure adds listeners for tests of authentication and permissions; nil: none. Only for clusters of one node.
	Secure *Secure
}

// Cluster is a running cluster. Its methods are safe for concurrent use, those of one Node are not.
type Cluster struct {
	opts  Options
	java  string
	libs  string
	dir   string
	owned bool // dir is ours to remove
	nodes []*Node
	admin *kadm.Client
}

// startTimeout bounds the boot of a cluster, and of a node. A two-core machine needs a tenth of it; one that does much else
// at the same time has needed more than 90 s for three nodes.
const startTimeout = 4 * time.Minute

// startAttempts: a port that was free when it was chosen can be somebody else's when the broker binds it.
const startAttempts = 3

// Start boots a cluster and returns when every node takes requests. The caller must Close it. ErrUnavailable
// says that this machine cannot run Kafka at all.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Version == "" {
		o.Version = Current
	}
	o.Nodes = max(o.Nodes, 1)
	if o.HeapMiB == 0 {
		o.HeapMiB = 512
	}
	java, err := Java()
	if err != nil {
		return nil, err
	}
	libs, err := Libs(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c := &Cluster{opts: o, java: java, libs: libs}
		err := c.boot(ctx)
		if err == nil {
			return c, nil
		}
		logs := c.Logs()
		c.Close()
		if attempt == startAttempts || !errors.Is(err, errPortTaken) {
			return nil, fmt.Errorf("%w\n%s", err, logs)
		}
	}
}

func (c *Cluster) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.prepare(ctx); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.launch(); err != nil {
			return err
		}
	}
	admin, err := c.NewAdmin()
	if err != nil {
		return err
	}
	c.admin = admin
	for _, n := range c.nodes {
		if err := n.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) prepare(ctx context.Context) error {
	c.dir = c.opts.Dir
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "kafka-")
		if err != nil {
			return fmt.Errorf("kafka: data folder: %w", err)
		}
		c.dir, c.owned = dir, true
	}
	for id := 1; id <= c.opts.Nodes; id++ {
		ports, err := freePorts(4)
		if err != nil {
			return err
		}
		if port := c.opts.Port; port != 0 && len(c.nodes) == 0 {
			ports[0] = port
		}
		c.nodes = append(c.nodes, &Node{ID: int32(id), cluster: c, port: ports[0], controllerPort: ports[1],
			upstreamPort: ports[2], proxiedPort: ports[3], dir: filepath.Join(c.dir, fmt.Sprintf("node%d-%d", id, ports[0]))})
	}
	for _, n := range c.nodes {
		if err := n.writeFiles(); err != nil {
			return err
		}
		if err := c.format(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// Bootstrap lists the nodes' addresses, "127.0.0.1:port".
func (c *Cluster) Bootstrap() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// Proxied is what Options asked for.
func (c *Cluster) Proxied() bool { return c.opts.Proxied }

// ProxiedBootstrap lists the nodes' addresses behind which the proxies have to listen, "127.0.0.1:port"; only with
// Options.Proxied.
func (c *Cluster) ProxiedBootstrap() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.ProxiedAddr()
	}
	return addrs
}

// Node returns the node with an id, counted from 1.
func (c *Cluster) Node(id int32) *Node { return c.nodes[id-1] }

// Nodes returns all nodes in the order of their ids.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Version is the Kafka version that runs.
func (c *Cluster) Version() string { return c.opts.Version }

// TransactionVersion is what Options asked for; 0 is the version's default.
func (c *Cluster) TransactionVersion() int { return c.opts.TransactionVersion }

// String names version and transaction version, for test names and reports.
func (c *Cluster) String() string {
	if c.opts.TransactionVersion == 0 {
		return "kafka-" + c.opts.Version
	}
	return fmt.Sprintf("kafka-%s-tv%d", c.opts.Version, c.opts.TransactionVersion)
}

// Admin returns the cluster's own admin client; Close closes it.
func (c *Cluster) Admin() *kadm.Client { return c.admin }

// NewAdmin returns an admin client that the caller closes.
func (c *Cluster) NewAdmin(opts ...kgo.Opt) (*kadm.Client, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap()...),
		kgo.MetadataMinAge(100 * time.Millisecond), // a topic made a moment ago must be seen at once
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka: admin client: %w", err)
	}
	return kadm.NewClient(cl), nil
}

// Logs returns the end of every node's log, for a failure message.
func (c *Cluster) Logs() string {
	var all string
	for _, n := range c.nodes {
		all += fmt.Sprintf("--- node %d, end of %s\n%s\n", n.ID, n.LogPath(), n.logTail())
	}
	return all
}

// Close kills all nodes and removes the folder if Start made it. It may be called twice.
func (c *Cluster) Close() {
	if c.admin != nil {
		c.admin.Close()
		c.admin = nil
	}
	for _, n := range c.nodes {
		if n.proc != nil {
			_ = n.proc.Kill() // the only error is a process that has ended already
		}
	}
	if c.owned {
		_ = os.RemoveAll(c.dir) // left-overs in the temporary folder harm nothing
	}
}
