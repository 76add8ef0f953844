package kafkabridge_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge"
	"kafkabridge/bridge"
	"kafkabridge/configs"
)

// A program of its own runs a bridge with a map function written in Go, on an embedded broker here.
func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	send(broker, "orders", "apple", "pear")

	// As bridge.hcl would be. The file names the kind, the program registers it.
	file, err := configs.Parse(fmt.Appendf(nil, `
		bridge "orders" {
		  semantic = "AT_LEAST_ONCE"
		  source "east" {
		    brokers = [%[1]q]
		    topics  = ["orders"]
		  }
		  map "enrich" {}
		  sink "west" {
		    brokers = [%[1]q]
		    topic   = "orders-copy"
		  }
		}`, broker.ListenAddrs()[0]), "bridge.hcl", "enrich")
	if err != nil {
		log.Fatal(err)
	}
	options := file.Bridges[0]
	options.Options.UntilEnd = true // a daemon leaves this out and ends with ctx

	enrich := func(r *bridge.Record, emit func(*bridge.Record) error) error {
		r.Value = bytes.ToUpper(r.Value)
		return emit(r)
	}
	if err := kafkabridge.New(options, kafkabridge.WithMap("enrich", enrich)).Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, value := range receive(broker, "orders-copy", 2) {
		fmt.Println(value)
	}
	// Output:
	// APPLE
	// PEAR
}

func send(broker *kfake.Cluster, topic string, values ...string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	for _, v := range values {
		if err := cl.ProduceSync(context.Background(), kgo.StringRecord(v)).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
}

func receive(broker *kfake.Cluster, topic string, n int) (values []string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	for len(values) < n {
		for _, r := range cl.PollFetches(context.Background()).Records() {
			values = append(values, string(r.Value))
		}
	}
	return values
}
