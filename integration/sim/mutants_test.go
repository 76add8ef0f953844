package sim

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	mutantsFlag = flag.String("sim.mutants", "", "build each mutant whose name matches this regular expression and say how many seeds it lives")
	mutantSeeds = flag.String("sim.mutants.for", "120s", "wall clock for each mutant")
)

// edit replaces a text that occurs once in a file of the product.
type edit struct{ file, old, new string }

// mutant is the product with one rule taken out.
type mutant struct {
	name  string
	edits []edit
}

func mutants() []mutant {
	return []mutant{
		{"no-fence", []edit{{"txn/coordinator.go", "	return c.initProducerID(ctx, op, semantics.Transaction{ID: transactionalID,",
			`	if all, err := c.adm.DescribeTransactions(ctx, transactionalID); err == nil && all[transactionalID].Err == nil {
		st := all[transactionalID]
		return semantics.Transaction{ID: transactionalID, ProducerID: st.ProducerID, ProducerEpoch: st.ProducerEpoch, EndTxnVersion: version}, nil
	}
	return c.initProducerID(ctx, op, semantics.Transaction{ID: transactionalID,`}}},
		{"commit-before-persist", []edit{{"bridge/driver_actions.go", "	if err := d.b.store.Save(c); err != nil {",
			`	if running && !c.Transaction.IsZero() {
		_, _, _ = d.b.p.Arbiter.End(ctx, c.Transaction, true)
		d.b.p.Failpoint("after-persist")
	}
	if err := d.b.store.Save(c); err != nil {`}}},
		{"save-without-sync", []edit{{"snapshot/store.go", "return b.Commit(pebble.Sync)", "return b.Commit(pebble.NoSync)"}}},
		{"ambiguous-is-aborted", []edit{{"txn/endtxn.go", "errors.Is(err, kerr.InvalidProducerIDMapping):\n		return semantics.OutcomeAmbiguous, true",
			"errors.Is(err, kerr.InvalidProducerIDMapping):\n		return semantics.OutcomeAborted, true"}}},
		{"ambiguous-is-committed", []edit{{"txn/endtxn.go", "errors.Is(err, kerr.InvalidProducerIDMapping):\n		return semantics.OutcomeAmbiguous, true",
			"errors.Is(err, kerr.InvalidProducerIDMapping):\n		return semantics.OutcomeCommitted, true"}}},
		{"lost-endtxn-answer-is-committed", []edit{{"txn/endtxn.go", "		if err != nil {\n			return err\n		}\n		resp, ok := kresp.(*kmsg.EndTxnResponse)",
			"		if err != nil {\n			outcome = semantics.OutcomeCommitted\n			return nil\n		}\n		resp, ok := kresp.(*kmsg.EndTxnResponse)"}}},
		{"lost-endtxn-answer-is-aborted", []edit{{"txn/endtxn.go", "		if err != nil {\n			return err\n		}\n		resp, ok := kresp.(*kmsg.EndTxnResponse)",
			"		if err != nil {\n			outcome = semantics.OutcomeAborted\n			return nil\n		}\n		resp, ok := kresp.(*kmsg.EndTxnResponse)"}}},
		{"lost-produce-answer-is-acked", []edit{{"txn/produce.go", "			part.lastErr = err\n		}\n		undecided = parts", "			r.ack(part, part.next)\n		}"}}},
		{"resend-with-new-sequence", []edit{{"txn/produce.go", "if !item.stamped {", "if true {"}}},
		{"positions-too-high", []edit{{"bridge/source_run.go", "k.partition, p.position)", "k.partition, semantics.Position{Offset: p.position.Offset + 1, LeaderEpoch: p.position.LeaderEpoch})"}}},
		{"positions-too-low", []edit{{"bridge/source_run.go", "k.partition, p.position)", "k.partition, semantics.Position{Offset: max(0, p.position.Offset-1), LeaderEpoch: p.position.LeaderEpoch})"}}},
		{"ledger-outside-the-transaction", []edit{{"txn/produce.go", "		batch.Stamp(item.out.Raw, r.id.producerID",
			"		if n := len(part.topic); n > 7 && part.topic[n-7:] == \".ledger\" {\n			batch.Stamp(item.out.Raw, -1, -1, -1, false)\n		} else {\n			batch.Stamp(item.out.Raw, r.id.producerID"},
			{"txn/produce.go", "r.id.transactional)\n		item.stamped", "r.id.transactional)\n		}\n		item.stamped"}}},
		{"aborted-let-through", []edit{{"bridge/source_walk.go", "return aborted && h.IsTransactional(), nil", "return aborted && false, nil"}}},
		{"control-let-through", []edit{{"bridge/source_take.go", "if !drop && !h.IsControl() && h.NumRecords > 0", "if !drop && h.NumRecords > 0"}}},
		{"first-batch-not-cut", []edit{{"bridge/maptask_batch.go", "case b.from > b.header.FirstOffset:", "case b.from > b.header.LastOffset():"},
			{"bridge/maptask_batch.go", "if t.record.Offset < b.from {", "if false {"}}},
		{"no-flush", []edit{{"bridge/driver_actions.go", "	sent, err := d.b.p.Writer.Flush(ctx)\n	if err == nil {", "	sent, err := true, error(nil)\n	if err == nil {"}}},
		{"loser-stays", []edit{{"semantics/machine.go", "if !m.watchesLedger() || !m.hasBase", "if true || !m.watchesLedger() || !m.hasBase"}}},
		{"settle-by-fence", []edit{{"semantics/machine.go", "if n == nil || n.Transaction.IsZero() || n.Status != Proposed || n.Empty {", "if true || n.Empty {"}}},
		{"ledger-read-unsettled", []edit{{"txn/ledgerscan.go", "case stable <= s.next && !s.settled:", "case stable <= s.next:"}}},
		{"no-fresh-epoch", []edit{{"bridge/driver_actions.go", "	if a.Refresh {", "	if false {"}, {"txn/producer.go", "last.Same(tx) {", "last.Same(tx) && false {"}}},
		{"id-reused-before-its-outcome", []edit{{"semantics/machine.go", "m.openEpoch(o.epoch+1, 1-o.slot, o.positions)", "m.openEpoch(o.epoch+1, o.slot, o.positions)"},
			{"txn/producer.go", "last.Same(tx) {", "last.Same(tx) && false {"}}},
		{"claim-skipped", []edit{{"semantics/machine.go", "	if !m.watchesLedger() {\n		m.dropOrOpen()", "	if true {\n		m.dropOrOpen()"}}},
		{"endtxn-version-ignored", []edit{{"txn/endtxn.go", "max: tx.EndTxnVersion}", "max: 4}"}}},
		{"v4-invalid-state-is-aborted", []edit{{"semantics/machine.go", "e.Outcome == OutcomeAborted && n.Transaction.EndTxnVersion < 5", "e.Outcome == OutcomeAborted && n.Transaction.EndTxnVersion < 0"}}},
		{"ledger-read-before-the-fence", []edit{{"semantics/machine.go", "func (m *Machine) onLooked(end LedgerEnd) {", "func (m *Machine) onLooked(end LedgerEnd) {\n	m.ledger = end"},
			{"semantics/machine.go", "	m.state = StateReading\n	m.do(ReadLedger{})", "	m.state = StateReading\n	if m.ledger.Found {\n		m.onLedgerRead(m.ledger)\n		return\n	}\n	m.do(ReadLedger{})"}}},
		{"refresh-is-blind", []edit{{"txn/coordinator.go", "	return c.initProducerID(ctx, op, tx)", "	tx.ProducerID, tx.ProducerEpoch = -1, -1\n	return c.initProducerID(ctx, op, tx)"}}},
		{"map-state-not-restored", []edit{{"bridge/chain.go", "		saved, ok := state.get(s.key())\n		if !ok {", "		saved, ok := state.get(s.key())\n		if ok || !ok {"}}},
		{"lost-ledger-is-an-empty-one", []edit{{"semantics/verdict.go", "	if !cfg.Adopt {\n		return nil, Refuse(\"recover\", \"%s; if the topic", "	if !e.end.Found {\n		return &base{}, nil\n	}\n	if !cfg.Adopt {\n		return nil, Refuse(\"recover\", \"%s; if the topic"}}},
		{"gap-passed-over", []edit{{"bridge/source.go", "	if s.o.OnGap != Skip {", "	if true {\n		return nil\n	}\n	if s.o.OnGap != Skip {"}}},
		{"own-open-transaction-not-aborted", []edit{{"bridge/driver_actions.go", "	if known.EndTxnVersion < 5 {", "	if false {"}}},
	}
}

// TestMutants is not part of the usual run: go test ./integration/sim -run Mutants -sim.mutants=. -timeout 2h -v
func TestMutants(t *testing.T) {
	if *mutantsFlag == "" {
		t.Skip("no -sim.mutants")
	}
	for _, m := range mutants() {
		if regexp.MustCompile(*mutantsFlag).MatchString(m.name) {
			t.Run(m.name, func(t *testing.T) { m.run(t) })
		}
	}
}

var ranPattern = regexp.MustCompile(`\d+ runs in \S+`)

func (m mutant) run(t *testing.T) {
	overlay := m.overlay(t)
	cmd := exec.Command("go", "test", "-overlay", overlay, "-run", "^TestSimulation$", "-v", "-timeout", "30m", ".", "-args", "-sim.for", *mutantSeeds, "-sim.trace", t.TempDir())
	out, err := cmd.CombinedOutput()
	ran := ranPattern.FindString(string(out))
	if err == nil {
		t.Errorf("not found: %s", ran)
		return
	}
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, "_test.go:") && strings.Contains(line, ": seed ") || strings.HasPrefix(line, "panic:") || strings.Contains(line, "# kafkabridge") || strings.Contains(line, "[build failed]") {
			t.Logf("%s: %.400s", ran, line)
			return
		}
	}
	t.Logf("%s: %.2000s", ran, out)
}

// overlay writes the changed files and the list that go test -overlay takes.
func (m mutant) overlay(t *testing.T) string {
	dir := t.TempDir()
	replace := map[string]string{}
	for _, e := range m.edits {
		path, err := filepath.Abs(filepath.Join("..", "..", e.file))
		if err != nil {
			t.Fatal(err)
		}
		from := path
		if replace[path] != "" {
			from = replace[path]
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), e.old) != 1 {
			t.Fatalf("%s does not hold this text once, the mutant needs an update: %s", e.file, e.old)
		}
		to := filepath.Join(dir, strings.ReplaceAll(e.file, "/", "_"))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
