// Package daemon drives the built bridge as its users do: as a process with a configuration file, signals, exit
// codes, its log on standard error and its HTTP paths. It imports nothing of the bridge.
package daemon

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build compiles cmd/bridge into dir with the failpoints compiled in, and returns the binary's path. Without the
// race detector: timing is part of what is tested.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "bridge")
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "failpoints", "-o", binary, "kafkabridge/cmd/bridge").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the bridge: %w\n%s", err, out)
	}
	return binary, nil
}
