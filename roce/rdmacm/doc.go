// Package rdmacm is the communication manager, for programs written in the style of librdmacm: an
// [ID] is an rdma_cm_id, an [EventChannel] an rdma_event_channel. They speak the protocol of
// RDMA-CM, so the peer can be any program on librdmacm. A Go service is easier to write on package
// roce.
//
// An ID that connects goes through [ID.ResolveAddr], [ID.ResolveRoute], [ID.CreateQP] and
// [ID.Connect]. One that listens goes through [ID.BindAddr] and [ID.Listen], and gets an ID for
// each request. Events report the outcome of each step.
//
// Package cm lies beneath: the messages and states of the protocol, without sockets, clocks or
// goroutines.
//
// # Queue pair 1
//
// From the first use of roce.Dial, roce.Listen or an ID, queue pair 1 belongs to the communication
// manager. Like rdma_rxe it serves no other management class: it answers a Get or a Set, of the PMA
// say, with status 0x0c (method and attribute not supported), to any sender, and drops
// everything else (as Linux's ib_mad does; the conformance matrix compares with 6.1 and 6.12, see
// mad.Unserved).
//
// # Floods
//
// Peers that never confirm a connection can make a device hold only so much: 64 MiB for connections
// that a roce.Listener has accepted, including queue pairs and receive buffers (288 KiB each with
// the defaults), and 32 MiB for the records of the communication manager (FloodBytes of package
// cm). Beyond that the oldest ones are given up, and requests stay unanswered, as on Linux, so that
// honest clients, which answer within a round trip and otherwise try again, get in.
// ListenLimits.MaxConns bounds what confirmed connections hold; the application sets it.
// [CountersOf] tells how often each bound was reached.
package rdmacm
