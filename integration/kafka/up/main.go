// Command up boots a real Kafka for trying things by hand and runs it until it is interrupted.
//
//	go run ./integration/kafka/up [-version 3.9.2] [-tv 1] [-nodes 3] [-port P] [-topics name:partitions,...] [-records N]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kafkabridge/integration/kafka"
	"kafkabridge/integration/traffic"
)

func main() {
	var o kafka.Options
	flag.StringVar(&o.Version, "version", kafka.Current, "Kafka version")
	flag.IntVar(&o.TransactionVersion, "tv", 0, "transaction.version; 0 = the version's default")
	flag.IntVar(&o.Nodes, "nodes", 1, "number of nodes")
	flag.StringVar(&o.Dir, "dir", "", "folder for data and logs; default a temporary one")
	flag.IntVar(&o.Port, "port", 0, "port of the first node; 0: any free one")
	topics := flag.String("topics", "", "topics to create: name:partitions,name:partitions")
	records := flag.Int("records", 0, "sample records per partition of each topic")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *topics, *records); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o kafka.Options, topics string, records int) error {
	c, err := kafka.Start(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, spec := range strings.FieldsFunc(topics, func(r rune) bool { return r == ',' }) {
		var partitions int32 = 1
		name, count, _ := strings.Cut(spec, ":")
		if count != "" {
			if _, err := fmt.Sscan(count, &partitions); err != nil {
				return fmt.Errorf("topic %q: %w", spec, err)
			}
		}
		if err := c.CreateTopic(ctx, name, partitions, nil); err != nil {
			return err
		}
		if records > 0 {
			plan := traffic.Plan{Bootstrap: c.Bootstrap(), Topic: name, Partitions: traffic.Range(partitions), Records: records}
			if _, err := traffic.Produce(ctx, plan); err != nil {
				return err
			}
		}
	}
	for _, n := range c.Nodes() {
		fmt.Printf("node %d: %s pid %d log %s\n", n.ID, n.Addr(), n.PID(), n.LogPath())
	}
	fmt.Println("ready:", strings.Join(c.Bootstrap(), ","))
	<-ctx.Done()
	return nil
}
