// Package transmit is the sending side that links have in common: the ICRC of
// packets sent ([ICRC]) and the counters ([Counters]); for links with sockets all that
// becomes of packets until they are in the kernel ([Sender]); and for links that write frames,
// what they keep of a path ([Path]), and the packets whose neighbour is not known yet
// ([UnresolvedQueue]).
//
// # Concurrency
//
// An ICRC may be used from anywhere once it is set; Counters always, and GSO, Full and Blocked of a
// Sender. The rest belongs to the sending side of a link.
package transmit
