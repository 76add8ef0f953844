package kafka

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Java returns the Java command, or ErrUnavailable.
func Java() (string, error) {
	path, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("%w: no java: %w", ErrUnavailable, err)
	}
	return path, nil
}

// startupFlags cut the start of a JVM: on two cores the second compiler and a parallel collector cost more
// than they give to processes that live for minutes.
func startupFlags() []string {
	return []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"}
}

// classPath is the wildcard class path of a jar folder.
func classPath(libs string) string { return filepath.Join(libs, "*") }
