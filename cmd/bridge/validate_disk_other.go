//go:build !linux

package main

// disk is for Linux only.
func (v *validation) disk(string, string) {}

func owner(string) string { return "" }
