package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/sasl"
)

// sent is what PLAIN sends for a connection that begins now.
func sent(t *testing.T, m sasl.Mechanism) string {
	t.Helper()
	_, first, err := m.Authenticate(context.Background(), "h")
	must(t, err)
	return strings.ReplaceAll(string(first), "\x00", "/")
}

func TestSecretFileIsReadForEachConnection(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "pw"), []byte("first\n"))
	var log buffer
	s := SASL{Mechanism: Plain, Username: "jane", Password: "first", PasswordFile: NewSecretFile(path, "first")}
	m := mechanism(s, hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log}))
	expect := func(want string) {
		t.Helper()
		if got := sent(t, m); got != "/jane/"+want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	expect("first")
	write(t, path, []byte("second\r\n"))
	expect("second")
	must(t, os.WriteFile(path, nil, 0o600)) // in the middle of being written in place
	expect("second")
	must(t, os.Remove(path))
	expect("second")
	// As Kubernetes does it: the file is a symlink through a directory that is swapped.
	for _, pw := range []string{"third", "fourth"} {
		must(t, os.Mkdir(filepath.Join(dir, pw), 0o700))
		write(t, filepath.Join(dir, pw, "pw"), []byte(pw))
		must(t, os.Symlink(pw, filepath.Join(dir, "next")))
		must(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data")))
		if pw == "third" {
			must(t, os.Symlink(filepath.Join("data", "pw"), path))
		}
		expect(pw)
	}
	j, err := json.Marshal(s)
	must(t, err)
	shown := fmt.Sprintf("%v %+v %#v %s %d %x", s, s, s, s.PasswordFile, s.PasswordFile, s.PasswordFile) + string(j) + log.String() +
		(&Diagnosis{Cause: "it said first, second, third and fourth", Err: os.ErrClosed, sasl: &s}).Error()
	for _, pw := range []string{"first", "second", "third", "fourth"} {
		if strings.Contains(shown, pw) {
			t.Errorf("%q is shown in\n%s", pw, shown)
		}
	}
	if !strings.Contains(log.String(), path) {
		t.Errorf("the log does not name the file:\n%s", &log)
	}
}

func TestSecretOfATokenRequestIsReadAgain(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "secret"), []byte("outdated"))
	s, _ := tokenServer(t, func(int64) (int, string) { return 200, `{"access_token":"t"}` }) // fails the test on another secret
	s.ClientSecretFile = NewSecretFile(path, "outdated")
	tok := newTokens(s, hclog.NewNullLogger())
	write(t, path, []byte(s.ClientSecret))
	if _, err := tok.authenticate(context.Background()); err != nil {
		t.Fatal(err)
	}
}
