// Package oob is the TCP connection over which the tools of rdma-core and perftest tell each other
// queue pair numbers, keys and addresses before they speak RDMA ("out of band").
//
// Both families of tools exchange messages of fixed sizes, one read and one write call each, and
// the originals take a short read for a failure: a message is therefore always written in one piece
// here, and read until it is complete.
//
// Every wait ends when the context is cancelled. A Conn is for one goroutine.
package oob
