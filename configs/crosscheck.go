package configs

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"kafkabridge/bridge"
	"kafkabridge/connect"
)

// crossCheck looks at what no block shows alone. Two addresses in common make two connections the same cluster; one
// cluster under two names is not noticed.
func (d *decoder) crossCheck(bridges []Bridge, infos []bridgeInfo) {
	for i := range bridges {
		d.sourceNames(infos[i].grammar)
		for j := range i {
			d.compare(&bridges[j], &bridges[i], infos[j], infos[i])
		}
		if infos[i].sink == nil || infos[i].topic == nil {
			continue
		}
		for s := range bridges[i].Options.Sources {
			if sameCluster(bridges[i].SourceConnections[s], bridges[i].SinkConnection) {
				bridges[i].Options.Sources[s].OnSinkCluster = true
				d.loop(&bridges[i], &bridges[i].Options.Sources[s], &infos[i].grammar.Sources[s], infos[i].topic)
			}
		}
		d.deadLetterApart(&bridges[i], infos[i])
	}
	neverMatchOwn(bridges, infos)
	reserve(bridges)
}

// deadLetterApart refuses a dead letter topic that is also something else: dead letters would be taken for output, be read
// again, or spoil the ledger.
func (d *decoder) deadLetterApart(b *Bridge, info bridgeInfo) {
	dead := b.Options.Sink.DeadLetterTopic
	if dead == "" {
		return
	}
	a := info.sink.DeadLetter.Topic
	if b.Sink.Ledger && dead == b.Sink.LedgerTopic {
		d.bad(a, "%q is the bridge's own ledger topic.", dead)
	}
	for i := range b.Options.Sources {
		s := &b.Options.Sources[i]
		if s.OnSinkCluster && slices.Contains(s.Topics, dead) {
			d.bad(a, "On the same brokers the source %q reads topic %q: dead letters would be read again.", s.Name, dead)
		}
		if slices.ContainsFunc(s.Topics, func(t string) bool { to, err := info.topic.eval(t); return err == nil && to == dead }) {
			d.bad(a, "%q is a topic of the sink block: name another one for dead letters.", dead)
			return
		}
	}
	if info.topic.constant && !info.topic.broken {
		if to, err := info.topic.eval(""); err == nil && to == dead {
			d.bad(a, "%q is a topic of the sink block: name another one for dead letters.", dead)
		}
	}
}

// reserve keeps maps from routing records into a ledger, also that of another bridge.
func reserve(bridges []Bridge) {
	for i := range bridges {
		for j := range bridges {
			if bridges[j].Sink.Ledger && sameCluster(bridges[i].SinkConnection, bridges[j].SinkConnection) {
				o := &bridges[i].Options.Sink
				o.Reserved = append(o.Reserved, bridges[j].Sink.LedgerTopic)
			}
		}
	}
}

func sameCluster(a, b connect.Options) bool {
	return slices.ContainsFunc(a.Brokers, func(broker string) bool { return slices.Contains(b.Brokers, broker) })
}

func (d *decoder) sourceNames(g *bridgeGrammar) {
	first := map[string]hcl.Range{}
	for _, s := range g.Sources {
		if at, ok := first[s.Name]; ok {
			d.errorAt(s.NameRange, "Duplicate source name", "Another source %q was defined at %s; positions are kept by this name.", s.Name, at)
			continue
		}
		first[s.Name] = s.NameRange
	}
}

// compare refuses two bridges that would work against each other. They need no check of their ledger keys: a key is a
// bridge's name, and names differ.
func (d *decoder) compare(a, b *Bridge, first, second bridgeInfo) {
	at := second.grammar.NameRange
	if a.Options.Name == b.Options.Name {
		d.errorAt(at, "Duplicate bridge name", "Another bridge %q was defined at %s; state, transactional ids and ledger records go by this name.",
			b.Options.Name, first.grammar.NameRange)
		return
	}
	if a.Store != nil && b.Store != nil && a.Store.Path == b.Store.Path {
		if p := second.grammar.Checkpoints[0].Path; p != nil {
			at = p.Expr.Range()
		}
		d.errorAt(at, "Shared state directory", "Bridge %q has the same checkpoint.path; each bridge needs a directory of its own.", a.Options.Name)
	}
	if first.sink == nil || second.sink == nil || !sameCluster(a.SinkConnection, b.SinkConnection) {
		return
	}
	shared := func(id string) bool { return slices.Contains(b.Sink.TransactionalIDs, id) }
	if slices.ContainsFunc(a.Sink.TransactionalIDs, shared) {
		at = second.grammar.NameRange
		if id := second.sink.TransactionalID; id != nil {
			at = id.Expr.Range()
		}
		d.errorAt(at, "Shared transactional ids", "Bridge %q has the same transactional_id on the same brokers: the two would fence each other for ever.", a.Options.Name)
	}
}

// loop refuses a bridge that reads what it writes.
func (d *decoder) loop(b *Bridge, o *bridge.SourceOptions, g *sourceGrammar, topic *topicTemplate) {
	if topic.broken {
		return
	}
	if b.Sink.Ledger && slices.Contains(o.Topics, b.Sink.LedgerTopic) {
		d.bad(g.Topics, "%q is the bridge's own ledger topic.", b.Sink.LedgerTopic)
	}
	for _, start := range o.Topics {
		if b.Sink.Ledger {
			if to, err := topic.eval(start); err == nil && to == b.Sink.LedgerTopic {
				d.errorAt(topic.expr.Range(), "Output into the ledger", "Topic %q would be written to the bridge's own ledger topic.", start)
			}
		}
		if comesBack(o.Topics, start, topic) {
			d.errorAt(topic.expr.Range(), "Endless loop", "On the same brokers the source %q reads topic %q, and what is read there is written to it again.",
				o.Name, start)
			return
		}
	}
	if o.TopicsRegex != "" && grows(o, topic) {
		d.errorAt(topic.expr.Range(), "Endless loop", "On the same brokers topics_regex of source %q matches the topics that this bridge writes, so it would copy its copies. "+
			"Narrow topics_regex, or set topics_exclude.", o.Name)
	}
}

// comesBack follows a topic through the sink's naming, as long as the source reads the result, back to itself.
func comesBack(topics []string, start string, topic *topicTemplate) bool {
	at := start
	for range topics { // longer ways run into a circle that start is not on
		next, err := topic.eval(at)
		if err != nil || !slices.Contains(topics, next) {
			return false
		}
		if next == start {
			return true
		}
		at = next
	}
	return false
}

// neverMatchOwn keeps ledgers, constant sink topics and dead letter topics of a cluster out of every topics_regex on it.
// Ledgers of all bridges, but only the bridge's own sink and dead letter topic: to read what another bridge wrote is a chain, and fine.
func neverMatchOwn(bridges []Bridge, infos []bridgeInfo) {
	for i := range bridges {
		for s := range bridges[i].Options.Sources {
			o := &bridges[i].Options.Sources[s]
			if o.TopicsRegex == "" {
				continue
			}
			for j := range bridges {
				if infos[j].topic == nil || infos[j].topic.broken || !sameCluster(bridges[i].SourceConnections[s], bridges[j].SinkConnection) {
					continue
				}
				if bridges[j].Sink.Ledger {
					o.NeverMatch = append(o.NeverMatch, bridges[j].Sink.LedgerTopic)
				}
				if dead := bridges[j].Options.Sink.DeadLetterTopic; i == j && dead != "" {
					o.NeverMatch = append(o.NeverMatch, dead)
				}
				if i == j && infos[j].topic.constant {
					if name, err := infos[j].topic.eval(""); err == nil {
						o.NeverMatch = append(o.NeverMatch, name)
					}
				}
			}
		}
	}
}
