// Package rsocket implements sockets over RDMA. [Conn] and [Listener] are a net.Conn and a
// net.Listener that speak the rsocket protocol of librdmacm, so the other side can be any program
// on librdmacm's rsocket calls, or one run under its preload library. [PacketConn] is a
// net.PacketConn that speaks its protocol for datagrams.
//
// # Protocol
//
// Both sides register a receive buffer and tell each other where it is. A side writes data straight
// into the peer's buffer by RDMA WRITE with immediate; the immediate has the number of bytes. The
// buffer is granted to the peer in halves: when the reader has emptied half of it, it writes the
// address of that half into a list of two entries at the peer. Each message also uses a receive
// request of the peer. Each grant, or a message of its own, says how many messages the peer may
// send in all.
//
//	immediate, 32 bits: operation << 29 | data
//	0 DATA       bytes written to the place the grants say
//	4 SGL        number of the last message allowed + 1, modulo 2^16; 16 bytes of grant or none
//	6 IOMAP_SGL  index of a mapping; 24 bytes that describe it
//	7 CTRL       0 DISCONNECT, 1 KEEPALIVE, 2 SHUTDOWN
//
// [Conn.Map] and [Conn.WriteAt] are riomap and riowrite: memory that the peer writes with plain
// RDMA WRITEs.
//
// # Shape
//
// The protocol is in plain structs without memory, locks or I/O: sender, receiver and, around both,
// stream. Conn passes work completions to them and posts the messages that they make. Data is
// copied once on each side: from the writer's slice into the send buffer, and from the receive
// buffer into the reader's slice. Conn.ReadFrom, which io.Copy and net/http use, reads files and
// memory straight into the send buffer.
//
// # Memory
//
// A connection has a send and a receive buffer of 64 KiB each, whose pages take memory once they
// are used, and 13 KiB besides; its queues grow with their content. 10,000 idle connections that
// have exchanged a message take 0.22 GiB of memory (23 KiB each), and 1.4 GiB once all of their
// buffers were used; [Config] makes these smaller.
//
// A send buffer grows to 512 KiB when it is full, and to 2 MiB if the peer takes the data, or 4 MiB
// where a round trip takes more than 30 ms. If the peer's program has read nothing for 20 to 200
// ms, it grows to the size of the written data, up to 4 MiB. It shrinks when the connection has
// been idle for [Config.KeepAlive]. If the peer fills half of the small receive buffer in less than
// 20 ms, with more to come, or in less than two round trips and waits for room, the connection gets
// a receive buffer of 512 KiB more. It grows up to 4 MiB while the reader is slower than the peer,
// or the peer waits for room over a round trip of more than 2 ms, until a half of it takes longer
// than 1 s, and for such a peer to 8 MiB if a round trip takes more than 30 ms. Beyond the first
// 512 KiB the buffers of a device grow by 4 MB a second together: using memory for the first time
// can cost 20 times as much as copying data to it, which would slow many connections down. Pages
// that were never used take no memory. All connections of a device share 512 MiB of large buffers;
// beyond that they keep what they have, and [Buffers] counts that. So a peer that never reads costs
// 4 MiB until its connection is closed, and all such peers together 512 MiB. A buffer whose size
// Config sets has that size.
//
// # Both ends write first
//
// A Write returns when the buffers of both ends have taken its bytes, whether or not the peer's
// program reads. The send buffer takes up to 4 MiB, and the peer's receive buffer 64 KiB (128 KiB
// with librdmacm), or more if it has grown. TCP has such bounds as well (4 and 6 MiB,
// net.ipv4.tcp_wmem and tcp_rmem). So two programs that both write before they read do not block
// each other, up to that amount. The content of the send buffer leaves by itself when the peer
// reads, followed by CloseWrite's end of the data: the program need not make a call.
//
// # Concurrency
//
// A connection has no goroutine. One call of Read, Write or Close that has to wait handles the
// completions for all; it wakes the others when there is something for them. A Listener has one
// goroutine, which completes handshakes, unless its device is in polling mode or simulated: then
// Accept does that.
//
// All methods may be called from any goroutine. Bytes of one Write are not mixed with those of
// another.
//
// All connections of a device share one timer: for keep-alive probes, for the content of the send
// buffer while no call is in progress, and for the remaining work after Close.
//
// # Peers that vanish
//
// As with TCP, a peer that vanished is noticed when data is written to it, or by the keep-alive
// probes that an idle connection sends every 15 s ([Config.KeepAlive]). Calls that wait return an
// error that matches syscall.ETIMEDOUT.
//
// # Close
//
// No kernel goes on sending when the process ends. So Close waits until the peer's adapter has all
// written data, for at most 30 s ([Config.Linger]), or says how many bytes it may not have
// ([LostError]). It also waits if the peer's program does not read the data that fills its buffer.
// If nothing is missing it returns at once, and the connection lingers with the device until its
// goodbye has arrived. On a device in polling mode a timer polls for lingering connections.
//
// The end of the queue pair does not overtake the end of the data: the goodbye is sent once the
// peer's adapter has both, and data that has arrived by then is read first. A stream that breaks
// without an end ends with an error that matches syscall.ECONNRESET, or ETIMEDOUT, not with io.EOF.
//
// # Datagrams
//
// A [PacketConn] has a UDP port of the kernel, which is its address, and a UD queue pair at each
// local address that it uses. A datagram to a peer with an unknown queue pair goes to the peer's
// UDP port, behind a header that names the sender's queue pair; the answer, without data, names the
// peer's. From then on datagrams travel as SENDs, behind 8 or 24 bytes that name the sender.
// Datagrams that do not fit a packet of the device also go by UDP: librdmacm as the peer passes
// them on if its own device has larger packets, and loses them otherwise.
//
// Queue pairs are learned from UDP messages, which anyone can forge who can forge the source of an
// IP packet. UDP itself gives no more trust; TLS or the like on top proves more. A socket remembers
// the 4096 peers that it heard of last, and asks the others again. The protocol has no multicast.
//
// As released, librdmacm's datagram sockets fail on RoCE (rconnect fails, of rdma-core 44 on rxe):
// they make an address handle without a global route, which RoCE requires and InfiniBand does not.
//
// # Limits
//
// A side whose application makes no call handles only probes, and the content of its send buffer:
// the next call notices a peer's close.
//
// Addresses that are GIDs (-f gid of librdmacm's examples) are not supported: on RoCE they only
// name IP addresses. Urgent data does not exist in librdmacm either.
//
// A hostile peer can write anything into its connection's receive buffer and lists, at any time. It
// reaches nothing else, because every connection has its own protection domain. Its messages are
// checked; an impossible one ends the connection with a [ProtocolError].
package rsocket
