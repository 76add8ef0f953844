package configs

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"kafkabridge/bridge"
	"kafkabridge/txn"
)

// shortestLinger stands for linger = "0s": the zero value means the default.
const shortestLinger = time.Nanosecond

func (d *decoder) sink(g *sinkGrammar) (bridge.SinkOptions, *topicTemplate) {
	d.checkName(g.Name, g.NameRange)
	topic := d.sinkTopic(g)
	o := bridge.SinkOptions{
		Name:            g.Name,
		Topic:           topic.eval,
		PartitionByKey:  d.word(g.Partition, "source", "source", "key") == "key",
		CreateTopics:    d.boolean(g.CreateTopics, bridge.DefaultCreateTopics),
		Compression:     d.word(g.Compression, bridge.DefaultCompression, bridge.Compressions()...),
		Linger:          max(d.duration(g.Linger, bridge.DefaultLinger, 0), shortestLinger),
		MaxMessageBytes: int32(d.size(g.MaxMessageBytes, bridge.DefaultMaxMessageBytes, 1<<10, math.MaxInt32)),
		DeadLetterTopic: d.deadLetter(g.DeadLetter),
	}
	o.OnReject = d.policy(g.OnReject, g, bridge.DefaultOnReject, bridge.Fail, bridge.DeadLetter)
	return o, topic
}

// deadLetter is the topic of a dead_letter block; "" without one.
func (d *decoder) deadLetter(g *deadLetterGrammar) string {
	if g == nil || !d.required(g.Topic, g.DefRange, "topic") {
		return ""
	}
	topic := d.filled(g.Topic)
	if topic != "" {
		if err := bridge.CheckTopic(topic); err != nil {
			d.bad(g.Topic, "The dead letter topic cannot have this name: %s.", err)
			return ""
		}
	}
	return topic
}

// policy is what is to become of records that are in the way. Dead letters need a topic.
func (d *decoder) policy(a *hcl.Attribute, sink *sinkGrammar, def bridge.Policy, words ...bridge.Policy) bridge.Policy {
	var texts []string
	for _, w := range words {
		texts = append(texts, string(w))
	}
	p := bridge.Policy(d.word(a, string(def), texts...))
	if p == bridge.DeadLetter && sink != nil && sink.DeadLetter == nil {
		d.bad(a, `%s = "dead_letter" needs a block dead_letter { topic = "…" } in the sink block.`, a.Name)
	}
	return p
}

func (d *decoder) transactions(g *sinkGrammar, bridgeName string) txn.Options {
	prefix := d.filled(g.TransactionalID)
	if prefix == "" {
		prefix = bridgeName
	}
	o := txn.Options{
		Bridge:             bridgeName,
		TransactionalIDs:   txn.TransactionalIDs(prefix),
		TransactionTimeout: d.duration(g.TransactionTimeout, txn.DefaultTransactionTimeout, time.Second),
		Ledger:             d.boolean(g.Ledger, txn.DefaultLedger),
		LedgerTopic:        d.filled(g.LedgerTopic),
		CreateTopics:       d.boolean(g.CreateTopics, bridge.DefaultCreateTopics),
	}
	if o.LedgerTopic != "" {
		if err := bridge.CheckTopic(o.LedgerTopic); err != nil {
			d.bad(g.LedgerTopic, "ledger_topic cannot be a topic's name: %s.", err)
		}
		if !o.Ledger {
			d.errorAt(g.LedgerTopic.NameRange, "Conflicting arguments", "ledger_topic has no meaning with ledger = false: remove one of the two.")
		}
	}
	o.EnsureDefaults()
	return o
}

// topicTemplate is sink.topic: an expression that may use the variable topic.
type topicTemplate struct {
	d        *decoder
	expr     hcl.Expression
	constant bool // does not use the variable: every source topic goes to one sink topic
	broken   bool // reported; eval is not to be used
}

// topicVariable is the variable's name.
const topicVariable = "topic"

func (d *decoder) sinkTopic(g *sinkGrammar) *topicTemplate {
	t := &topicTemplate{d: d, constant: true, broken: true}
	if g.Topic == nil {
		d.errorAt(g.DefRange, "Missing required argument", `The argument "topic" is required; topic = "${topic}" keeps the source's names.`)
		return t
	}
	t.expr = g.Topic.Expr
	for _, v := range t.expr.Variables() {
		t.constant = t.constant && v.RootName() != topicVariable
	}
	v, diags := t.value("topic")
	d.evaluated(t.expr, diags)
	switch {
	case diags.HasErrors():
	case v.IsNull() || v.Type() != cty.String:
		d.wrongType(g.Topic, "a string", v)
	default:
		name := rawString(v)
		if err := bridge.CheckTopic(name); err != nil {
			shown := ""
			if !v.ContainsMarked() && t.constant {
				shown = fmt.Sprintf(" (%q)", name)
			}
			d.bad(g.Topic, "This cannot be a topic's name%s: %s.", shown, err)
			break
		}
		t.broken = false
	}
	return t
}

func (t *topicTemplate) value(sourceTopic string) (cty.Value, hcl.Diagnostics) {
	ctx := t.d.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{topicVariable: cty.StringVal(sourceTopic)}
	return t.expr.Value(ctx)
}

// eval is the sink topic of a source topic. Safe for concurrent use; its error shows no secret.
func (t *topicTemplate) eval(sourceTopic string) (string, error) {
	v, diags := t.value(sourceTopic)
	if diags.HasErrors() {
		first := t.d.clean(discreet(t.expr, diags)[0])
		return "", fmt.Errorf("sink topic of %q: %s: %s", sourceTopic, first.Summary, first.Detail)
	}
	if v.IsNull() || v.Type() != cty.String {
		return "", fmt.Errorf("sink topic of %q: %w", sourceTopic, errNoString)
	}
	name := rawString(v)
	if err := bridge.CheckTopic(name); err != nil {
		return "", fmt.Errorf("sink topic of %q: %w", sourceTopic, err)
	}
	return name, nil
}

var errNoString = errors.New("the setting topic gives no string")
