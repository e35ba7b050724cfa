// Package soak runs a service for hours and looks for what grows or stops.
//
// There are four processes, of which two can be killed:
//
//   - the server and the client stay for the whole run, and are measured. They are stopped (SIGSTOP) for 10 seconds, in
//     turns;
//   - a mortal server and a mortal client are killed (SIGKILL), stopped for up to 3 seconds, and started again at the same place.
//
// Both clients keep connections to both servers, with [roce.Conn] (messages, WRITE, READ,
// FETCH_ADD) and with [rsocket.Conn] (streams). Most live for a second and end in one of several
// ways, a few live as long as the network lets them. Every byte that comes back is compared.
// Packets are lost at the client that stays, in both directions. In every second of three periods
// the link between the two sides goes down and up for up to 4 seconds, in every third its MTU
// changes.
//
// # What fails a run
//
//   - wrong data, or an operation that does not end;
//   - an error of a kind that no disturbance makes, such as a refused access;
//   - any error between the two processes that stay, unless the MTU of the link has changed within [explains], or the link was down and
//     a connection was being made: connections survive a peer that stands still, and a link that is down;
//   - clients that are not back at a server [returnTime] after it was killed and started again;
//   - a pair of processes that has exchanged nothing in a period, on either kind of connection;
//   - a rest that does not settle. Each period ends with one: the clients close what is not meant to
//     last, and within [settleTime] each server must have exactly the connections that the clients have;
//   - growth: at the rests, the largest value of the last third is more than a tenth, and a constant, above
//     the largest of the first third. That goes for heap, resident memory, goroutines, threads, descriptors, slots of the
//     address, protection domains and regions, and what the communication manager holds (see [limits]).
//
// How long exchanges between the two that stay took, in the first third and in the last, is printed
// and does not fail a run: it depends on what else the machine does.
//
// As root the two sides are network namespaces with a veth pair. Otherwise they are two loopback
// addresses, and nothing happens to the link.
package soak
