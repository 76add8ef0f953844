//go:build kafka

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
	"kafkabridge/integration/oracle"
)

// casePassword must never be seen in what the bridge writes.
const casePassword = "S3cr3t-XYZ"

// TestCaseI is on one cluster: a boot takes longer than most of its parts. Each part, and each semantic, has users of its
// own.
func TestCaseI(t *testing.T) {
	t.Parallel()
	c, s := secureCluster(t, 2*time.Second)
	for name, part := range map[string]func(*testing.T, *kafka.Cluster, *kafka.Secure){
		"1RightsMissing": caseI1, "2LeastRights": caseI2, "3WrongConnection": caseI3, "4PasswordFileRotated": caseI4,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, c, s)
		})
	}
}

// semantics are all there are.
var semantics = []string{"EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"}

// secureCluster has a SASL listener with a user for each semantic, named after it, a TLS listener, and an authorizer.
func secureCluster(t *testing.T, reauth time.Duration) (*kafka.Cluster, *kafka.Secure) {
	t.Helper()
	users := map[string]string{}
	for _, semantic := range semantics {
		users[semantic] = casePassword
		users[leastUser(semantic, true)], users[leastUser(semantic, false)] = casePassword, casePassword
	}
	s, err := kafka.NewSecure(t.TempDir(), users, reauth)
	if err != nil {
		t.Fatal(err)
	}
	o := current()
	o.Secure = s
	return startCluster(t, o), s
}

func saslBlock(mechanism, user, password string) daemon.Nested {
	return daemon.Nested(fmt.Sprintf("mechanism = %q\nusername = %q\npassword = %s", mechanism, user, password))
}

// as makes the bridge come over the SASL listener.
func (r *rig) as(s *kafka.Secure, mechanism, user, password string) {
	for _, attrs := range []daemon.Attrs{r.cfg.Sources[0].Attrs, r.cfg.Sink.Attrs} {
		attrs["brokers"], attrs["sasl"] = []string{s.SASL}, saslBlock(mechanism, user, password)
	}
}

// right is one that an operator grants.
type right struct {
	resource, name string
	operation      kadm.ACLOperation
}

func (g right) String() string { return fmt.Sprintf("%s %s on %s", g.operation, g.resource, g.name) }

func (g right) builder(user string) *kadm.ACLBuilder {
	b := kadm.NewACLs().Allow("User:" + user).AllowHosts().Operations(g.operation).ResourcePatternType(kadm.ACLPatternLiteral)
	switch g.resource {
	case "topic":
		return b.Topics(g.name)
	case "group":
		return b.Groups(g.name)
	case "transactional id":
		return b.TransactionalIDs(g.name)
	default:
		return b.Clusters()
	}
}

// caseI1 takes one right away at a time. The bridge ends with exit code 2, or is not ready, and names the
// resource, its name and the operation. With all of them (there is no IdempotentWrite among them, and no right on the
// cluster) every semantic works.
func caseI1(t *testing.T, c *kafka.Cluster, s *kafka.Secure) {
	for _, semantic := range semantics {
		t.Run(semantic, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, semantic, c, c, 2)
			createTopic(t, c, r.ledger(), 1, map[string]string{"cleanup.policy": "compact"})
			r.as(s, "PLAIN", semantic, fmt.Sprintf("%q", casePassword))
			r.cfg.Sink.Attrs["create_topics"] = false
			needed := []right{{"topic", r.in[0], kadm.OpDescribe}, {"topic", r.in[0], kadm.OpRead}, {"topic", r.out, kadm.OpDescribe}, {"topic", r.out, kadm.OpWrite}}
			if semantic == "EXACTLY_ONCE" {
				needed = append(needed, right{"topic", r.ledger(), kadm.OpDescribe}, right{"topic", r.ledger(), kadm.OpRead}, right{"topic", r.ledger(), kadm.OpWrite})
				for _, id := range []string{r.name + "-0", r.name + "-1"} {
					needed = append(needed, right{"transactional id", id, kadm.OpDescribe}, right{"transactional id", id, kadm.OpWrite})
				}
			}
			produce(t, r.plan(2, 200, 0))
			for _, missing := range needed {
				var rest []right
				for _, g := range needed {
					implies := missing.operation == kadm.OpDescribe && g.resource == missing.resource && g.name == missing.name // Read and Write imply Describe
					if g != missing && !implies {
						rest = append(rest, g)
					}
				}
				setRights(t, c, semantic, rest)
				if semantic == "AT_LEAST_ONCE" && missing.name == r.out {
					// Kafka asks for the right of an idempotent producer first: Write on any topic, or the old one on the cluster.
					missing = right{"cluster", "kafka-cluster", kadm.OpIdempotentWrite}
				}
				r.complains(missing)
			}
			// The group is for lag tools only: without a right on it everything is moved all the same.
			setRights(t, c, semantic, needed)
			r.untilEnd()
			if err := r.sinkReport(r.expected(), oracle.SamePartition).ExactlyOnce(); err != nil {
				t.Error(err)
			}
		})
	}
}

// setRights makes the user's rights be exactly these, and waits until the broker knows.
func setRights(t *testing.T, c *kafka.Cluster, user string, rights []right) {
	t.Helper()
	all := kadm.NewACLs().AnyResource().Allow("User:" + user).AllowHosts().Deny().DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny)
	if _, err := c.Admin().DeleteACLs(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, g := range rights {
		giveRight(t, c, user, g)
	}
	err := kafka.Poll(t.Context(), fmt.Sprintf("the broker knows %d rights", len(rights)), func() (bool, error) {
		results, err := c.Admin().DescribeACLs(t.Context(), all)
		n := 0
		for _, res := range results {
			n += len(res.Described)
		}
		return n == len(rights), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func giveRight(t *testing.T, c *kafka.Cluster, user string, g right) {
	t.Helper()
	results, err := c.Admin().CreateACLs(t.Context(), g.builder(user))
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range results {
		if res.Err != nil {
			t.Fatal(res.Err)
		}
	}
}

// complains starts the bridge and waits until it says which right is missing: in its last words, or in why it is not ready.
func (r *rig) complains(missing right) {
	r.t.Helper()
	begin := time.Now()
	d := r.start("")
	operation := missing.operation.String()
	said := func(text string) bool {
		text = strings.ToLower(text)
		return strings.Contains(text, missing.resource) && strings.Contains(text, strings.ToLower(missing.name)) && strings.Contains(text, strings.ToLower(operation))
	}
	var why string
	err := kafka.Poll(r.t.Context(), "it says that this right is missing: "+missing.String(), func() (bool, error) {
		if !d.Running() {
			lines := strings.Split(strings.TrimSpace(d.Log()), "\n")
			why = lines[len(lines)-1]
			if !said(why) {
				return false, fmt.Errorf("it ended and said: %s", why)
			}
			return true, nil
		}
		why = d.WhyNotReady(r.t.Context())
		return said(why), nil
	})
	r.t.Logf("without %s, after %v: %s", missing, time.Since(begin).Round(10*time.Millisecond), why)
	if err != nil {
		r.t.Errorf("%v\n%s", err, d.LogTail())
	}
	if strings.Contains(d.Log(), casePassword) {
		r.t.Error("the password is in the log")
	}
	_ = d.Kill() // the only error is a process that has ended already
	if d.KilledBy() == 0 {
		if code, err := d.Exit(r.t.Context(), exitLimit); err != nil || code != 2 {
			r.t.Errorf("exit code %d, want 2: %v", code, err)
		}
	}
}

// caseI3: wrong password, mechanism, port, authority or host name: the cause and the address are told, by an
// exit or by why it is not ready, and never the password.
func caseI3(t *testing.T, c *kafka.Cluster, s *kafka.Secure) {
	const user = "scram"
	setPassword(t, c, user, casePassword)
	other, err := kafka.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	otherCA := filepath.Join(t.TempDir(), "other.pem")
	if err := os.WriteFile(otherCA, other.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	quoted, wrong := fmt.Sprintf("%q", casePassword), fmt.Sprintf("%q", casePassword+"-wrong")
	plain := semantics[0]
	tls := func(lines string) daemon.Nested { return daemon.Nested(lines) }
	for name, connection := range map[string]struct {
		broker string
		attrs  daemon.Attrs
		says   string
	}{
		"password":                {s.SASL, daemon.Attrs{"sasl": saslBlock("PLAIN", plain, wrong)}, fmt.Sprintf("authentication failed: check username %q and password", plain)},
		"SCRAM password":          {s.SASL, daemon.Attrs{"sasl": saslBlock("SCRAM-SHA-512", user, wrong)}, fmt.Sprintf("authentication failed: check username %q and password", user)},
		"mechanism":               {s.SASL, daemon.Attrs{"sasl": saslBlock("SCRAM-SHA-256", user, quoted)}, "does not offer SASL mechanism SCRAM-SHA-256"},
		"no SASL":                 {s.SASL, daemon.Attrs{}, "wants SASL"},
		"SASL to the plain port":  {c.Bootstrap()[0], daemon.Attrs{"sasl": saslBlock("PLAIN", plain, quoted)}, "does not expect SASL on this port"},
		"TLS to the plain port":   {c.Bootstrap()[0], daemon.Attrs{"tls": tls("")}, "plain port"},
		"TLS to the SASL port":    {s.SASL, daemon.Attrs{"tls": tls(""), "sasl": saslBlock("PLAIN", plain, quoted)}, "plain port"},
		"plain to the TLS port":   {s.TLS, daemon.Attrs{}, "port speaks TLS"},
		"unknown authority":       {s.TLS, daemon.Attrs{"tls": tls(fmt.Sprintf("ca_file = %q", otherCA))}, "unknown CA"},
		"host name":               {s.TLS, daemon.Attrs{"tls": tls(fmt.Sprintf("ca_file = %q\nserver_name = \"kafka.example\"", s.CAFile))}, "another host name"},
		"nothing wrong with SASL": {s.SASL, daemon.Attrs{"sasl": saslBlock("SCRAM-SHA-512", user, quoted)}, ""},
		"nothing wrong with TLS":  {s.TLS, daemon.Attrs{"tls": tls(fmt.Sprintf("ca_file = %q", s.CAFile))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "EXACTLY_ONCE", c, c, 1)
			for _, attrs := range []daemon.Attrs{r.cfg.Sources[0].Attrs, r.cfg.Sink.Attrs} {
				attrs["brokers"] = []string{connection.broker}
				for k, v := range connection.attrs {
					attrs[k] = v
				}
			}
			begin := time.Now()
			d := r.start("")
			var why string
			err := kafka.Poll(t.Context(), "it says: "+connection.says, func() (bool, error) {
				if connection.says == "" && d.Running() {
					return d.Ready(t.Context()), nil
				}
				if d.Running() {
					why = d.WhyNotReady(t.Context())
				} else {
					lines := strings.Split(strings.TrimSpace(d.Log()), "\n")
					if why = lines[len(lines)-1]; connection.says == "" || !strings.Contains(why, connection.says) {
						return false, fmt.Errorf("it ended and said %s", why)
					}
				}
				return strings.Contains(why, connection.says) && strings.Contains(why, connection.broker), nil
			})
			t.Logf("after %v: %s", time.Since(begin).Round(10*time.Millisecond), why)
			if err != nil {
				t.Errorf("%v; %s", err, why)
			}
			if strings.Contains(d.Log()+why, casePassword) {
				t.Error("the password is in the log")
			}
		})
	}
}

// setPassword makes a SCRAM user or gives it another password. It may do everything.
func setPassword(t *testing.T, c *kafka.Cluster, user, password string) {
	t.Helper()
	results, err := c.Admin().AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
	if err == nil {
		err = results[user].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*kadm.ACLBuilder{kadm.NewACLs().Topics("*"), kadm.NewACLs().Groups("*"), kadm.NewACLs().TransactionalIDs("*")} {
		if _, err := c.Admin().CreateACLs(t.Context(), b.Allow("User:"+user).AllowHosts().Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternLiteral)); err != nil {
			t.Fatal(err)
		}
	}
}

// caseI4: the broker gets a new password every two seconds, the file half a second later, and each
// connection has to authenticate again after two seconds: in between both disagree. The process stays, and every
// record arrives once.
func caseI4(t *testing.T, c *kafka.Cluster, s *kafka.Secure) {
	r := newRig(t, "EXACTLY_ONCE", c, c, 2)
	const user = "rotated"
	file := filepath.Join(r.dir, "password")
	used := []string{}
	renew := func() {
		t.Helper()
		used = append(used, fmt.Sprintf("%s-%d", casePassword, rand.Uint64()))
		setPassword(t, c, user, used[len(used)-1])
		if len(used) > 1 {
			pause(500 * time.Millisecond)
		}
		if err := os.WriteFile(file+".new", []byte(used[len(used)-1]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	r.as(s, "SCRAM-SHA-512", user, fmt.Sprintf("file(%q)", file))
	d := r.start("")
	r.ready(d)
	wait := r.background(r.plan(2, 4_000, 800))
	for range 4 {
		pause(2 * time.Second)
		renew()
	}
	records := wait().Committed
	r.drained(d)
	m := r.metric(d, "bridge_restarts_total")
	r.terminate(d) // the same process as at first
	t.Logf("%d passwords, %v recoveries inside the process", len(used), m)
	r.says(d.Log(), "the secret has been replaced")
	for _, password := range used {
		if strings.Contains(d.Log(), password) {
			t.Error("a password is in the log")
		}
	}
	r.exactlyOnce(records)
}
