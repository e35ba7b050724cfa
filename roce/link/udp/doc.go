// Package udp is the link that needs no privilege: plain UDP sockets on port 4791, one for each
// local address.
//
// # ICRC without seeing the IP header
//
// The ICRC covers the IPv4 identification and the don't-fragment flag, which a socket can neither
// set nor see. An unconnected socket with IP_MTU_DISCOVER = IP_PMTUDISC_DO always sends
// identification 0 with DF, and numbers the segments of a UDP_SEGMENT send 0, 1, 2, ...: both were
// seen in captures on Linux 6.18. (A connected socket would send a running counter, so sockets here
// are never connected.) The identification of received packets is solved for, see
// [link.Flow.Check]. IPv6 has no identification.
//
// # Speed
//
// Packets of equal size to one peer by one source port leave in one sendmsg as a segmented
// datagram, whichever queue pairs they belong to, with the payload straight from registered memory;
// small payloads are copied together instead, which is faster than an iovec each. Several such
// datagrams share one sendmmsg. The packets of each path stay in order. Receiving sockets have
// UDP_GRO and take up to 64 KiB in a datagram, several in one recvmmsg. System calls that do not
// block bypass the Go scheduler.
//
// Both offloads can be switched off. Segmentation switches itself off when the kernel refuses a
// datagram whose packets it accepts one by one (some network drivers; some releases of Linux).
//
// # Sharing an address
//
// Up to 64 links, of any processes of one user, can have the same address: see package slots. Each
// has a slot of the queue pair numbers, and the kernel gives it the packets of those. A datagram
// with packets for several slots goes whole to the slot of its first packet, whose link hands the
// others on and counts them. Requests to queue pair 1 come to the first link that looks, and are
// handed on to the one that has announced the service. If the kernel, a policy, or a limit of open
// files does not permit that, the link does not share its addresses: Capabilities().Alone says why.
//
// # Source ports
//
// Connections leave by one of 4 source ports of each address, chosen by the port that they would
// have on a link that can set any, so that networks (ECMP) and receivers (RSS) spread them. There
// are only a few because each is a system call, and packets by different ports cannot share a
// datagram. For the same reason connections that carry little (edge.Path.Light) all leave by one of
// them. Packets to loopback addresses, and multicast, leave from 4791.
//
// # When a system call fails
//
//	sendmmsg  EAGAIN                     kept, and sent when the socket has room
//	          EINTR, fewer than asked    the rest is sent at once
//	          EIO, EINVAL, EMSGSIZE,     of a datagram of several packets: each by itself; if that
//	          EOPNOTSUPP                 works, segmentation is switched off, or down to 64 packets
//	          ECONNREFUSED, EPROTO,      from the sockets for queue pair 1, which hear of ICMP: about
//	          EHOSTUNREACH, ENETUNREACH  an earlier datagram, so it is sent again, 8 times
//	          EFAULT                     the memory of a payload is gone: its queue pair fails
//	          EBADF, ENOTSOCK, ENOTCONN  the link ends
//	          EPIPE, ECONNABORTED
//	          all others                 a drop that is counted: ENOBUFS, ENOMEM, EPERM, no route
//	recvmmsg  EAGAIN, EINTR              tried again
//	          ENOMEM, ENOBUFS            the same; only what a full receive buffer drops is lost
//	          ENETDOWN, EPERM, icmp(7)   passed over
//	          all others                 the link ends
//	ppoll     EINTR, ENOMEM, EAGAIN      a wait that ended early
//	          all others, POLLNVAL       the link ends
//
// Open goes on without source ports, GRO, segmentation, or large buffers if these are not
// available. When it fails it leaves nothing open.
//
// # Limits
//
// All of the above is for Linux. Other systems have [Plain], which [OpenAny] opens there. A link
// takes about 200 file descriptors for each address.
//
// Packets are never fragmented. A packet too long for the interface, or for a router on the path
// (ICMP "fragmentation needed", IPv6 "packet too big"), is dropped and counted in
// edge.Path.TooLong; the kernel remembers a router's message for some minutes.
//
// The link follows its interfaces by rtnetlink, without privilege ([Link.Watch]). Without
// rtnetlink, the MTU stays as at Open. If an interface is recreated, unicast continues; rejoin
// multicast groups (IPv6 needs that to send to them as well); reopen the link for link-local
// addresses.
package udp
