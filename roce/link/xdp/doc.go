// Package xdp is the link that writes and reads whole frames through AF_XDP
// sockets, around the kernel's network stack. It needs CAP_NET_ADMIN, CAP_BPF
// and CAP_NET_RAW.
//
// # What it has over the others
//
// With a driver that does zero-copy, frames go between the card and this
// process's memory. Received packets are seen without a system call, so that
// spinning (Options.Spin) has the least latency of all links. In copy mode each frame
// costs what a frame costs, because there is no segmentation offload: bulk data over virtual
// interfaces is faster with the udp and packet links.
//
// CPU time of one thread that drives both ends without blocking, kernel included, for half
// a round trip of 64 bytes over veth, medians of 3 interleaved rounds (go test -bench . -cpu 1
// ./roce/link/xdp): native copy 3.4 us, generic 3.6 us, packet link 4.5 us, udp link 6.1 us.
//
// # Modes
//
// The program is attached in the driver (native) or in the stack (generic), and
// the sockets are bound zero-copy or copy, with frames in several buffers
// (multi-buffer) or not. The ways are tried in that order, except that multi-buffer goes first
// where the interface's MTU needs it: without it a frame must fit a
// chunk, and the path MTU is 2048 at most, which MTU and Watch say. Capabilities().Mode
// says what became of it.
//
// Zero copy has been run with virtio_net of Linux 7.2 in a QEMU guest, against rdma_rxe of 6.12 in
// another one: "native zero-copy" with an MTU of 1500. With 9000 it is "native copy multi-buffer",
// because that driver takes frames in several buffers with copying only. The guest's device needs
// disable-legacy=on,iommu_platform=on: the driver has no DMA device otherwise, and refuses.
// conformance/README.md has the command.
//
// # Program
//
// Frames to the MAC address of the interface or a group, with the VLAN tag of the
// options or none, with UDP to port 4791 at one of the addresses of the link,
// go to the socket of the queue they came by; all else passes to the kernel. What
// concerns loopback addresses must come by the loopback interface. The program is held
// by a BPF link, so that it goes when the process does, however it ends.
//
// The port is reserved by UDP sockets that receive nothing: nobody else can have it,
// and the kernel answers nothing that passes with an ICMP error.
//
// # Frames
//
// Single packets carry IPv4 identification 0 and UDP checksum 0, as rdma_rxe
// sends them. Packets in one chunk are handed up where they are, others are put together.
// A run of packets that a peer on the same machine has sent with segmentation offload, and that
// nobody has cut up, comes up in generic mode only: see run.
//
// # Invariants
//
//   - A chunk of the UMEM belongs to this process or to the kernel, and a ledger says
//     to which. One that is handed over twice, or comes back without having been handed
//     over, makes the link fail instead of corrupting a packet.
//   - The chunks for receiving belong to the receiving side, those for sending to the
//     sending side: there is no lock between them.
//   - A chunk that was handed up goes back to the kernel by the next Recv.
//
// # When the interface or the program goes
//
// The kernel lets no other program replace the link's, but whoever may can detach it, and
// an interface can be removed. Both end the link's use of that interface for good,
// even if one of its name comes again: the port goes down, what would leave by it is
// unreachable, and with the last interface Wait and Recv fail with a [DetachedError],
// which closes a device and is in the errors of its calls. A program that is detached is
// noticed with the next change of the interface; the kernel tells nobody.
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
// Packets are counted as sent when they are in the ring, and as dropped when 4 MiB wait for that.
// Who polls all the time sees that a socket is gone when it sends, or when a timer runs.
//
// # Neighbours, VLAN
//
// As with package packet: routes and MAC addresses are the kernel's, a
// bounded number of packets waits for a neighbour, and what cannot be sent is counted.
// VLAN tags that the card takes off are not seen: with Options.VLAN switch that off
// (ethtool -K DEVICE rxvlan off).
//
// # Limits
//
// Linux, Ethernet and loopback interfaces only. An interface has one XDP program: one process with
// this link per interface. Packets leave by the interfaces of the link's addresses; one with a
// route by another is unreachable. That holds for the machine's own addresses, too, whose route is
// by the loopback interface, unless the link has a loopback address. All receive queues of an
// interface are served, 64 at most.
//
// A router that has a smaller MTU than the interface says so (ICMP "fragmentation needed", IPv6
// "packet too big"). The link hears it by raw sockets of its own, since the kernel knows no socket
// with the ports of the packet, and believes it for 10 minutes: longer packets are counted in
// wire.Path.TooLong. With Options.VLAN nothing is heard. The mtu of a route is followed, too.
package xdp
