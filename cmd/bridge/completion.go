package main

import (
	"embed"
	"fmt"
)

// completionScripts ask the binary itself for what can follow, so that they never are older than it.
//
//go:embed completion
var completionScripts embed.FS

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell."`
}

// Run prints the shell's script.
func (c *completionCommand) Run(env environment) error {
	script, err := completionScripts.ReadFile("completion/bridge." + c.Shell)
	if err == nil {
		_, err = env.stdout.Write(script)
	}
	if err != nil {
		return fmt.Errorf("completion: %w", err)
	}
	return nil
}
