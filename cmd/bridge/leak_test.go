package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"
)

// inProcess runs a command in this process and fails when it leaves goroutines or open files behind.
func inProcess(t *testing.T, args ...string) error {
	t.Helper()
	before := goleak.IgnoreCurrent()
	files := openFiles(t)
	var stdout, stderr bytes.Buffer
	err := run(args, environment{stdout: &stdout, stderr: &stderr, stop: make(chan struct{})})
	goleak.VerifyNone(t, before)
	if now := openFiles(t); now > files {
		t.Errorf("%q: %d files were open before, %d are now", args, files, now)
	}
	t.Logf("%s%s", stdout.String(), stderr.String())
	return err
}

// openFiles counts regular files only: sockets of the test's broker come and go.
func openFiles(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // not Linux
	}
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join("/proc/self/fd", e.Name())); err == nil && info.Mode().IsRegular() {
			n++
		}
	}
	return n
}

func TestNothingIsLeftBehind(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	good, taken := filepath.Join(dir, "good.hcl"), filepath.Join(dir, "taken.hcl")
	writeConfig(t, good, broker, "127.0.0.1:0")
	writeConfig(t, taken, broker, broker.ListenAddrs()[0]) // somebody listens there
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"demo", "--records", "300"}, 0},
		{[]string{"run", "--until-end", "-c", good}, 0},
		{[]string{"run", "-c", taken}, 2},
		{[]string{"validate", "-c", good}, 0},
		{[]string{"checkpoints", "list", "-c", good}, 0},
		{[]string{"status", "-c", good}, 0},
	} {
		if err := inProcess(t, c.args...); int(exitCode(err)) != c.code {
			t.Errorf("%q: %v, want exit code %d", c.args, err, c.code)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v %v", left, err)
	}
}

// writeConfig writes the file of a plain bridge from orders to copy on one broker, with its state beside it.
func writeConfig(t *testing.T, path string, broker *kfake.Cluster, listen string) {
	t.Helper()
	text := fmt.Sprintf(`
bridge "b" {
  semantic = "EXACTLY_ONCE"
  source "s" {
    brokers = [%[1]q]
    topics  = ["orders"]
  }
  sink "t" {
    brokers = [%[1]q]
    topic   = "copy"
  }
  checkpoint { path = "state" }
}
server { listen = %[2]q }
`, broker.ListenAddrs()[0], listen)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
