//go:build kafka

package integration

import (
	"flag"
	"os"
	"strings"
	"testing"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/proxy"
)

var (
	campaignSize  = flag.String("campaign", "part", `how much of the campaign runs: "part" (minutes, fixed) or "full"`)
	campaignTable = flag.String("campaign.table", "", "file that always holds the table so far")
)

// campaign is the built binary under every fault of the list, on clusters that its cells share.
type campaign struct {
	full  bool
	dir   string
	table *table
	sites []*site
}

// site is a single broker with its proxy.
type site struct {
	*kafka.Cluster
	net *proxy.Network
}

// name is what test names call the site: the transaction version.
func (s *site) name() string { return "tv" + string(rune('0'+s.TransactionVersion())) }

// TestCampaign disturbs bridge, network and brokers in every way of the list and prints what it cost. Run alone with
//
//	go test -tags kafka -v -timeout 4h -run 'TestCampaign$' ./integration -campaign=full
func TestCampaign(t *testing.T) {
	if *campaignSize != "part" && *campaignSize != "full" {
		t.Fatalf("-campaign=%s: want part or full", *campaignSize)
	}
	builds.binary(t)
	c := &campaign{full: *campaignSize == "full", dir: t.TempDir(), table: &table{}}
	t.Run("single", func(t *testing.T) {
		for _, o := range allClusters()[:2] { // transactions v2 and v1 on the newest broker
			o.Proxied = true
			// Nobody kills these brokers, and one that is short of processor time must not be fenced for it.
			o.Properties = map[string]string{"broker.session.timeout.ms": "30000"}
			cluster := startCluster(t, o)
			c.sites = append(c.sites, &site{cluster, proxied(t, cluster)})
		}
		t.Run("beside", c.beside)
		t.Run("slow", c.group(3, (*batch).slowBrokers))
	})
	t.Run("bounces", c.bounces)
	t.Logf("the campaign (%s)\n%s", *campaignSize, c.table)
}

// beside runs what does not disturb others at the same time, as many at once as -parallel says. What goes through a
// site's proxies is one at a time there: rules see every frame.
func (c *campaign) beside(t *testing.T) {
	run := func(rank int, name string, f func(*batch, *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.group(rank, f)(t)
		})
	}
	for _, s := range c.sites {
		run(1, "network-"+s.name(), func(b *batch, t *testing.T) {
			b.lateRequests(t, s)
			b.lostFrames(t, s)
			b.cuts(t, s)
		})
		run(2, "process-"+s.name(), func(b *batch, t *testing.T) {
			b.freezes(t, s)
			b.kills(t, s)
		})
	}
	run(0, "failpoints", (*batch).failpoints)
}

// group runs cells and then judges them together. Its rank is where its scenarios stand in the table: groups run beside
// each other.
func (c *campaign) group(rank int, f func(*batch, *testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		b := &batch{campaign: c, rank: rank}
		t.Run("cells", func(t *testing.T) { f(b, t) }) // ends when its parallel tests have ended
		b.verdict(t)
		if *campaignTable != "" {
			if err := os.WriteFile(*campaignTable, []byte(c.table.String()), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
}

// repeats is how often a scenario runs.
func (c *campaign) repeats(part, full int) int {
	if c.full {
		return full
	}
	return part
}

// short makes a test name of a scenario.
func short(s string) string {
	return strings.NewReplacer(" ", "-", ",", "", "(", "", ")", "").Replace(s) // topics are named after tests
}
