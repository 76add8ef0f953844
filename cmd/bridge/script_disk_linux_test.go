package main

import "syscall"

// mountSmall needs root.
func mountSmall(dir string) error { return syscall.Mount("none", dir, "tmpfs", 0, "size=16m") }

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
