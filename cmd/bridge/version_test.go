package main

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestBuiltFrom(t *testing.T) {
	vcs := func(revision, modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}}
	}
	for _, c := range []struct {
		told string
		info *debug.BuildInfo
		want string
	}{
		{"", vcs("0123abc", "false"), "0123abc"},
		{"", vcs("0123abc", "true"), "0123abc-dirty"},
		{"", &debug.BuildInfo{}, "unknown"}, // from an archive
		{"", nil, "unknown"},
		{"4567def", &debug.BuildInfo{}, "4567def"},
		{"4567def", nil, "4567def"},
		{"4567def", vcs("0123abc", "true"), "4567def"},
	} {
		if got := builtFrom(c.told, c.info); got != c.want {
			t.Errorf("told %q, %v: %q, want %q", c.told, c.info, got, c.want)
		}
	}
}

// TestVersionAsTheLinkerSetsIt: what releases say. version and commit are names that build files use.
func TestVersionAsTheLinkerSetsIt(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	version, commit = "v1.2.3", "4567def"
	var out bytes.Buffer
	if err := (versionCommand{}).Run(environment{stdout: &out}); err != nil || out.String() != "bridge v1.2.3 (commit 4567def, "+runtime.Version()+")\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
