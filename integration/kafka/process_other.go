//go:build !linux

package kafka

import "syscall"

// DieWithParent is only possible on Linux; elsewhere a child is killed by the cleanup of its test.
func DieWithParent() *syscall.SysProcAttr { return nil }
