//go:build !linux

package main

// A guest's first process is there for Linux guests alone.
func main() { panic("labd is for Linux guests") }
