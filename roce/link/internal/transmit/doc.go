// Package transmit is the sending side that links have in common: the ICRC of
// packets sent ([ICRC]) and the counters ([Counters]); and for links that write frames,
// what they keep of a path ([Path]), and the packets whose neighbour is not known yet
// ([UnresolvedQueue]).
//
// # Concurrency
//
// An ICRC may be used from anywhere once it is set; Counters always. The rest belongs to
// the sending side of a link.
package transmit
