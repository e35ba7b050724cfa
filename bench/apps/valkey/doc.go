// Package valkey connects a Go client to a valkey server over RDMA, without cgo: it speaks valkey's RDMA protocol
// (RDMA.md of its documentation) to an unmodified server with the RDMA module.
//
// A [Conn] is a net.Conn, so any client that takes a function for dialing can use it: go-redis and valkey-go do. Each side has
// a buffer that the other writes to, by WRITE with immediate, whose value is the number of bytes; when it is full and has been
// read, its owner tells the other side to begin again.
package valkey
