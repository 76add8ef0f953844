package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is the release's name; the linker sets it for releases.
var version = "dev"

type versionCommand struct{}

// Run prints version, commit and Go version.
func (versionCommand) Run(env environment) error {
	_, err := fmt.Fprintf(env.stdout, "bridge %s (commit %s, %s)\n", version, commit(), runtime.Version())
	return err
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "unknown", ""
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
