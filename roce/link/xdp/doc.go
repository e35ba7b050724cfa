// Package xdp is the link that writes and reads whole frames through AF_XDP sockets, around the
// kernel's network stack. It needs CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW.
//
// # What it has over the others
//
// With a driver that does zero-copy, frames go between the card and this process's memory. Received
// packets are seen without a system call, so polling has the least latency of all
// links. In copy mode every packet costs as much as a frame, because there is no segmentation
// offload: bulk data over virtual interfaces is faster with the udp and packet links.
//
// CPU time of one thread that drives both ends without blocking, kernel included, for half a round
// trip of 64 bytes over veth, medians of 3 interleaved rounds (go test -bench . -cpu 1
// ./roce/link/xdp): native copy 3.4 us, generic 3.6 us, packet link 4.5 us, udp link 6.1 us.
//
// # Modes
//
// The program is attached in the driver (native) or in the stack (generic), and the sockets are
// bound zero-copy or copy, with frames in several buffers (multi-buffer) or not. The ways are tried
// in that order, except that multi-buffer goes first if the interface's MTU needs it: without it,
// as before Linux 6.6, a frame must fit a chunk, and the path MTU, which MTU and Watch report, is
// at most 2048. Capabilities().Mode has the result.
//
// Zero copy was run with virtio_net of Linux 7.2 in a QEMU guest, against rdma_rxe of 6.12 in
// another one: "native zero-copy" with an MTU of 1500. With 9000 it is "native copy multi-buffer",
// because that driver takes frames in several buffers with copying only. The guest's device needs
// disable-legacy=on,iommu_platform=on: the driver has no DMA device otherwise, and refuses.
// conformance/README.md has the command.
//
// # Program
//
// The program sends a frame to the socket of the queue it came by if it is addressed to the MAC
// address of the interface or a group, has the VLAN tag of the options or none, and carries UDP to
// port 4791 at one of the addresses of the link; all else passes to the kernel. Packets from or to
// loopback addresses must come by the loopback interface. A BPF link holds the program, so it goes
// when the process does, however it ends.
//
// UDP sockets that receive nothing reserve the port: no other program can have it, and the kernel
// does not answer packets that pass with an ICMP error.
//
// # Frames
//
// Single packets carry IPv4 identification 0 and UDP checksum 0, as rdma_rxe sends them. Packets in
// one chunk are handed up in place, others are put together. A run of packets that a peer on the
// same machine has sent with segmentation offload, and that was never cut up, arrives in generic
// mode only: see search. Before Linux 6.6 one that is longer than a chunk is lost there, again when
// it is repeated. "ethtool -K DEVICE tx-udp-segmentation off" on the peer's veth mends it.
//
// # Invariants
//
//   - A chunk of the UMEM belongs to this process or to the kernel, and a ledger says to which. If
//     one is handed over twice, or comes back without having been handed over, the link fails
//     instead of corrupting a packet.
//   - The chunks for receiving belong to the receiving side, those for sending to the sending side:
//     there is no lock between them.
//   - A chunk that was handed up goes back to the kernel by the next Recv.
//
// # When the interface or the program goes
//
// The kernel lets no other program replace the link's, but a privileged process can detach it, and
// an interface can be removed. Both end the link's use of that interface for good, even if an
// interface of that name comes back: the port goes down, packets that would leave by it are
// unreachable, and with the last interface Wait and Recv fail with a [DetachedError], which closes
// a device and is in the errors of its calls. A detached program is noticed with the next change of
// the interface; the kernel does not announce it.
//
// # When a system call fails
//
//	sendto    EAGAIN, EBUSY, ENOBUFS,    frames stay in the ring; tried again every 0.1 ms
//	          ENOMEM
//	          EINTR                      at once
//	          EBADF, ENOTSOCK, ENOTCONN  the link ends
//	          EPIPE, ECONNABORTED
//	          all others                 frames stay in the ring until something else is sent: the
//	                                     interface is down or gone
//	ppoll     EINTR, ENOMEM, EAGAIN      a wait that ended early
//	          all others, POLLNVAL       the link ends
//
// Packets count as sent once they are in the ring, and as dropped when 4 MiB wait for that. A
// caller that polls all the time sees that a socket is gone when it sends, or when a timer runs.
//
// # Neighbours, VLAN
//
// As with package packet, routes and MAC addresses are the kernel's, a bounded number of packets
// waits for a neighbour, and packets that cannot be sent are counted. VLAN tags that the card
// removes are not seen: with Options.VLAN switch that off (ethtool -K DEVICE rxvlan off).
//
// # Limits
//
// Only Linux, and Ethernet and loopback interfaces. An interface has one XDP program, so one
// process with this link per interface. Packets leave by the interfaces of the link's addresses; a
// destination with a route by another interface is unreachable. That holds for the machine's own
// addresses as well, whose route is by the loopback interface, unless the link has a loopback
// address. All receive queues of an interface are served, 64 at most.
//
// A router with a smaller MTU than the interface reports it (ICMP "fragmentation needed", IPv6
// "packet too big"). The link hears it by raw sockets of its own, since the kernel knows no socket
// with the ports of the packet, and honours it for 10 minutes: longer packets are counted in
// edge.Path.TooLong. With Options.VLAN it hears nothing. It also follows the mtu of a route.
package xdp
