// Package roce connects Go services by RDMA over Converged Ethernet (RoCE v2), in
// user space and without privileges.
//
// [Dial] and [Listen] make a [Conn], as package net does. A Conn sends and receives
// messages ([Conn.Send], [Conn.Recv]), and reads and writes memory of the peer without its
// program taking part ([Conn.Share], [Conn.Read], [Conn.Write], [Conn.FetchAdd]). The peer
// can be another program on this package, or any program that uses librdmacm: on Linux's
// rdma_rxe, or a network card.
//
//	l, err := roce.Listen(ctx, "192.0.2.1:7471")
//	err = l.Serve(ctx, func(ctx context.Context, c *roce.Conn) error { ... })
//
//	c, err := roce.Dial(ctx, "192.0.2.1:7471")
//	err = c.Send(ctx, []byte("hello"))
//
// What it is built on has packages of its own, which a service need not know:
//
//   - roce/verbs: devices, queue pairs, memory regions, as ibv_* has them.
//   - roce/rdmacm: connection identifiers and events, as rdma_* has them.
//   - roce/rsocket: streams, as net.Conn; the peer can be any program on rsocket(7).
//   - roce/link: what carries the packets: UDP sockets, AF_PACKET, AF_XDP, a simulation.
//
// And for services there are
//
//   - roce/auth: both ends of a connection prove that they know a secret.
//   - roce/metrics: counters with names, for expvar and others.
//
// # Waiting and closing
//
// Every call that can wait takes a context, looks at it before anything is sent, and
// returns its error when it ends. An error that matches [ErrMaybeDone] says that the
// peer may have carried out the operation all the same. Close ends a connection at once;
// a second Close does nothing. The memory that a Conn was given is the device's until
// Close returns. Deadlines, as package net has them, are there beside contexts
// ([Conn.SetDeadline]).
//
// [Server] has a handler for each connection. [Server.Shutdown], [Listener.Shutdown] and, for a
// device, [Shutdown] end when the work in progress has: no new connections, then handlers that wait
// for another message.
//
// [Conn.Stats] tells how a connection fares, and ConnConfig.Logger is told when one begins and
// ends.
//
// # Devices
//
// Connections are made on a device, which has the addresses, the link and UDP port 4791.
// A process opens one for each local address when it is first needed ([DefaultDevice]); a
// program that wants another link, or to poll, opens its own with verbs.Open and says so
// in [ConnConfig].
//
// # Patterns
//
// Four examples of this package are what most RDMA programs are made of: a ring that is filled by
// WRITE with immediate, a versioned READ of what may be changing, a lease by CMP_SWAP that outlives
// a holder that died, and messages with credits. The applications in bench/apps use them.
//
// # Errors
//
// Errors are *[OpError], which is a net.Error, and match what package net's do:
// net.ErrClosed, syscall.ECONNREFUSED, os.ErrDeadlineExceeded and so on.
package roce
