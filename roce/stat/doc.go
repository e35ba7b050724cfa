// Package stat lets "roce stat" on the same machine see what the devices of a process do: their
// queue pairs, like "rdma res show qp" for those of the kernel, connections, and counters under the
// names of rdma_rxe's hw_counters.
//
// A program opts in:
//
//	srv, err := stat.Serve(device)
//	...
//	defer srv.Close()
//
// Nothing happens on the data path. A query takes the locks of the device for moments.
//
// # Who may ask
//
// Processes of the same user, and of root, in the same network namespace. The socket is an abstract
// Unix socket, so a process that is killed leaves nothing behind, and both ends ask the kernel for
// the identity of the other (SO_PEERCRED). A server sends its answer to every client that connects,
// and reads nothing; it hangs up on a client that does not read the answer in time, and serves a
// few at a time. A client waits for a server no longer than its context allows, and trusts only
// what the kernel vouches for: process and user.
//
// # Concurrency
//
// Everything may be used from anywhere.
package stat
