// Package transmit is the sending side that links share: the ICRC of packets sent ([ICRC]) and the
// counters ([Counters]); for links with sockets the way of packets into the kernel ([Sender]); and
// for links that write frames their state of a path ([Path]), and the packets whose neighbour is
// not known yet ([UnresolvedQueue]).
//
// # Concurrency
//
// An ICRC may be used from anywhere once it is set; Counters always, as may GSO, Full and Blocked
// of a Sender. The rest belongs to the sending side of a link.
package transmit
