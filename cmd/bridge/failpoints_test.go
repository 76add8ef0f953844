package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestFailpointsAreAll: a step that the bridge has and this list has not could not be asked for, and the selftest would leave it out.
func TestFailpointsAreAll(t *testing.T) {
	files, err := filepath.Glob("../../bridge/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	call := regexp.MustCompile(`\.Failpoint\("([^"]+)"\)`)
	var found []string
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllSubmatch(b, -1) {
			found = append(found, string(m[1]))
		}
	}
	slices.Sort(found)
	want := slices.Sorted(slices.Values(failpoints))
	if got := slices.Compact(found); !slices.Equal(got, want) {
		t.Errorf("the bridge has the steps %q, the list %q", got, want)
	}
}
