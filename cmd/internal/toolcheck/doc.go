// Package toolcheck runs a tool against itself for tests: server and client in
// one process, each with a device on an address of its own.
package toolcheck
