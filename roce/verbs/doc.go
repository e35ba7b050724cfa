// Package verbs is for programs written in the style of libibverbs: open a [Device] on a link, make
// protection domains, memory regions, completion queues and queue pairs on it, and exchange RDMA
// operations with any RoCE v2 peer: another program on this package, Linux rdma_rxe, a NIC. A Go
// service is easier to write on package roce.
//
// The vocabulary is that of verbs (ibv_*), and comments name the function, type or field of
// libibverbs where that helps. Types of wire fields (PSN, QPN, keys, MTU, timer codes) are in
// package ib.
//
// Options are structures: [Config], [QPInitAttr], [MROptions], and [ConnAttr]; nil means
// [DefaultConnAttr].
//
// # Connecting
//
// [QP.Connect] takes numbers that the application exchanged by other means. Package rdmacm has the
// identifiers and events of librdmacm, and package roce has Dial and Listen. Both speak the
// protocol of RDMA-CM, so the peer can be any program on librdmacm.
//
// # Who does the work
//
// A Device consists of one or more shards. Each has an engine, a lock and a link, so that several
// CPUs can work for the device. A completion queue selects its shard by its completion vector
// ([Device.CreateCQ]), and a queue pair lives on the shard of its send completion queue. All other
// objects belong to the whole device. What follows holds for each shard.
//
// The work (receive, run timers, acknowledge) is done by calls of the application that poll or
// wait, or by a goroutine of the device while there are none:
//
//   - At first, the device's goroutine does the work. It looks for packets for tens of microseconds
//     after traffic, up to 200 while packets come soon after that, and then sleeps in the system
//     call. When all that comes is for one goroutine that waits, that goroutine receives for itself.
//     When the application calls [CQ.Poll] again and again and never waits, those calls receive.
//     Posting sends from the caller's goroutine, but a single message posted while others of its
//     queue pair are on their way may be held for some microseconds to share a datagram (see
//     [QP.SetNoDelay]).
//   - With [Config.Polling] the goroutine gives way at the first poll, and calls that wait, such as
//     [CQ.Wait], poll too, which keeps a CPU busy. This has the lowest latency. After 4 to 8 ms
//     without a poll the goroutine takes over, so that peers are served while the application does
//     something else.
//   - On a simulated link there is no goroutine, and the clock is virtual. Calls that wait let
//     simulated time pass. In a test of an application (sim.Test) the simulation does that by
//     itself, and every run with the same seed is the same.
//
// When packets arrive that the application was waiting for, their acknowledgement is held back
// while the application runs, so that an answer posted at once leaves with it in one datagram.
// Otherwise the acknowledgement leaves as soon as the device's goroutine runs again; on a polled
// device, at the next poll, or when the goroutine takes over.
//
// # Concurrency
//
// All methods of all objects may be called from any goroutine. Work requests of one queue pair are
// carried out in the order of the calls.
//
// # Waiting and closing
//
// Every call that can wait takes a context and returns its error when it ends. [Device.Close]
// destroys everything that was made on the device. Calls that wait return [ErrClosed], which
// matches net.ErrClosed, and so does every call afterwards.
//
// A device whose link breaks, for example because its sockets are gone, closes in the same way,
// with the reason. Before that it raises [EventDeviceFatal], its queue pairs go to ERR, and posted
// requests complete with WCFlushErr; these completions can be polled until the queue is closed.
//
// Every object of this package, rdmacm, roce and rsocket ends with Close. Close fails with an error
// that matches [ErrBusy] while other objects need this one; then nothing has happened, and Close
// can be called again. Otherwise the object is gone. A second Close returns nil and does nothing;
// so does a first one after that of the device, and one of a zero value. Objects that are not
// closed end with their device, except for a [MappedBuffer], whose memory stays mapped. Objects
// lent from a stock have Release instead, which gives them back ([PoolBuf]); releasing one again,
// or a copy of it, does nothing.
//
// A zero value of a type that a function of this package makes does nothing: its other methods
// return an error that matches ErrClosed, or zero.
//
// # MTU
//
// The device follows the MTU of its interfaces. [Device.Port] returns it, EventPortMTU reports a
// change, and new connections and datagrams use it, up to its value at Open. The path MTU of a
// connection is fixed. If the path to the peer carries less, short messages pass as before. A
// request whose packets do not pass, as the interface or a router has reported (ICMP), fails after
// one timeout with a [StatusError] that matches syscall.EMSGSIZE, and a READ by the peer with a
// remote operation error. If nothing reports it, the retries run out, and the error names the MTU
// if a packet of that length was not acknowledged. Messages of UC, and datagrams on their way, are
// lost.
//
// # Memory
//
// The device reads and writes registered memory while a work request that refers to it is
// outstanding, and at any time for peers that have its RKey. The usual rules of Go apply: read data
// that the device wrote only after its completion was polled. One-sided operations of a peer make
// no completion on this side. Learn of them by a message, after which any call on the device orders
// them before what follows; by looking for a mark with [MR.ReadAt]; or by sync/atomic on a word
// that the peer changes atomically.
//
// Mapped memory that goes away while it is registered (its file is truncated, or it is unmapped)
// costs the queue pair that touches it, not the process. A work request of this side fails with a
// local protection error, one of a peer with a remote access error, and the region is lost
// ([MR.Lost]). The application must guard its own accesses. Close a region before its memory is
// unmapped and mapped again for something else: the device cannot detect that.
//
// In a program in another language (-buildmode=c-shared) this works only while faults in Go code
// reach Go's own handlers of SIGSEGV and SIGBUS, on an alternate stack (SA_ONSTACK), in every
// thread that calls. A program that installs its own handlers after loading the library must pass
// such faults on, or peers can crash it.
package verbs
