//go:build kafka

package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
)

// leastUser is a user of the secure cluster who has what the README lists, and nothing else.
func leastUser(semantic string, create bool) string {
	return fmt.Sprintf("least-%s-%t", semantic, create)
}

// caseI2 runs the bridge with the rights of the README's block and no other: with and without create_topics, in all semantics. Each
// that is taken away is named by validate, as the command line that gives it back.
func caseI2(t *testing.T, c *kafka.Cluster, s *kafka.Secure) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := kafka.ParseACLs(string(text))
	if err != nil || len(listed) < 10 {
		t.Fatalf("the README lists %d rights: %v", len(listed), err)
	}
	for _, semantic := range semantics {
		for _, create := range []bool{false, true} {
			if testing.Short() && !create && semantic != "EXACTLY_ONCE" {
				continue // its rights are some of those of the others
			}
			t.Run(fmt.Sprintf("%s/create-%t", semantic, create), func(t *testing.T) {
				t.Parallel()
				newLeast(t, c, s, listed, semantic, create).run()
			})
		}
	}
}

// least is a bridge whose user has only what it needs.
type least struct {
	*rig
	c        *kafka.Cluster
	user     string
	semantic string
	create   bool
	needed   []right
}

func newLeast(t *testing.T, c *kafka.Cluster, s *kafka.Secure, listed []kafka.ACL, semantic string, create bool) *least {
	r := newRig(t, semantic, c, c, 0)
	l := &least{rig: r, c: c, user: leastUser(semantic, create), semantic: semantic, create: create}
	createTopic(t, c, r.in[0], 2, nil)
	if !create {
		createTopic(t, c, r.out, 2, nil)
		createTopic(t, c, r.dead(), 1, nil)
		createTopic(t, c, r.ledger(), 1, map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
	}
	r.as(s, "PLAIN", l.user, fmt.Sprintf("%q", casePassword))
	r.cfg.Sink.Attrs["create_topics"] = create
	r.deadLettersTo(r.dead())
	l.needed = l.adapted(listed)
	return l
}

func (r *rig) dead() string { return r.name + "-dead" }

// adapted are the README's rights with this bridge's names; those that its semantic or create_topics does not need are left out.
func (l *least) adapted(listed []kafka.ACL) (out []right) {
	names := map[string]string{"topic orders": l.in[0], "group orders": l.name + "-group", "topic orders-copy": l.out, "topic orders-dead": l.dead(),
		"topic orders.ledger": l.ledger(), "transactional-id orders-0": l.name + "-0", "transactional-id orders-1": l.name + "-1"}
	for _, a := range listed {
		name := names[a.Resource+" "+a.Name]
		creates := a.Operation == kadm.OpCreate || a.Operation == kadm.OpAlter
		transactional := name == l.ledger() || a.Resource == "transactional-id"
		switch {
		case name == "":
			l.t.Fatalf("the README names %s %s, which its bridge does not have", a.Resource, a.Name)
		case creates && !l.create, transactional && l.semantic != "EXACTLY_ONCE":
		default:
			out = append(out, right{strings.ReplaceAll(a.Resource, "-", " "), name, a.Operation})
		}
	}
	return out
}

func (l *least) run() {
	setRights(l.t, l.c, l.user, l.needed)
	l.validates(0, "")
	for _, missing := range l.needed {
		if missing.operation != kadm.OpAlter { // needed when partitions are added, below
			l.misses(missing)
		}
	}
	setRights(l.t, l.c, l.user, l.needed) // waits until the broker knows them all
	records := l.killed()
	if !l.create {
		return
	}
	// More partitions in the source: the sink's topic gets as many.
	if _, err := l.c.Admin().UpdatePartitions(l.t.Context(), 4, l.in[0]); err != nil {
		l.t.Fatal(err)
	}
	l.misses(right{"topic", l.out, kadm.OpAlter})
	setRights(l.t, l.c, l.user, l.needed)
	l.undisturbed(records)
}

// killedRecords is how many records per partition flow while the bridge is killed.
const killedRecords = 800

// killed lets records flow, kills the bridge meanwhile, and lets another one finish.
func (l *least) killed() int {
	d := l.start("")
	l.ready(d)
	wait := l.background(l.plan(2, killedRecords, 800))
	pause(time.Second)
	l.kill(d)
	records := wait().Committed
	l.untilEnd()
	l.arrived(records)
	return records
}

// undisturbed adds records that are like no earlier ones, to old and to new partitions, to those that have arrived, and lets a run that
// nothing disturbs move them. Whatever the semantic, it loses none, and it doubles none: what a kill has lost or doubled was so before.
func (l *least) undisturbed(records int) {
	before := l.report
	more := l.plan(4, 200, 0)
	more.First = killedRecords
	n := produce(l.t, more).Committed
	l.untilEnd()
	l.arrived(records + n)
	if now := l.report; now.Expected != before.Expected+n || now.Seen != before.Seen+n || now.Lost != before.Lost || now.Doubled != before.Doubled {
		l.t.Errorf("%d records more, and nothing disturbed the bridge\nbefore: %s\nnow: %s", n, before, now)
	}
}

// arrived wants what the semantic promises of all records, of which a kill was in the way of some.
func (l *least) arrived(records int) {
	l.t.Helper()
	switch l.semantic {
	case "EXACTLY_ONCE":
		l.exactlyOnce(records)
	case "AT_LEAST_ONCE":
		if err := l.sinkReport(l.expected(), oracle.SamePartition).AtLeastOnce(); err != nil {
			l.t.Error(err)
		}
	default: // NONE may lose and double under a kill; what arrives is what was sent, where it belongs
		if report := l.sinkReport(l.expected(), oracle.SamePartition); report.Foreign+report.Misplaced > 0 {
			l.t.Error(report)
		}
	}
	if l.report.Expected != records {
		l.t.Errorf("the source holds %d records, but %d were produced", l.report.Expected, records)
	}
}

// misses takes one right away, wants validate to say how to give it back, and gives it back.
func (l *least) misses(missing right) {
	l.t.Helper()
	if _, err := l.c.Admin().DeleteACLs(l.t.Context(), missing.builder(l.user)); err != nil {
		l.t.Fatal(err)
	}
	code := 2
	if missing.resource == "group" {
		code = 0 // the lag is not shown, and everything moves
	}
	l.validates(code, fmt.Sprintf(" --operation %s.* --%s %s", operationWord(missing.operation), strings.ReplaceAll(missing.resource, " ", "-"), missing.name))
	giveRight(l.t, l.c, l.user, missing)
}

// operationWord is how kafka-acls spells an operation.
func operationWord(o kadm.ACLOperation) string {
	word := strings.ToLower(o.String())
	return strings.ToUpper(word[:1]) + word[1:]
}

// validates wants an exit code and a line that matches.
func (l *least) validates(code int, line string) {
	l.t.Helper()
	var stderr string
	// A broker's own view of the rights may be a moment behind that of the one that was asked.
	err := kafka.Poll(l.t.Context(), fmt.Sprintf("validate ends with %d and says %q", code, line), func() (bool, error) {
		var got int
		var err error
		_, stderr, got, err = daemon.Command(l.t.Context(), daemon.Run{Binary: builds.binary(l.t), Config: l.cfg, Dir: l.dir}, "validate")
		return got == code && matchesLine(stderr, line), err
	})
	if err != nil {
		l.t.Errorf("%v\n%s", err, stderr)
	}
	if strings.Contains(stderr, casePassword) {
		l.t.Error("the password is shown")
	}
}

// matchesLine says whether a line holds all of the words around ".*", in this order.
func matchesLine(text, pattern string) bool {
	for line := range strings.Lines(text) {
		rest, found := strings.TrimSpace(line)+" ", true
		for part := range strings.SplitSeq(pattern+" ", ".*") {
			if _, rest, found = strings.Cut(rest, part); !found {
				break
			}
		}
		if found {
			return true
		}
	}
	return pattern == ""
}
