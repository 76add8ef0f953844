package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// The linker sets both for releases: -ldflags "-X main.version=v1.2.3 -X main.commit=0123abc". It ignores names that it does not
// find, so they stay as they are.
var (
	version = "dev" // the release's name
	commit  string  // what it was built from; empty: the build information tells
)

type versionCommand struct{}

// Run prints version, commit and Go version.
func (versionCommand) Run(env environment) error {
	info, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintf(env.stdout, "bridge %s (commit %s, %s)\n", version, builtFrom(commit, info), runtime.Version())
	return err
}

// builtFrom is the commit that the linker was told, or else that of the build information. The latter has none when it was built
// outside of a git work tree, as in a container from an archive, or without git.
func builtFrom(told string, info *debug.BuildInfo) string {
	if told != "" {
		return told
	}
	revision, dirty := "unknown", ""
	if info == nil {
		return revision
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return revision + dirty
}
