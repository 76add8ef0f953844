//go:build kafka

package integration

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/oracle"
)

// command runs one command of the bridge to its end and wants an exit code.
func (r *rig) command(code int, command ...string) (stdout, stderr string) {
	r.t.Helper()
	stdout, stderr, got, err := daemon.Command(r.t.Context(), daemon.Run{Binary: builds.binary(r.t), Config: r.cfg, Dir: r.dir}, command...)
	if err != nil || got != code {
		r.t.Fatalf("%s: exit code %d, want %d: %v\n%s%s", strings.Join(command, " "), got, code, err, stdout, stderr)
	}
	if code > 0 && strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
		r.t.Errorf("%s: more than one line: %s", strings.Join(command, " "), stderr)
	}
	return stdout, stderr
}

// dieSlowly is dieAt with fewer records over a longer time, so that a slow machine comes to its second epoch, too.
func (r *rig) dieSlowly(failpoint string) int {
	r.t.Helper()
	wait := r.background(r.plan(3, 3_000, 600))
	r.failpoint(r.start(failpoint), time.Minute)
	return wait().Committed
}

// foreseen is what recover --plan says; run must then say the same.
type foreseen struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
}

func (r *rig) foresee(verdict string) foreseen {
	r.t.Helper()
	out, _ := r.command(0, "recover", "--plan", "-o", "json")
	var doc struct {
		Bridges []foreseen `json:"bridges"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Bridges) != 1 {
		r.t.Fatalf("%v\n%s", err, out)
	}
	if doc.Bridges[0].Verdict != verdict {
		r.t.Errorf("verdict %s, want %s\n%s", doc.Bridges[0].Verdict, verdict, out)
	}
	return doc.Bridges[0]
}

// TestRepairPlan: killed where the outcome is still open, decided, and timed out; the plan says each time what the start after it says
// and does, and looking changes nothing.
func TestRepairPlan(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			for _, x := range []struct {
				failpoint, verdict string
				timesOut           bool
			}{
				{daemon.AfterPersist + ":2", "would_commit", false},
				{daemon.AfterCommit + ":2", "committed", false},
				{daemon.AfterPersist + ":2", "aborted", true},
				{daemon.AfterLedgerRecord + ":2", "clean", false},
			} {
				t.Run(x.verdict, func(t *testing.T) {
					r := newRig(t, "EXACTLY_ONCE", c, c, 3)
					if x.timesOut {
						r.timesOutSoon()
					}
					records := r.dieSlowly(x.failpoint)
					if x.timesOut {
						r.aborted()
					}
					r.foresee(x.verdict)
					plan := r.foresee(x.verdict)
					d := r.start("", "--until-end")
					log := r.exit(d, 0, drainLimit)
					r.says(log, plan.Reason)
					r.exactlyOnce(records)
					r.command(0, "verify")
				})
			}
		})
	}
}

// TestRepairAbort: a bridge that is given up leaves a prepared transaction and an open one behind. One line commits what was checkpointed
// and aborts the rest, so that no reader waits; taken up again later, it goes on from there.
func TestRepairAbort(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			records := r.dieSlowly(daemon.AfterPersist + ":2")
			through := r.throughPrepared()
			out, _ := r.command(0, "txn", "list")
			if !strings.Contains(out, "checkpoint 2") {
				t.Errorf("the prepared transaction is not shown:\n%s", out)
			}
			_, refused := r.command(3, "txn", "abort", "--yes")
			r.says(refused, "checkpoint 2", "--prepared=commit")
			done, _ := r.command(0, "txn", "abort", "--prepared=commit", "--yes")
			r.says(done, "committed")
			r.nothingOpen()
			got := 0
			if err := oracle.Read(t.Context(), r.dst.Bootstrap(), oracle.Committed, []string{r.out}, func(oracle.Record) error { got++; return nil }); err != nil {
				t.Fatal(err)
			}
			if got != through {
				t.Errorf("readers see %d records, through the prepared transaction there are %d", got, through)
			}
			r.foresee("clean")
			r.untilEnd()
			r.exactlyOnce(records)
		})
	}
}

// TestRepairReset: positions are set back and on through the ledger; killed in the middle, the next start has the old ones or the new
// ones, and the plan says which.
func TestRepairReset(t *testing.T) {
	for _, o := range suiteClusters() {
		t.Run(clusterName(o), func(t *testing.T) {
			c := sharedCluster(t, o)
			r := newRig(t, "EXACTLY_ONCE", c, c, 3)
			wait := r.background(r.plan(3, 1_000, 4_000))
			records := wait().Committed
			r.untilEnd()
			r.command(0, "verify")
			want := records
			count := func() {
				t.Helper()
				r.untilEnd()
				got := 0
				if err := oracle.Read(t.Context(), r.dst.Bootstrap(), oracle.Committed, []string{r.out}, func(oracle.Record) error { got++; return nil }); err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Fatalf("the sink shows %d records, want %d", got, want)
				}
				r.nothingOpen()
			}
			r.command(0, "reset", "--to", "earliest", "--yes")
			want += records
			count()
			for failpoint, counts := range map[string]bool{daemon.AfterClaim: false, daemon.AfterLedgerRecord: false, daemon.AfterPersist: true, daemon.AfterCommit: true} {
				t.Setenv("BRIDGE_FAILPOINT", failpoint)
				r.command(-1, "reset", "--to", "earliest", "--yes")
				t.Setenv("BRIDGE_FAILPOINT", "")
				verdict := "clean"
				if counts {
					want += records
					verdict = map[string]string{daemon.AfterPersist: "would_commit", daemon.AfterCommit: "committed"}[failpoint]
				}
				r.foresee(verdict)
				count()
			}
			out, _, code, err := daemon.Command(t.Context(), daemon.Run{Binary: builds.binary(t), Config: r.cfg, Dir: r.dir}, "verify", "-o", "json")
			if err != nil || code != 1 || !strings.Contains(out, `"doubled": `) || strings.Contains(out, `"lost": 1`) {
				t.Errorf("verify after %d deliveries: exit code %d, %v\n%.2000s", want/records, code, err, out)
			}
		})
	}
}
