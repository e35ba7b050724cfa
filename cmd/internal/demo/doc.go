// Package demo is demo: two processes on this machine connect over loopback addresses and do one of
// each RDMA operation, with every byte checked on both sides, and say what happens and why.
//
// The parent process starts itself a second time as the peer and talks to it over pipes, by which
// it learns where the peer listens and asks what it finds in its memory. Everything else is what a
// service on package roce does: Dial, Accept, and the calls of a Conn. The peer is passive: it
// prepares memory and receives, and afterwards says what it finds there.
package demo
