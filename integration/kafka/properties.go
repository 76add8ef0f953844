package kafka

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// clusterID is the id every cluster is formatted with: formatted folders are cached and copied.
const clusterID = "a2Fma2FicmlkZ2UtdGVzdA"

// serverProperties renders server.properties of one combined node. Options.Properties win over all defaults.
func (c *Cluster) serverProperties(n *Node) string {
	voters := make([]string, len(c.nodes))
	for i, v := range c.nodes {
		voters[i] = fmt.Sprintf("%d@127.0.0.1:%d", v.ID, v.controllerPort)
	}
	replicas := fmt.Sprint(min(3, len(c.nodes)))
	inSync := fmt.Sprint(min(2, len(c.nodes)))
	p := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          fmt.Sprint(n.ID),
		"controller.quorum.voters":                         strings.Join(voters, ","),
		"listeners":                                        fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", n.port, n.controllerPort),
		"advertised.listeners":                             fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", n.port),
		"controller.listener.names":                        "CONTROLLER",
		"listener.security.protocol.map":                   "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":                       "PLAINTEXT",
		"log.dirs":                                         n.dataDir(),
		"auto.create.topics.enable":                        "false",
		"default.replication.factor":                       replicas,
		"offsets.topic.replication.factor":                 replicas,
		"offsets.topic.num.partitions":                     "4",
		"group.initial.rebalance.delay.ms":                 "0",
		"transaction.state.log.min.isr":                    inSync,
		"log.segment.delete.delay.ms":                      "1000",
		"log.retention.hours":                              "-1",
		"controlled.shutdown.enable":                       "true",
		"transaction.state.log.num.partitions":             "4",
		"transaction.state.log.replication.factor":         replicas,
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            inSync,
		// The default of 10 s lets a timed-out transaction live on; tests of the timeout would wait for it.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
		// A node that was killed may register again only when its old session has expired: 9 s by default.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
	}
	if c.opts.Proxied {
		p["listeners"] += ",PROXIED://" + n.ProxiedUpstream()
		p["advertised.listeners"] += ",PROXIED://" + n.ProxiedAddr()
		p["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
	}
	c.opts.Secure.addTo(p)
	maps.Copy(p, c.opts.Properties)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, p[k])
	}
	return b.String()
}
