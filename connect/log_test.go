package connect

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestClientLogFollowsTheLevel that is set at the daemon's logger while the client runs.
func TestClientLogFollowsTheLevel(t *testing.T) {
	var out buffer
	root := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: &out})
	l := &clientLog{log: root.Named("orders").With("source", "s").Named("kafka"), sasl: &SASL{}}
	for _, c := range []struct {
		level hclog.Level
		want  kgo.LogLevel
	}{
		{hclog.Info, kgo.LogLevelWarn},
		{hclog.Trace, kgo.LogLevelDebug},
		{hclog.Debug, kgo.LogLevelInfo},
		{hclog.Error, kgo.LogLevelError},
		{hclog.Warn, kgo.LogLevelWarn},
		{hclog.Off, kgo.LogLevelNone},
	} {
		root.SetLevel(c.level)
		if got := l.Level(); got != c.want {
			t.Errorf("%s: the client's level is %s, want %s", c.level, got, c.want)
		}
	}
}
