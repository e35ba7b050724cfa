// Package verbs is for programs written the way those on libibverbs are: open a
// [Device] on a link, make protection domains, memory regions, completion queues and
// queue pairs on it, and exchange RDMA operations with any RoCE v2 peer: another goroce,
// Linux rdma_rxe, a NIC. A Go service is easier to write on package roce.
//
// The vocabulary is that of verbs (ibv_*), and comments name the function, the type or the field
// of libibverbs where that helps. Types of wire fields (PSN, QPN, keys, MTU, timer codes) are in
// package ib.
//
// Options are structures: [Config], [QPInitAttr], [MROptions], and [ConnAttr], of which nil is
// [DefaultConnAttr].
//
// # Connecting
//
// [QP.Connect] takes numbers that the application exchanged by other means. Package
// rdmacm has the identifiers and events of librdmacm, and package roce Dial and Listen;
// both speak the protocol of RDMA-CM, so that the peer can be any program on librdmacm.
//
// # Who does the work
//
// A Device is one shard or several: an engine, a lock and a link each, so that as many CPUs can
// work for it. A completion queue names the shard, by its completion vector
// ([Device.CreateCQ]), and a queue pair is where its send queue completes. All other objects
// are of the whole device. What follows holds for each shard.
//
// The work (receive, run timers,
// acknowledge) is done by whoever polls, and by a goroutine of the device when nobody does:
//
//   - A device begins with its goroutine at work. It spins for a few tens of microseconds after
//     traffic, for up to 200 where packets come soon after that, and then blocks in the system
//     call, not in the runtime's poller, which is slower to wake. Posting sends from the caller's
//     goroutine; a message that is posted by itself while others of its queue pair are on their way
//     may be held for some microseconds to share a datagram (see [QP.SetNoDelay]). When the
//     application calls [CQ.Poll] again and again and never waits, the goroutine gives way, and
//     those calls receive.
//   - With [Config.Polling] the goroutine gives way at the first poll, and the calls
//     that wait, as [CQ.Wait], poll too, which keeps a CPU busy. This has the lowest
//     latency. When nobody has polled for 4 to 8 ms the goroutine takes over, so that
//     peers are served while the application does something else.
//   - When the link is a simulation there is no goroutine, and the
//     clock is virtual. The calls that wait let simulated time pass; in a test of
//     an application (sim.Test) the simulation does it by itself, and every run
//     with the same seed is the same.
//
// When packets come in that the application has waited for, their
// acknowledgement is kept back while the application runs: an answer that it
// posts at once leaves with it in one datagram. Otherwise the
// acknowledgement leaves as soon as the goroutine of the device runs again;
// when polled, at the next poll, or when the goroutine takes over.
//
// # Concurrency
//
// All methods of all objects may be called from any goroutine. Work requests
// of one queue pair are ordered as the calls were.
//
// # Waiting and closing
//
// Every call that can wait takes a context and returns its error when it
// ends. [Device.Close] destroys everything that was made on the device; calls
// that wait return [ErrClosed], which matches net.ErrClosed, and so does every
// call afterwards.
//
// A device whose link breaks, such as one whose sockets are gone, does so with the reason. Before
// that [EventDeviceFatal] tells, its queue pairs go to ERR, and what was posted completes with
// WCFlushErr, which can be polled as long as the queue is not closed.
//
// Every object of this package, rdmacm, roce and rsocket ends with Close. It fails with an error
// that matches [ErrBusy] while other objects need this one: then nothing has happened, and Close
// can be called again. Otherwise the object is gone. A second Close returns nil and does nothing,
// as does a first one after that of the device, and one of a zero value. Objects that are not
// closed end with their device, but for a [MappedBuffer], whose memory stays mapped. What is lent
// from a stock has Release instead, which gives it back ([PoolBuf]); a second Release, or that of a
// copy, does nothing.
//
// A zero value of a type that a function of this package makes does nothing: its other
// methods return an error that matches ErrClosed, or zero.
//
// # MTU
//
// The device follows the MTU of its interfaces: [Device.Port] tells it, EventPortMTU a change,
// and new connections and datagrams use it, up to what it was at Open. The path MTU of a
// connection is fixed. When the way to the peer carries less than that, short messages pass as
// before; a request whose packets do not pass, as the interface or a router
// has said (ICMP), fails after one timeout with a [StatusError] that matches syscall.EMSGSIZE,
// and a READ by the peer with a remote operation error. Where nobody says anything the retries
// run out, and the error names the MTU if a packet of that length was not acknowledged.
// Messages of UC, and datagrams on their way, are lost.
//
// # Memory
//
// Registered memory is read and written by the device while a work request
// that refers to it is outstanding, and at any time by peers that were given
// its RKey. The usual rules of Go apply: data that the device wrote may be
// read after the completion was polled. What a peer did by one-sided operations
// makes no completion on this side: learn of it by a message, after which any call on
// the device orders it before what follows; by looking for a mark with [MR.ReadAt]; or by
// sync/atomic on a word that the peer changes atomically.
//
// Mapped memory that goes away while it is registered (its file is truncated, it is
// unmapped) costs the queue pair that meets it, not the process: this side's work request fails
// with a local protection error, that of a peer with a remote access error, and
// the region is lost ([MR.Lost]). The application's own access to it is its own affair. Memory that
// is unmapped and mapped again for something else is not told from what it was:
// close the region first.
//
// In a program in another language (-buildmode=c-shared) that works while faults in Go code get to
// Go's own handlers of SIGSEGV and SIGBUS, on an alternate stack (SA_ONSTACK), in every thread that
// calls. A program that installs handlers of its own after the library was loaded has to pass such
// faults on, or peers can end it.
package verbs
