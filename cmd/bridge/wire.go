package main

import (
	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge"
	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/server"
	"kafkabridge/tracing"
)

// wire makes a bridge of the daemon: with its log, its metrics, its traces and the failpoint, if there is one.
func wire(c configs.Bridge, metrics *server.Metrics, traces *tracing.Tracer, log hclog.Logger, fail func(string)) *kafkabridge.Bridge {
	name := c.Options.Name
	written := metrics.Written(name)
	options := append(testMaps(&c.Options), kafkabridge.WithLogger(log), kafkabridge.WithFailpoint(fail),
		kafkabridge.WithObserver(func(o bridge.Observation) {
			metrics.Observe(name, o)
			traces.Observe(name, o)
		}),
		kafkabridge.WithWriter(func(w bridge.Writer) bridge.Writer { return &countedWriter{w, written} }))
	options = append(options, kafkabridge.WithClientHooks(func(role, cluster string) []kgo.Hook {
		return []kgo.Hook{metrics.Client(name, role, cluster)}
	}))
	return kafkabridge.New(c, options...)
}
