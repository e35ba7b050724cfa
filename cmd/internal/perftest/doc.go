// Package perftest is the eight tests of perftest, send_bw to atomic_lat, either side of which may
// be the original (ib_send_bw and so on, version 6.06 or later).
//
// A test has four parts. The preamble over TCP agrees on version, page size,
// cache line and MTU. Then keys of all QPs are exchanged and the QPs connected.
// Then the test runs; which TCP messages surround it is different for each
// test, see session.go. At the end the sides exchange what they measured.
//
// Every exchange is symmetric: the client writes and then reads, the server reads and then writes.
// Where only an order is needed (a barrier), the keys of the first QP are exchanged once more.
//
// A session runs in one goroutine; only the watchdog and the end of -D come from timers.
//
// Differences from the originals, none of which the peer sees: small messages are posted in
// batches; the standard deviation is not rounded to whole microseconds; with an unreliable
// transport, a test in which nothing arrives for two minutes fails.
package perftest
