// Package deploy_test holds the files of this folder against the program that they deploy. Their syntax is checked with the tools
// of their makers in .ci/run.
package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/semantics"
)

// stopBound is how long a stop may take (bridge/driver_stop_test.go): StopTimeout, twice what is waited for something that does not end, and a second.
const stopBound = bridge.DefaultStopTimeout + 2*5*time.Second + time.Second

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documents are all YAML documents of a file.
func documents(t *testing.T, path string) (out []map[string]any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, path)))
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, doc)
	}
}

// at walks through maps by name and through lists by number.
func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for _, name := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n >= len(in) {
				t.Fatalf("%v: no %s in a list of %d", path, name, len(in))
			}
			v = in[n]
		default:
			t.Fatalf("%v: nothing at %s", path, name)
		}
	}
	return v
}

// TestConfigurations: the program accepts every configuration that is deployed.
func TestConfigurations(t *testing.T) {
	texts := map[string]string{"compose": read(t, "compose/bridge.hcl")}
	for _, name := range []string{"statefulset", "sidecar"} {
		for _, doc := range documents(t, "kubernetes/"+name+".yaml") {
			if doc["kind"] == "ConfigMap" {
				texts[name] = at(t, doc, "data", "bridge.hcl").(string)
			}
		}
	}
	if len(texts) != 3 {
		t.Fatalf("%d configurations, want 3", len(texts))
	}
	for name, text := range texts {
		dir := t.TempDir()
		for _, secret := range []string{"password", "token"} {
			if err := os.WriteFile(filepath.Join(dir, secret), []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := configs.Parse([]byte(strings.ReplaceAll(text, "/etc/bridge-secrets/", dir+"/")), filepath.Join(dir, name+".hcl"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if file.Server.Listen != "0.0.0.0:8080" {
			t.Errorf("%s listens at %q: probes, Prometheus and the published port would not reach it", name, file.Server.Listen)
		}
	}
}

// TestStopIsWaitedFor: nobody sends SIGKILL while the bridge may still be at its final checkpoint.
func TestStopIsWaitedFor(t *testing.T) {
	waits := map[string]time.Duration{}
	for _, name := range []string{"statefulset", "sidecar"} {
		docs := documents(t, "kubernetes/"+name+".yaml")
		workload := docs[len(docs)-1]
		waits[name] = time.Duration(at(t, workload, "spec", "template", "spec", "terminationGracePeriodSeconds").(int)) * time.Second
	}
	for name, text := range map[string]string{
		"systemd": setting(t, "TimeoutStopSec"),
		"compose": at(t, documents(t, "compose/compose.yaml")[0], "services", "bridge", "stop_grace_period").(string),
	} {
		wait, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		waits[name] = wait
	}
	for name, wait := range waits {
		if wait < stopBound {
			t.Errorf("%s waits %v for a stop, which may take %v", name, wait, stopBound)
		}
	}
}

// setting is a line of the systemd unit.
func setting(t *testing.T, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(read(t, "systemd/bridge.service"))
	if m == nil {
		t.Fatalf("no %s in the unit", name)
	}
	return m[1]
}

// TestNoRestartForWhatIsRefused: a restart after these codes only repeats them, or fences the instance that took over.
func TestNoRestartForWhatIsRefused(t *testing.T) {
	want := fmt.Sprintf("%d %d %d", semantics.ExitUsage, semantics.ExitRefused, semantics.ExitLost)
	if got := setting(t, "RestartPreventExitStatus"); got != want {
		t.Errorf("RestartPreventExitStatus=%s, want %s", got, want)
	}
}

// TestOneInstance: two bridges of one name would take the transactional ids from each other.
func TestOneInstance(t *testing.T) {
	docs := documents(t, "kubernetes/statefulset.yaml")
	if n := at(t, docs[len(docs)-1], "spec", "replicas"); n != 1 {
		t.Errorf("the StatefulSet has %v replicas", n)
	}
	docs = documents(t, "kubernetes/sidecar.yaml")
	deployment := docs[len(docs)-1]
	if n, how := at(t, deployment, "spec", "replicas"), at(t, deployment, "spec", "strategy", "type"); n != 1 || how != "Recreate" {
		t.Errorf("the Deployment has %v replicas and the strategy %v", n, how)
	}
}

// TestAlertsAreWhole: each says what it means and what to do, stands in the handbook, and rings in a test. (That the metrics in them exist is
// cmd/bridge's TestDeployedMetricsExist.)
func TestAlertsAreWhole(t *testing.T) {
	handbook, tests := read(t, "OPERATING.md"), read(t, "prometheus/alerts_test.yaml")
	n := 0
	for _, group := range at(t, documents(t, "prometheus/alerts.yaml")[0], "groups").([]any) {
		for _, rule := range at(t, group, "rules").([]any) {
			n++
			name := at(t, rule, "alert").(string)
			for _, annotation := range []string{"summary", "action"} {
				if text, _ := at(t, rule, "annotations", annotation).(string); text == "" {
					t.Errorf("%s has no %s", name, annotation)
				}
			}
			if !strings.Contains(handbook, "| "+name+" |") {
				t.Errorf("%s is not in OPERATING.md", name)
			}
			if !strings.Contains(tests, "alertname: "+name+"\n        exp_alerts:\n") {
				t.Errorf("%s rings in no test", name)
			}
		}
	}
	if n == 0 {
		t.Error("no alerts")
	}
}

type panel struct {
	Title   string
	GridPos struct{ X, Y, W, H int }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, "grafana/bridge.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// TestPanelsDoNotOverlap: Grafana would move them about.
func TestPanelsDoNotOverlap(t *testing.T) {
	all := panels(t)
	for i, p := range all {
		a := p.GridPos
		if a.X+a.W > 24 {
			t.Errorf("%s is wider than the grid", p.Title)
		}
		for _, q := range all[:i] {
			b := q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s and %s overlap", p.Title, q.Title)
			}
		}
	}
}
