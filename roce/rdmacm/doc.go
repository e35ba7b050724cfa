// Package rdmacm is the communication manager, for programs written the way those on
// librdmacm are: an [ID] is an rdma_cm_id, an [EventChannel] an rdma_event_channel. They
// speak the protocol of RDMA-CM, so that the peer can be any program on librdmacm. A Go
// service is easier to write on package roce.
//
// An ID that connects goes through [ID.ResolveAddr], [ID.ResolveRoute], [ID.CreateQP] and
// [ID.Connect]; one that listens through [ID.BindAddr] and [ID.Listen], and gets an ID for
// each request. Events tell what became of each step.
//
// Beneath it is package cm: the messages and states of the protocol, without sockets, clocks or
// goroutines.
//
// # Queue pair 1
//
// From the first use of roce.Dial, roce.Listen or an ID, queue pair 1 is the
// communication manager's. Of other management classes it serves none, as
// rdma_rxe: a Get or a Set, of the PMA say, is answered with status 0x0c (method and
// attribute not supported), to whoever asked, and everything else is dropped (Linux's ib_mad; held
// against 6.1 and 6.12 by the conformance matrix, see mad.Unserved).
//
// # Floods
//
// What peers that never confirm a connection can make a device hold is bounded: 64 MiB for
// connections that a roce.Listener has accepted, queue pairs and receive buffers included (288
// KiB each with the defaults), and 32 MiB for the records of the communication manager
// (FloodBytes of package cm). Beyond that the oldest of them are given up, and requests are
// left unanswered, as Linux does, so that honest clients, which answer within a round trip and
// otherwise try again, get in. What peers that do confirm can make it hold is bounded by
// ListenLimits.MaxConns, which is up to the application. [CountersOf] tells how often each
// bound was reached.
package rdmacm
