package snapshot

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"kafkabridge/semantics"
)

// refused checks an error at start: final, with that exit code, and with all the words.
func refused(t *testing.T, err error, exit semantics.ExitCode, words ...string) {
	t.Helper()
	var e *semantics.Error
	if !errors.As(err, &e) || e.Class != semantics.Fatal || e.Exit != exit {
		t.Errorf("%v: want a fatal error with exit code %d", err, exit)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// put writes raw keys into a store's Pebble.
func put(t *testing.T, fs vfs.FS, path string, kv map[string][]byte) {
	t.Helper()
	db, err := pebble.Open(path, &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{}})
	must(t, err)
	for k, v := range kv {
		must(t, db.Set([]byte(k), v, pebble.Sync))
	}
	must(t, db.Close())
}

type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func TestForeignNewerAndDamagedStoresAreRefused(t *testing.T) {
	fs := vfs.NewMem()
	must(t, mustOpen(t, Options{Path: "state", Bridge: "orders", FS: fs}).Close())
	_, err := Open(Options{Path: "state", Bridge: "clicks", FS: fs})
	refused(t, err, semantics.ExitRefused, `"orders"`, `"clicks"`, "state")

	put(t, fs, "newer", map[string][]byte{metaKey: encodeMeta("b", storeFormat+1)})
	_, err = Open(Options{Path: "newer", Bridge: "b", FS: fs})
	refused(t, err, semantics.ExitRefused, "newer", "format 2", "up to 1")

	put(t, fs, "other", map[string][]byte{"x": nil})
	_, err = Open(Options{Path: "other", Bridge: "b", FS: fs})
	refused(t, err, semantics.ExitRefused, "other", "not of a bridge")

	damaged := map[string][]byte{metaKey: encodeMeta("b", storeFormat), string(checkpointKey(7)): []byte("junk")}
	put(t, fs, "damaged", damaged)
	s := mustOpen(t, Options{Path: "damaged", Bridge: "b", FS: fs})
	_, err = s.Load()
	refused(t, err, semantics.ExitRefused, "damaged", "epoch 7", "move the directory away")
	must(t, s.Drop(7))
	must(t, s.Close())

	put(t, fs, "future", map[string][]byte{metaKey: encodeMeta("b", storeFormat), string(checkpointKey(8)): seal([]byte{9})})
	s = mustOpen(t, Options{Path: "future", Bridge: "b", FS: fs})
	_, err = s.Load()
	refused(t, err, semantics.ExitRefused, "future", "epoch 8", "format 9")
	must(t, s.Close())

	value, err := encode(full(3, semantics.Proposed))
	must(t, err)
	put(t, fs, "mixed", map[string][]byte{metaKey: encodeMeta("b", storeFormat), string(checkpointKey(4)): value})
	s = mustOpen(t, Options{Path: "mixed", Bridge: "b", FS: fs})
	_, err = s.Load()
	refused(t, err, semantics.ExitRefused, "epoch 4", "value is of epoch 3")
	must(t, s.Close())

	put(t, fs, "strange", map[string][]byte{metaKey: encodeMeta("b", storeFormat), "zzz": nil})
	s = mustOpen(t, Options{Path: "strange", Bridge: "b", FS: fs})
	_, err = s.Load()
	refused(t, err, semantics.ExitRefused, "strange", `"zzz"`)
	must(t, s.Close())
}

func TestDamagedFilesOfPebbleAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := mustOpen(t, Options{Path: dir, Bridge: "b"})
	must(t, s.Save(full(1, semantics.Decided)))
	must(t, s.Close())
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	must(t, err)
	must(t, os.Truncate(manifests[len(manifests)-1], 10))
	_, err = Open(Options{Path: dir, Bridge: "b"})
	refused(t, err, semantics.ExitRefused, dir, "damaged", "move the directory away")
}

func TestUnusablePaths(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	home := filepath.Join(base, "home")
	must(t, os.Mkdir(home, 0o700))
	must(t, os.WriteFile(filepath.Join(home, "thesis.txt"), nil, 0o600))
	open := func(path string) error {
		start := time.Now()
		s, err := Open(Options{Path: path, Bridge: "b"})
		if err == nil {
			must(t, s.Close())
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%s took %s", path, d)
		}
		return err
	}
	refused(t, open(file), semantics.ExitUsage, file, "is a file")
	refused(t, open(filepath.Join(file, "x")), semantics.ExitUsage, file, "ENOTDIR")
	refused(t, open(filepath.Join(base, "a", "b")), semantics.ExitUsage, filepath.Join(base, "a"), "no such file", "mkdir -p")
	refused(t, open(home), semantics.ExitUsage, home, "thesis.txt")
	if names, _ := os.ReadDir(home); len(names) != 1 {
		t.Errorf("files were left behind: %v", names)
	}
	refused(t, open(""), semantics.ExitUsage, "path is missing")
	_, err := OpenReadOnly(Options{Path: filepath.Join(base, "none"), Bridge: "b"})
	refused(t, err, semantics.ExitUsage, "does not exist")
	must(t, os.Mkdir(filepath.Join(base, "empty"), 0o700))
	_, err = OpenReadOnly(Options{Path: filepath.Join(base, "empty"), Bridge: "b"})
	refused(t, err, semantics.ExitUsage, "holds no state")

	must(t, open(filepath.Join(base, "state")+"/"))
	must(t, os.Symlink(filepath.Join(base, "state"), filepath.Join(base, "link")))
	must(t, open(filepath.Join(base, "link")))
	t.Chdir(base)
	must(t, open("state"))
	must(t, open("./fresh"))
}

func TestNotWritable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere; TestDiskThatRefuses stands in")
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	_, err := Open(Options{Path: dir, Bridge: "b"})
	refused(t, err, semantics.ExitGaveUp, dir, "EACCES")
	_, err = Open(Options{Path: filepath.Join(dir, "x"), Bridge: "b"})
	refused(t, err, semantics.ExitGaveUp, dir, "EACCES")
}

// TestHolder is the other process of TestLockedByAnotherProcess.
func TestHolder(t *testing.T) {
	path := os.Getenv("SNAPSHOT_TEST_HOLD")
	if path == "" {
		t.Skip("only as a child of TestLockedByAnotherProcess")
	}
	mustOpen(t, Options{Path: path, Bridge: "b"})
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the parent ends it
}

func TestLockedByAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	child := exec.Command(os.Args[0], "-test.run=^TestHolder$", "-test.v")
	child.Env = append(os.Environ(), "SNAPSHOT_TEST_HOLD="+dir)
	in, err := child.StdinPipe()
	must(t, err)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		must(t, err)
		if strings.TrimSpace(line) == "held" {
			break
		}
	}
	pid := fmt.Sprintf("pid %d", child.Process.Pid)
	for range 2 { // looking for the holder must not break its lock
		_, err = Open(Options{Path: dir, Bridge: "b"})
		refused(t, err, semantics.ExitRefused, dir, "held by another process", pid, "path of its own")
		_, err = OpenReadOnly(Options{Path: dir, Bridge: "b"})
		refused(t, err, semantics.ExitRefused, dir, pid, "HTTP")
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	_ = in.Close()
	s := mustOpen(t, Options{Path: dir, Bridge: "b"}) // kill -9 leaves nothing locked
	_, err = Open(Options{Path: dir, Bridge: "b"})
	refused(t, err, semantics.ExitRefused, dir, "of this process")
	must(t, s.Close())
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := mustOpen(t, Options{Path: dir, Bridge: "b"})
	must(t, s.Save(full(1, semantics.Decided)))
	must(t, s.Close())
	before := listing(t, dir)
	s, err := OpenReadOnly(Options{Path: dir, Bridge: "b"})
	must(t, err)
	if got := epochs(t, s); len(got) != 1 {
		t.Fatal(got)
	}
	if err := s.Save(full(2, semantics.Decided)); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Fatalf("saved: %v", err)
	}
	must(t, s.Close())
	if after := listing(t, dir); after != before {
		t.Fatalf("before\n%s\nafter\n%s", before, after)
	}
}

var fileNumbers = regexp.MustCompile(`LOCK.*\n`)

func listing(t *testing.T, dir string) string {
	t.Helper()
	names, err := os.ReadDir(dir)
	must(t, err)
	var b strings.Builder
	for _, n := range names {
		info, err := n.Info()
		must(t, err)
		fmt.Fprintln(&b, n.Name(), info.Size(), info.ModTime())
	}
	return fileNumbers.ReplaceAllString(b.String(), "")
}
