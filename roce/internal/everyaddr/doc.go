// Package everyaddr has a listener at all addresses of the host follow them: one part of it at each
// address, on a device of its own, which comes and goes with the address.
//
// # Concurrency
//
// A Set may be used from anywhere. Its actions are called by one goroutine at a time.
package everyaddr
