package maps

import (
	"fmt"
	"strings"

	"kafkabridge/bridge"
	"kafkabridge/maps/expr"
)

// RouteOptions are the settings of the map kind "route".
type RouteOptions struct {
	Topic string // CEL that gives the sink topic; "" is the sink block's. A topic that does not exist follows create_topics
}

// maxNames bounds the names that a route keeps, so that a name that it has seen costs no memory again.
const maxNames = 1024

// route says where records go.
type route struct {
	topic *expr.Program
	in    expr.Input
	whole wholeBatch
	names map[string]string // checked; the text of an expression lives no longer than its record
	last  string
	fixed bool // last is for all records of the partition
}

func newRoute(c *compiler, o RouteOptions) (*route, error) {
	topic, err := c.expr("topic", o.Topic, expr.Text)
	if err != nil {
		return nil, err
	}
	return &route{topic: topic, whole: wholeBatch{p: topic}, names: map[string]string{}}, nil
}

// Map implements bridge.Map.
func (m *route) Map(r *bridge.Record, emit func(*bridge.Record) error) error {
	topic, err := m.decide(r)
	if err != nil {
		return err
	}
	r.SinkTopic = topic
	return emit(r)
}

func (m *route) decide(r *bridge.Record) (string, error) {
	if m.fixed {
		return m.last, nil
	}
	text, err := m.topic.Text(&m.in, r)
	if err != nil {
		return "", err
	}
	if m.last, err = m.name(text); err != nil {
		return "", err
	}
	m.fixed = m.topic.Only(partitionVariables...)
	return m.last, nil
}

func (m *route) name(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if name, ok := m.names[text]; ok {
		return name, nil
	}
	if err := bridge.CheckTopic(text); err != nil {
		return "", fmt.Errorf("%s cannot be a topic's name: %w", excerpt(text), err)
	}
	if len(m.names) >= maxNames {
		clear(m.names)
	}
	name := strings.Clone(text)
	m.names[name] = name
	return name, nil
}

// longestExcerpt bounds what an error shows of a record, in bytes.
const longestExcerpt = 200

func excerpt(text string) string {
	if len(text) > longestExcerpt {
		text = text[:longestExcerpt] + "…"
	}
	return fmt.Sprintf("%q", text)
}

// Batch implements bridge.BatchMap.
func (m *route) Batch(c bridge.Common) (bridge.Decision, bool, error) {
	r, ok := m.whole.record(c)
	if !ok {
		return bridge.Decision{}, false, nil
	}
	topic, err := m.decide(r)
	if err != nil || topic == "" { // a batch cannot be sent back to the sink block's topic from where a map before sent it
		return bridge.Decision{}, false, err
	}
	return bridge.Decision{SinkTopic: topic}, true, nil
}
