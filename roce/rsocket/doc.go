// Package rsocket is sockets over RDMA: [Conn] and [Listener] are a net.Conn and a net.Listener
// that speak the rsocket protocol of librdmacm, so that any program on librdmacm's rsocket calls,
// or run under its preload library, can be the other side. [PacketConn] is a net.PacketConn that
// speaks its protocol for datagrams.
//
// # Protocol
//
// Both sides register a receive buffer and tell each other where it is. Data is
// written straight into the peer's buffer by RDMA WRITE with immediate; the
// immediate says how many bytes. The buffer is granted to the peer in halves:
// when the reader has emptied half of it, it writes the address of that half
// into a list of two entries at the peer. Each message also uses a receive
// request of the peer; how many messages it may send in all is said along with
// each grant, or by itself.
//
//	immediate, 32 bits: operation << 29 | data
//	0 DATA       bytes written to the place the grants say
//	4 SGL        number of the last message allowed + 1, modulo 2^16; 16 bytes of grant or none
//	6 IOMAP_SGL  index of a mapping; 24 bytes that describe it
//	7 CTRL       0 DISCONNECT, 1 KEEPALIVE, 2 SHUTDOWN
//
// [Conn.Map] and [Conn.WriteAt] are riomap and riowrite: memory that the peer
// writes with plain RDMA WRITEs.
//
// # Shape
//
// The protocol is in plain structs without memory, locks or I/O: sender,
// receiver and, around both, stream. Conn gives them work completions and posts
// what they say. Data is copied once on each side: from the writer's slice into
// the send buffer, and from the receive buffer into the reader's slice. Conn.ReadFrom, which
// io.Copy and net/http use, reads files and memory straight into the send buffer.
//
// # Memory
//
// A connection has a send and a receive buffer of 64 KiB each, of which the pages count that were
// used, and 13 KiB besides; its queues grow with what is in them. 10,000 that have exchanged a
// message and are idle take 0.22 GiB of memory (23 KiB each), and 1.4 GiB when all of their buffers
// were used; [Config] makes these smaller.
//
// A send buffer grows to 512 KiB when it is full, then to 2 MiB for data that the peer takes, and
// to as much as is written, up to 4 MiB, for data of which the peer's program has read nothing for
// 20 to 200 ms, until the connection is idle for the time of [Config.KeepAlive]. One whose peer
// fills the half of its small receive buffer in less than 20 ms, with more to come, gets 512 KiB
// more, and up to 4 MiB while that is not enough, until a half of that takes longer than 1 s.
// Beyond the first 512 KiB the buffers of a device grow by 4 MB a second together: memory that is
// used for the first time can cost 20 times as much as the data that is copied to it, which would
// slow many connections down. Pages of these that were never used take no memory. All connections
// of a device have 512 MiB of large buffers together; beyond that they stay with what they have,
// and [Buffers] counts that. So a peer that never reads costs 4 MiB until its connection is
// closed, and all such peers together 512 MiB. A buffer whose size Config gives has that size.
//
// # Who writes first
//
// A Write returns when the buffers of both ends have taken its bytes, whether the peer's program
// reads or not: the send buffer takes up to 4 MiB, and the peer's receive buffer 64 KiB, 128 KiB
// with librdmacm, more if it has grown. TCP has such bounds, too (4 and 6 MiB, net.ipv4.tcp_wmem
// and tcp_rmem). So two programs that both write before they read do not wait for each other, up to
// that. What the send buffer holds leaves by itself when the peer reads, and CloseWrite's end of
// the data behind it: the program need not make a call.
//
// # Concurrency
//
// A connection has no goroutine. Whoever calls Read, Write or Close and has to
// wait handles the completions for everybody; the others are woken when there is
// something for them. A Listener has one goroutine, which completes handshakes,
// unless its device is in polling mode or simulated: then Accept does that.
//
// All methods may be called from any goroutine. Bytes of one Write are not mixed
// with those of another.
//
// A connection costs a device one timer, which it shares with all others: for keep-alive probes,
// for what the send buffer holds while nobody is in a call, and for what is left to do after Close.
//
// # Peers that vanish
//
// As with TCP, a peer that vanished is noticed when something was written to it, or by the
// keep-alive probes that an idle connection sends every 15 s ([Config.KeepAlive]). Calls that
// wait return an error that matches syscall.ETIMEDOUT.
//
// # Close
//
// There is no kernel that goes on sending when the process ends. So Close waits until the peer's
// adapter has what was written, for at most 30 s ([Config.Linger]), or says how many bytes it may
// not have ([LostError]). A peer whose program does not read what fills its buffer has it wait as
// well. When nothing is missing it returns at once, and the connection lingers with the device
// until its goodbye has arrived. On a device in polling mode a timer polls for connections that
// linger.
//
// The end of the queue pair does not overtake the end of the data: it is said when the peer's
// adapter has both, and what has arrived by then is read first. A stream whose end was not said
// ends with an error that matches syscall.ECONNRESET, or ETIMEDOUT, not with io.EOF.
//
// # Datagrams
//
// A [PacketConn] has a UDP port of the kernel, which is its address, and a UD queue pair at each
// local address that it speaks from. A datagram to a peer whose queue pair is not known goes to the
// peer's UDP port, behind a header that names the sender's; the answer, without data, names the
// peer's. From then on datagrams travel as SENDs, behind 8 or 24 bytes that say who has sent them.
// What does not fit a packet of the device goes by UDP, too: librdmacm as the peer passes that on
// if its own device has larger packets, and loses it otherwise.
//
// Who knows the queue pair of a peer is told by UDP messages, which anybody can forge who can forge
// the sender of an IP packet. It is the trust that UDP itself has: TLS or the like above it proves
// more. A socket remembers the 4096 peers that it heard of last, and asks the others again.
// Multicast is not in the protocol.
//
// As released, librdmacm's datagram sockets fail on RoCE (rconnect does, of rdma-core 44 on rxe):
// they make an address handle without a global route, which RoCE refuses and InfiniBand does not
// need.
//
// # Limits
//
// A side whose application makes no call handles nothing but probes, and what its send buffer
// holds: a peer's close is noticed by the next call.
//
// Addresses that are GIDs (-f gid of librdmacm's examples) are not here: they name nothing but IP
// addresses on RoCE. Urgent data does not exist in librdmacm either.
//
// A hostile peer can write what it likes into its connection's receive buffer
// and lists, at any time; it reaches nothing else, since every connection has a
// protection domain of its own. What it claims in messages is checked, and
// what cannot be ends the connection with a [ProtocolError].
package rsocket
