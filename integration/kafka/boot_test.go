//go:build kafka

package kafka

import (
	"testing"
	"time"
)

func TestBootEveryVersion(t *testing.T) {
	for _, o := range []Options{
		{Version: Current, TransactionVersion: 2},
		{Version: Current, TransactionVersion: 1},
		{Version: BeforeV2},
		{Version: Current, Nodes: 3},
	} {
		t.Run((&Cluster{opts: o}).String(), func(t *testing.T) { boot(t, o) })
	}
}

func boot(t *testing.T, o Options) {
	begin := time.Now()
	c := StartT(t, o)
	t.Logf("%s, %d node(s): ready after %v", c, len(c.Nodes()), time.Since(begin).Round(time.Millisecond))
	if err := c.CreateTopic(t.Context(), "a", 3, map[string]string{"retention.ms": "3600000"}); err != nil {
		t.Fatal(err)
	}
	n := c.Node(1)
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after a kill -9: %v", time.Since(begin).Round(time.Millisecond))
	begin = time.Now()
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("clean stop: %v", time.Since(begin).Round(time.Millisecond))
}
