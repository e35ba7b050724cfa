// Package valkey connects a Go client to a valkey server over RDMA, without cgo: it speaks valkey's
// RDMA protocol (RDMA.md of its documentation) to an unmodified server with the RDMA module.
//
// A [Conn] is a net.Conn, so any client that takes a function for dialing can use it: go-redis and
// valkey-go do. Each side has a buffer that the other writes to, by WRITE with immediate, whose
// value is the number of bytes; when it is full and has been read, its owner tells the other side
// to begin again.
//
// The server needs no RDMA in the kernel, either: roce run gives it the verbs libraries (valkey
// built by make BUILD_RDMA=module):
//
//	roce run --addr=127.0.0.1 valkey-server --port 6390 --loadmodule valkey-rdma.so --rdma-bind 127.0.0.1 --rdma-port 6390
//	VALKEY_RDMA=127.0.0.1:6390 go test -run TestServer ./valkey
//	go run ./cmd/valkey -rdma 127.0.0.1:6390 -tcp 127.0.0.1:6390
//
// There are no keepalives, and a Write whose bytes wait for those before them does not look at its
// deadline.
package valkey
