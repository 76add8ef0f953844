//go:build failpoints

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"kafkabridge"
	"kafkabridge/bridge"
)

// testKinds are the maps, in binaries for tests only, that BRIDGE_TEST_MAP puts behind the configured ones, by their names.
var testKinds = map[string]kafkabridge.MapFunc{"drop": drop, "thin": thin, "triple": triple, "awkward": awkward}

// drop lets nothing through.
func drop(*bridge.Record, func(*bridge.Record) error) error { return nil }

// thin lets every thousandth offset through.
func thin(r *bridge.Record, emit func(*bridge.Record) error) error {
	if r.Offset%1000 != 0 {
		return nil
	}
	return emit(r)
}

// triple makes three of each record, whose values end in ":0", ":1" and ":2".
func triple(r *bridge.Record, emit func(*bridge.Record) error) error {
	value := r.Value
	for i := range 3 {
		r.Value = fmt.Appendf(value[:len(value):len(value)], ":%d", i)
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// awkward does what the first word of a value says, so that a test decides what becomes of each record.
func awkward(r *bridge.Record, emit func(*bridge.Record) error) error {
	word, _, _ := strings.Cut(string(r.Value), " ")
	switch word {
	case "fail": // with an output before it
		if err := emit(r); err != nil {
			return err
		}
		return errors.New("told to fail")
	case "other":
		r.SinkTopic = strings.TrimSuffix(r.Topic, "-in") + "-other"
	case "nowhere":
		r.SinkTopic = "no/where"
	case "loop":
		r.SinkTopic = r.Topic
	}
	return emit(r)
}

// testMaps adds what only tests need. BRIDGE_TEST_ON_ERROR is the map's on_error.
func testMaps(o *bridge.Options) []kafkabridge.Option {
	name := os.Getenv("BRIDGE_TEST_MAP")
	m, ok := testKinds[name]
	if !ok {
		return nil
	}
	o.Maps = append(o.Maps, bridge.MapOptions{Kind: name, OnError: bridge.Policy(os.Getenv("BRIDGE_TEST_ON_ERROR"))})
	return []kafkabridge.Option{kafkabridge.WithMap(name, m)}
}
