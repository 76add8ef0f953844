package semantics

import (
	"strings"
	"testing"
)

// TestMutants removes one rule at a time, outside the machine, and expects the explorer to find the harm that the rule
// prevents. Each runs with the monitors of the invariants off: what is found is what a user would have seen. The same
// configuration without the mutant is clean.
func TestMutants(t *testing.T) {
	eo := Config{Semantic: ExactlyOnce, Ledger: true}
	stateful := Config{Semantic: ExactlyOnce, Ledger: true, Stateful: true}
	noLedger := Config{Semantic: ExactlyOnce}
	for _, c := range []struct {
		name   string
		want   string // kind of the violation
		mutant mutant
		cfg    xConfig
	}{
		{"I1 commit before the checkpoint is durable, map state", "refused", mutant{notDurable: true},
			xConfig{N: 1, Faults: 1, TV: 2, Variants: []Config{stateful}, NoNet: true, NoFail: true}},
		{"I1 commit before the checkpoint is durable, ledger=false", "doubled", mutant{notDurable: true},
			xConfig{N: 1, Faults: 1, TV: 2, Variants: []Config{noLedger}, NoNet: true, NoFail: true, NoExpire: true}},
		{"I2 ledger record outside the transaction", "lost", mutant{ledgerOutside: true},
			xConfig{N: 1, Faults: 1, TV: 2, Variants: []Config{eo}, NoNet: true, NoFail: true}},
		{"I3 positions from the look before the fence", "doubled", mutant{readBefore: true},
			xConfig{N: 1, TV: 2, Variants: []Config{eo}, Rival: 1, Allow3: true}},
		{"I4 decided checkpoint dropped when the next is proposed, map state", "refused", mutant{dropDecided: true},
			xConfig{N: 2, Faults: 1, TV: 2, Variants: []Config{stateful}, NoNet: true, NoFail: true}},
		{"I4 decided checkpoint dropped when the next is proposed, ledger=false", "refused", mutant{dropDecided: true},
			xConfig{N: 2, Faults: 2, TV: 2, Variants: []Config{noLedger}, NoNet: true, NoFail: true}},
		{"I5 a record after the barrier in the transaction", "doubled", mutant{shortBarrier: true},
			xConfig{N: 2, Faults: 1, TV: 2, Variants: []Config{eo}, NoNet: true, NoFail: true}},
		{"I6 no fresh epoch on transaction.version 1: a late EndTxn commits the next, half-written one", "lost", mutant{staleEpoch: true},
			xConfig{N: 3, Faults: 2, TV: 1, Variants: []Config{eo}, NoExpire: true, NoFail: true}},
		{"I6 blind InitProducerID between transactions", "doubled", mutant{blindRefresh: true},
			xConfig{N: 2, TV: 1, Variants: []Config{eo}, Rival: 1}},
		{"I7 no answer to a commit is taken for done", "lost", mutant{unknownIsOK: true},
			xConfig{N: 2, Faults: 2, TV: 2, Variants: []Config{noLedger}, NoExpire: true, Allow3: true, Allow4: true}},
		{"I7 fenced while settling is taken for aborted", "doubled", mutant{ambiguousIsNo: true},
			xConfig{N: 2, Faults: 2, TV: 2, Variants: []Config{noLedger}, NoExpire: true, NoFail: true, Allow3: true, Allow4: true}},
		{"I8 the next epoch flows before the flush", "reordered", mutant{noFlush: true},
			xConfig{N: 2, Faults: 1, TV: 2, Variants: []Config{eo}, NoFail: true, NoExpire: true}},
		{"I9 the second id is not fenced", "doubled", mutant{fenceOne: true},
			xConfig{N: 1, TV: 2, Variants: []Config{eo}, Rival: 1}},
		{"I9 an idle incarnation does not look", "stuck", mutant{noLook: true},
			xConfig{N: 1, TV: 2, Variants: []Config{eo}, Rival: 1}},
		{"I10 nothing is ever released", "I10", mutant{keepAll: true},
			xConfig{N: 4, TV: 2, Variants: []Config{eo}}},
		{"I11 ids are fenced in descending order", "doubled", mutant{fenceDown: true},
			xConfig{N: 1, TV: 2, Variants: []Config{eo}, Rival: 1}},
		{"I12 a checkpoint counts by its number, map state", "state", mutant{byNumber: true},
			xConfig{N: 2, Faults: 3, TV: 2, Variants: []Config{stateful}, Backup: true, NoNet: true, NoFail: true, Allow3: true}},
		{"a reset keeps the map state", "state", mutant{stateKept: true},
			xConfig{N: 1, TV: 2, Variants: []Config{stateful}, Resets: 1, To: []uint8{0}, Faults: 1, NoNet: true, NoFail: true}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			if raceEnabled && (c.cfg.Rival != 0 || c.cfg.Backup) {
				t.Skip("takes too long under the race detector")
			}
			c.mutant.on = true
			x := &explorer{cfg: &c.cfg, mutant: c.mutant}
			r := x.run()
			t.Logf("%d states, %.1f s: %s", r.states, r.took.Seconds(), r.violation)
			if r.kind() != c.want {
				t.Errorf("want a violation of kind %q, got %q\n%s", c.want, r.violation, numbered(r.trace))
			}
			if testing.Verbose() {
				t.Log("\n" + numbered(r.trace))
			}
		})
	}
}
