package snapshot

import (
	"errors"
	"io/fs"
	"testing"
)

func TestPathIsNamedOnce(t *testing.T) {
	full := errors.New("no space left on device")
	const want = "write /state/7.log: no space left on device"
	for name, err := range map[string]error{
		"bare":                    full,
		"of the operating system": &fs.PathError{Op: "write", Path: "/state/7.log", Err: full},
	} {
		got := named("write", "/state/7.log", err)
		if got.Error() != want || !errors.Is(got, full) {
			t.Errorf("%s: %q, want %q around its cause", name, got, want)
		}
	}
}
