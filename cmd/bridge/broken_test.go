package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkabridge/snapshot"
)

const brokenConfig = `
bridge "orders" {
  semantic = "EXACTLY_ONCE"
  source "s" {
    brokers = [%[1]q]
    topics  = ["orders"]
    sasl {
      mechanism = "PLAIN"
      username  = %[2]q
      password  = %[3]q
    }
  }
  sink "t" {
    brokers = [%[1]q]
    topic   = "copy"
    sasl {
      mechanism = "PLAIN"
      username  = %[2]q
      password  = %[3]q
    }
  }
  checkpoint { path = "state" }
  restart { attempts = 1 }
}
server { listen = "" }
`

// TestCommandsInBrokenSituations: whatever is broken, each command that comes to it says in one line what is wrong and what to do,
// and never a password.
func TestCommandsInBrokenSituations(t *testing.T) {
	const right, wrong = "planted-S3cr3t", "wrong-S3cr3t"
	see := kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "orders", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "rich", right), kfake.User("PLAIN", "poor", right, see),
		kfake.SeedTopics(2, "orders", "copy"), kfake.SeedTopics(1, "orders.ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := nobody.Addr().String()
	_ = nobody.Close() // from now on nobody listens there
	commands := []string{"run --until-end", "validate", "status", "checkpoints list", "recover --plan", "txn list", "txn abort --yes", "verify", "reset --to earliest --yes", "selftest"}
	for _, s := range []struct {
		name, broker, user, password, directory string
		says                                    []string // one of them
		except                                  string   // commands that do not come to it
	}{
		{"unreachable broker", down, "rich", right, "", []string{"refuses connections: the broker is down, or the port is wrong"}, "run --until-end status checkpoints list"}, // run waits for it, not ready
		{"wrong password", c.ListenAddrs()[0], "rich", wrong, "", []string{`failed authentication: check username "rich" and password`}, "run --until-end status checkpoints list"},
		{"no permission", c.ListenAddrs()[0], "poor", right, "", []string{"grant ", "is needed (bridge validate prints the command that grants it)"}, "status checkpoints list"},
		{"foreign directory", c.ListenAddrs()[0], "rich", right, "other", []string{`belongs to bridge "other", this is bridge "orders"`}, "txn list txn abort --yes verify selftest"},
	} {
		for _, command := range commands {
			if strings.Contains(s.except, command) {
				continue
			}
			t.Run(s.name+"/"+command, func(t *testing.T) {
				dir := t.TempDir()
				if s.directory != "" {
					store, err := snapshot.Open(snapshot.Options{Path: filepath.Join(dir, "state"), Bridge: s.directory})
					if err != nil {
						t.Fatal(err)
					}
					if err := store.Close(); err != nil {
						t.Fatal(err)
					}
				}
				file := filepath.Join(dir, "bridge.hcl")
				if err := os.WriteFile(file, fmt.Appendf(nil, brokenConfig, s.broker, s.user, s.password), 0o600); err != nil {
					t.Fatal(err)
				}
				var stdout, stderr bytes.Buffer
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				err := run(append(strings.Fields(command), "-c", file), environment{stdout: &stdout, stderr: &stderr, stop: ctx.Done()})
				report(&stderr, err)
				lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
				last := lines[len(lines)-1]
				t.Logf("exit code %d, %d lines: %s", exitCode(err), len(lines), last)
				if exitCode(err) == 0 {
					t.Error("no failure")
				}
				if strings.Contains(stdout.String()+stderr.String(), "S3cr3t") {
					t.Error("a password is shown")
				}
				said := false
				for _, want := range s.says {
					said = said || strings.Contains(stderr.String(), want)
				}
				if !said {
					t.Errorf("it does not say %q:\n%s", s.says, stderr.String())
				}
				if len(lines) > 1 && command != "validate" && !strings.HasPrefix(command, "run") {
					t.Errorf("more than one line:\n%s", stderr.String())
				}
			})
		}
	}
}
