// Package rstream is the subcommand rstream: streams of data back and forth
// over an rsocket, as rstream of librdmacm does, either side of which may be the
// original; and riostream, the same by WRITEs into mappings.
//
// Options, text on standard output and wire are those of the original. Calls
// wait, whatever -T says of blocking: with librdmacm that is a difference in how
// a process waits, which is not visible from outside. -T fork is -T sockets,
// which in turn is TCP.
package rstream
