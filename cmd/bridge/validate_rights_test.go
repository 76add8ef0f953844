package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"kafkabridge/integration/kafka"
)

// readmeConfig is the bridge that the README's list of rights is for.
const readmeConfig = `
bridge "orders" {
  semantic = "EXACTLY_ONCE"
  source "s" {
    brokers = [%[1]q]
    topics  = ["orders"]
    sasl {
      mechanism = "PLAIN"
      username  = "bridge"
      password  = "x"
    }
  }
  sink "t" {
    brokers       = [%[1]q]
    topic         = "orders-copy"
    create_topics = %[2]t
    on_reject     = "dead_letter"
    dead_letter { topic = "orders-dead" }
    sasl {
      mechanism = "PLAIN"
      username  = "bridge"
      password  = "x"
    }
  }
  checkpoint { path = "state" }
}
server { listen = "" }
`

// TestEachRightOfTheReadmeIsNamed takes each right of the README away from a user who has all of them.
func TestEachRightOfTheReadmeIsNamed(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := kafka.ParseACLs(string(text))
	if err != nil || len(listed) < 10 {
		t.Fatalf("the README lists %d rights: %v", len(listed), err)
	}
	for _, create := range []bool{false, true} {
		needed := slices.DeleteFunc(slices.Clone(listed), func(a kafka.ACL) bool {
			return !create && a.Operation == kmsg.ACLOperationCreate || a.Operation == kmsg.ACLOperationAlter // Alter: on a real broker
		})
		if code, said := validateWith(t, needed, create); code != 0 || strings.Contains(said, "kafka-acls") && !strings.Contains(said, "DescribeConfigs") {
			t.Errorf("create_topics = %t with every right: exit code %d\n%s", create, code, said)
		}
		for i, missing := range needed {
			if create && missing.Name == "orders.ledger" && missing.Operation != kmsg.ACLOperationCreate {
				continue // of a topic that is not there only a real broker tells the rights
			}
			code, said := validateWith(t, slices.Delete(slices.Clone(needed), i, i+1), create)
			want := 2
			if missing.Resource == "group" {
				want = 0 // a warning: only the lag is not shown
			}
			word := strings.ToLower(missing.Operation.String())
			word = strings.ToUpper(word[:1]) + word[1:]
			line := regexp.MustCompile(fmt.Sprintf(`(?m): kafka-acls --bootstrap-server \S+ --add --allow-principal User:bridge .*--operation %s .*--%s %s$`, word, missing.Resource, regexp.QuoteMeta(missing.Name)))
			if code != want || !line.MatchString(said) {
				t.Errorf("create_topics = %t without %v: exit code %d, want %d and a line like %s\n%s", create, missing, code, want, line, said)
			}
		}
	}
}

// TestDescribeAloneIsNotEnough: a transactional id that can be seen and not be used is found without touching its transactions.
func TestDescribeAloneIsNotEnough(t *testing.T) {
	const id = "orders-0"
	code, said := validateWith(t, []kafka.ACL{{Resource: "transactional-id", Name: id, Operation: kmsg.ACLOperationDescribe}}, true)
	if code != 2 || !strings.Contains(said, "transactional id orders-0: not allowed to write with it: ") || !strings.Contains(said, "--operation Write --transactional-id orders-0\n") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

// TestRightsOfTheCommands: what the README says each command needs besides the daemon's rights is enough; without it verify says what
// is missing. (selftest: testdata/script/selftest_rights.txtar.)
func TestRightsOfTheCommands(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := kafka.ParseACLs(string(text))
	if err != nil {
		t.Fatal(err)
	}
	rights := slices.DeleteFunc(listed, func(a kafka.ACL) bool {
		return a.Operation == kmsg.ACLOperationCreate || a.Operation == kmsg.ACLOperationAlter
	})
	read := kafka.ACL{Resource: "topic", Name: "orders-copy", Operation: kmsg.ACLOperationRead}
	for _, verifies := range []bool{false, true} {
		if verifies {
			rights = append(rights, read)
		}
		broker, file := brokerWith(t, rights, false)
		cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.SASL(plain.Auth{User: "root", Pass: "x"}.AsMechanism()), kgo.DefaultProduceTopic("orders"))
		if err != nil {
			t.Fatal(err)
		}
		err = cl.ProduceSync(t.Context(), kgo.StringRecord("a"), kgo.StringRecord("b")).FirstErr()
		cl.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"run --until-end", "validate", "status", "checkpoints list", "recover --plan", "txn list", "txn abort --yes", "verify", "reset --to earliest --yes"} {
			var stdout, stderr bytes.Buffer
			err := run(append(strings.Fields(command), "-c", file), environment{stdout: &stdout, stderr: &stderr, stop: make(chan struct{})})
			report(&stderr, err)
			switch said := stderr.String(); {
			case command == "verify" && !verifies:
				if exitCode(err) == 0 || !strings.Contains(said, "grant Read on Topic orders-copy") || strings.Count(said, "\n") != 1 {
					t.Errorf("%s without Read on the sink's topic: exit code %d\n%s", command, exitCode(err), said)
				}
			case exitCode(err) != 0:
				t.Errorf("%s: exit code %d\n%s", command, exitCode(err), said)
			}
		}
	}
}

// validateWith runs the command against a broker on which the user has these rights.
func validateWith(t *testing.T, rights []kafka.ACL, create bool) (code int, said string) {
	t.Helper()
	_, file := brokerWith(t, rights, create)
	var stdout, stderr bytes.Buffer
	err := run([]string{"validate", "-c", file}, environment{stdout: &stdout, stderr: &stderr})
	return int(exitCode(err)), stderr.String()
}

// brokerWith starts a broker on which the user bridge has these rights, and root all; the topics are there unless they are to be created.
// The file has readmeConfig.
func brokerWith(t *testing.T, rights []kafka.ACL, create bool) (broker, file string) {
	t.Helper()
	resources := map[string]kmsg.ACLResourceType{"topic": kmsg.ACLResourceTypeTopic, "group": kmsg.ACLResourceTypeGroup, "transactional-id": kmsg.ACLResourceTypeTransactionalId}
	var acls []kfake.ACL
	for _, r := range rights {
		acls = append(acls, kfake.ACL{Resource: resources[r.Resource], Name: r.Name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: r.Operation, Allow: true})
	}
	topics := []string{"orders"}
	if !create {
		topics = append(topics, "orders-copy", "orders-dead")
	}
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "bridge", "x", acls...), kfake.Superuser("PLAIN", "root", "x"), kfake.SeedTopics(2, topics...)}
	if !create {
		opts = append(opts, kfake.SeedTopics(1, "orders.ledger"))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	file = filepath.Join(t.TempDir(), "bridge.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, readmeConfig, c.ListenAddrs()[0], create), 0o600); err != nil {
		t.Fatal(err)
	}
	return c.ListenAddrs()[0], file
}
