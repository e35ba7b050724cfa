// Package transmit is the sending side that links have in common: the ICRC of
// packets sent ([ICRC]) and the counters ([Counters]).
//
// # Concurrency
//
// An ICRC may be used from anywhere once it is set; Counters always.
package transmit
