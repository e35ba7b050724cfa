// Package stat lets "roce stat" on the same machine see what the devices of a process do: their
// queue pairs, as "rdma res show qp" has those of the kernel, connections, and counters under the
// names of rdma_rxe's hw_counters.
//
// A program opts in:
//
//	srv, err := stat.Serve(device)
//	...
//	defer srv.Close()
//
// Nothing happens on the data path. When somebody asks, the locks of the device are taken for
// moments.
//
// # Who may ask
//
// Processes of the same user, and of root, in the same network namespace. The socket is an abstract
// Unix socket, so that a process that is killed leaves nothing behind, and both ends ask the kernel
// who is at the other (SO_PEERCRED). A server says its piece to whoever connects, and reads
// nothing; one that does not take it in time is hung up on, and there are few at a time. A client
// waits for no server longer than its context says, and believes of none more than the kernel
// vouches for: process and user.
//
// # Concurrency
//
// All may be used from anywhere.
package stat
