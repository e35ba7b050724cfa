// Package roce connects Go services by RDMA over Converged Ethernet (RoCE v2), in user space and
// without privileges.
//
// [Dial] and [Listen] make a [Conn], as package net does. A Conn sends and receives messages
// ([Conn.Send], [Conn.Recv]), and reads and writes memory of the peer without the peer's program
// taking part ([Conn.Share], [Conn.Read], [Conn.Write], [Conn.FetchAdd]). The peer can be another
// program on this package, or any program that uses librdmacm on Linux's rdma_rxe or a network
// card.
//
//	l, err := roce.Listen(ctx, "192.0.2.1:7471")
//	err = l.Serve(ctx, func(ctx context.Context, c *roce.Conn) error { ... })
//
//	c, err := roce.Dial(ctx, "192.0.2.1:7471")
//	err = c.Send(ctx, []byte("hello"))
//
// It builds on these packages, which a service need not know:
//
//   - roce/verbs: devices, queue pairs, memory regions, modelled on ibv_*.
//   - roce/rdmacm: connection identifiers and events, modelled on rdma_*.
//   - roce/rsocket: streams that are net.Conns; the peer can be any program on rsocket(7).
//   - roce/link: the links that carry packets: UDP sockets, AF_PACKET, AF_XDP, a simulation.
//
// Two packages serve services:
//
//   - roce/auth: both ends of a connection prove that they know a secret.
//   - roce/metrics: counters with names, for expvar and others.
//
// # Waiting and closing
//
// Every call that can wait takes a context. It checks the context before it sends anything, and
// returns the context's error when it ends. An error that matches [ErrMaybeDone] says that the peer
// may have carried out the operation all the same. Close ends a connection at once; a second Close
// does nothing. The device may use the memory that a Conn was given until Close returns. Deadlines
// like those of package net complement contexts ([Conn.SetDeadline]).
//
// [Server] calls a handler for each connection. [Server.Shutdown], [Listener.Shutdown] and, for a
// device, [Shutdown] take no new connections, end handlers that wait for another message, and
// return when the work in progress is done.
//
// [Conn.Stats] tells how a connection fares, and ConnConfig.Logger records when one begins and
// ends.
//
// # Devices
//
// A connection is made on a device, which has the addresses, the link and UDP port 4791. A process
// opens one for each local address when it is first needed ([DefaultDevice]). To use another link,
// or to poll, open a device with verbs.Open and set it in [ConnConfig].
//
// # Patterns
//
// The examples of this package show the four patterns that most RDMA programs are made of: a ring
// filled by WRITE with immediate, a versioned READ of data that may be changing, a lease by
// CMP_SWAP that survives a holder that died, and messages with credits. The applications in
// bench/apps use them.
//
// # Errors
//
// Errors are *[OpError], which is a net.Error, and match the errors that package net uses:
// net.ErrClosed, syscall.ECONNREFUSED, os.ErrDeadlineExceeded and so on.
package roce
