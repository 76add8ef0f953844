package connect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
)

const (
	maxSecretBytes = 64 << 10 // of a file; more is no password
	seenSecrets    = 4        // of one file that are kept out of messages: a late answer may repeat an old one
)

// SecretFile is a file that holds a secret and may be replaced while the bridge runs, in place, by rename or by a swapped
// symlink. It is read for every new connection; connections that are open stay as they are. It never prints the secret.
// Safe for concurrent use.
type SecretFile struct {
	path string
	// fits says what is wrong with a text that could be read; nil: any will do. It does not show the text.
	fits func(text string) error

	mu      sync.Mutex
	seen    []string // newest last
	trouble string   // what was warned about; empty: all is well
}

// NewSecretFile takes the path and what was read from it at first.
func NewSecretFile(path, first string) *SecretFile {
	return &SecretFile{path: path, seen: []string{first}}
}

// OpenSecretFile reads the file for the first time, and returns what it holds beside it. The error names the path.
func OpenSecretFile(path string) (*SecretFile, string, error) {
	text, err := readSecret(path)
	var named *os.PathError
	switch {
	case errors.As(err, &named):
		return nil, "", err
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return NewSecretFile(path, text), text, nil
}

// String is the path.
func (f *SecretFile) String() string { return f.path }

// text is the path, and "" where there is no file.
func (f *SecretFile) text() string {
	if f == nil {
		return ""
	}
	return f.path
}

// Format is the path whatever the verb; without it %+v would print the fields.
func (f *SecretFile) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, f.path) }

// read returns what the file holds now. One that cannot be used is most likely being replaced at this moment: the last
// good one serves until it can.
func (f *SecretFile) read(log hclog.Logger) string {
	text, err := readSecret(f.path)
	if err == nil && f.fits != nil {
		err = f.fits(text)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.seen[len(f.seen)-1]
	if err != nil {
		if f.trouble != err.Error() { // once: whoever connects or asks decides how often it is read
			f.trouble = err.Error()
			log.Warn("the file of the secret cannot be used; going on with what was read before", "file", f.path, "error", err)
		}
		return last
	}
	f.trouble = ""
	if text == last {
		return text
	}
	f.seen = append(slices.DeleteFunc(f.seen, func(s string) bool { return s == text }), text)
	f.seen = f.seen[max(0, len(f.seen)-seenSecrets):]
	log.Info("the secret has been replaced; from now on the new one is used", "file", f.path)
	return text
}

func (f *SecretFile) all() []string {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// readSecret is the text without one line break at its end, as the configuration's file() reads it.
func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() { // a pipe could block for ever
		return "", errors.New("not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(file, maxSecretBytes+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxSecretBytes:
		return "", fmt.Errorf("larger than %d bytes", maxSecretBytes)
	}
	text, found := strings.CutSuffix(string(b), "\r\n")
	if !found {
		text = strings.TrimSuffix(text, "\n")
	}
	if text == "" {
		return "", errors.New("it is empty")
	}
	return text, nil
}
