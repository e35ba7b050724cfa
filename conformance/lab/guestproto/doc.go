// Package guestproto is the protocol between the lab and labd, the daemon inside a
// guest: one TCP connection for each command, carrying frames of one type byte, a
// big-endian 32-bit length and the payload.
//
// The lab opens with a Request frame. An exec is answered by Stdout and Stderr frames and ends with
// one Exit frame; the lab may send Stdin frames (an empty one closes it) and Signal frames
// meanwhile. When the connection breaks, labd kills the process and its group. Put streams Stdin
// frames up to an empty one and is answered by Exit; Get is answered by Stdout frames and Exit.
//
// Beside that labd sends back the datagrams that come to the UDP port of the same number:
// lab.Pulse.
//
// Reads and writes of one Conn may run in two goroutines; writes are serialised.
package guestproto
