// Package packet is the link that writes and reads whole frames through AF_PACKET sockets. It needs
// CAP_NET_RAW.
//
// # What it has over a UDP socket
//
// It sees the IPv4 identification, so it checks the ICRC with all its bits. Receiving costs more
// than with a UDP socket, because the kernel also takes every frame through its own IP stack.
//
// # Receiving
//
// Single packets come through a ring in memory shared with the kernel (TPACKET_V2), seen without a
// system call. Runs of packets, which do not fit its slots, wait in the socket's queue
// (PACKET_COPY_THRESH) and are read by batched calls (recvmmsg); their slots in the ring keep the
// order. CPU time of one thread that drives both ends, kernel included, medians of 3 interleaved
// rounds over veth (go test -bench . -cpu 1 ./roce/link/packet): half a round trip of 64 bytes
// takes 3.9 us with the ring, 4.6 us without, 5.7 us on the udp link; bulk, single or in runs, of
// 64 to 4096 bytes a packet, costs the same with and without, within the noise of 10 to 20 %. The
// ring is therefore on by default ([Options].DisableRing). Capabilities().Mode says "ring" or
// "queue".
//
// # Frames
//
// Packets of equal size to one peer by one source port leave as one frame, whichever queue pairs
// they belong to, with a virtio header (PACKET_VNET_HDR) that asks for UDP segmentation. The kernel
// or the card cuts it up and numbers the IPv4 identifications upwards from that in the frame, which
// is 0. Single packets carry UDP checksum 0, as rdma_rxe sends them; a run needs one, which the
// card fills in. Frames that were never segmented, as between two network namespaces, or that the
// card coalesced, arrive as one, and the virtio header says how to split them. UDP checksums of
// received packets are ignored: they may be partial, and the ICRC covers more. Fragments and IPv4
// options are neither sent nor accepted.
//
// Before Linux 6.2 the virtio header cannot say how to split a run. There packets leave one by one,
// and the kernel drops a run that a udp link on the same machine has sent and nobody cut up on the
// way, again when it is repeated, until the connection ends with "retry counter exceeded". "ethtool
// -K DEVICE tx-udp-segmentation off" on that link's veth mends it.
//
// A filter in the kernel passes only unicast and multicast UDP to port 4791 for the addresses of
// the link; packets from or to loopback addresses must come by the loopback interface.
//
// UDP sockets that receive nothing reserve the port: otherwise the kernel would answer every packet
// with an ICMP error.
//
// # Sharing an address
//
// Up to 64 links, of any processes of one user, can have the same address, including udp links: see
// package slots. The filter of each passes the packets of its slot, and messages to queue pair 1,
// of which each takes its own. A coalesced frame goes to the link of its first packet, which hands
// the others on. A link with a link-local address, or one limited in its open files, does not share
// its addresses: Capabilities().Alone says why.
//
// # Source ports
//
// Connections leave by one of 4 source ports, chosen by the port that they would have on a link
// that can use any, so that networks (ECMP) and receivers (RSS) spread them. There are only a few
// because packets by different ports, or with different IPv6 flow labels, cannot share a frame. For
// the same reason connections that carry little (edge.Path.Light) all leave by one of them, with
// flow label 0. Multicast keeps its port.
//
// # Neighbours
//
// Routes and MAC addresses are the kernel's (package nexthop). While a neighbour is being resolved
// a bounded number of packets is kept. Packets to destinations without a route, with a neighbour
// that does not answer, or behind an interface that is down are counted in Stats.TxUnreachable and
// in the Path. A packet longer than the MTU of the interface or route is dropped.
//
// # When the interface goes
//
// If an interface is removed or switched off, the port goes down (Watch), and packets that would
// leave by it are unreachable. If it is made again, or its address moves to another interface,
// whatever the name and index, the link goes on there: port state, VLAN and the multicast groups
// follow. A group that cannot be joined there is not received.
//
// # VLAN
//
// Addresses on a VLAN interface of the kernel need nothing. With [Options.VLAN] the link tags and
// filters by itself, on an interface without a VLAN interface above it.
//
// # When a system call fails
//
//	sendmmsg  EAGAIN                     kept, and sent when the socket has room
//	          EINTR, fewer than asked    the rest is sent at once
//	          EIO, EINVAL, EMSGSIZE,     of a frame of several packets: each by itself; if that
//	          EOPNOTSUPP                 works, segmentation is switched off, or down to 64 packets
//	          ENETDOWN, ENXIO, ENODEV    a drop: the peer is unreachable
//	          EFAULT                     the memory of a payload is gone: its queue pair fails
//	          EBADF, ENOTSOCK, ENOTCONN  the link ends
//	          EPIPE, ECONNABORTED
//	          all others                 a drop that is counted: ENOBUFS of a full queue, ENOMEM
//	recvmmsg  EAGAIN                     nothing is there, whatever a slot of the ring says
//	          EINVAL                     no virtio header can describe the frame, which is gone
//	          EINTR, ENOMEM, ENOBUFS,    tried again; the frame and its slot stay
//	          ENETDOWN
//	          all others                 the link ends
//	ppoll     EINTR, ENOMEM, EAGAIN      a wait that ended early
//	          all others, POLLNVAL       the link ends
//
// The ring is read without system calls. The next poll notices that its socket is gone; without
// polls, the next timer does. Without memory for a ring the link reads the queue.
//
// # Limits
//
// Between programs on one machine the link reaches only other packet links: the kernel gives a
// socket no frame whose source is the machine's own address, unless it has routed it itself.
//
// Only Linux, and Ethernet and loopback interfaces. Coalescing on receive is a property of the
// interface, switched with `ethtool -K DEV gro off`. Segmentation can be switched off, and switches
// itself off if it is refused. A network card that offloads UDP segmentation must count up IPv4
// identifications, as the kernel's own segmentation does.
//
// A router with a smaller MTU than the interface reports it (ICMP "fragmentation needed", IPv6
// "packet too big"). The link hears it by raw sockets of its own, since the kernel knows no socket
// with the ports of the packet, and honours it for 10 minutes: longer packets are counted in
// edge.Path.TooLong. With Options.VLAN it hears nothing. It also follows the mtu of a route.
package packet
