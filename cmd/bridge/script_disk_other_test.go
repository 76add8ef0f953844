//go:build !linux

package main

import "errors"

func mountSmall(string) error { return errors.New("a disk of its own is mounted on Linux only") }

func unmount(string) error { return nil }
